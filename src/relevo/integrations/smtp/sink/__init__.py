"""A local SMTP server for demonstrations and tests. Needs the extra `demo`."""

from relevo.integrations.smtp.sink.server import LocalServer
from relevo.integrations.smtp.sink.sink import BUSY, UNKNOWN_USER, Received, Sink
from relevo.integrations.smtp.sink.temper import (
    Choice,
    Shares,
    Temper,
    Tempers,
    by_address,
    by_share,
    choose,
)

__all__ = [
    "BUSY",
    "UNKNOWN_USER",
    "Choice",
    "LocalServer",
    "Received",
    "Shares",
    "Sink",
    "Temper",
    "Tempers",
    "by_address",
    "by_share",
    "choose",
]
