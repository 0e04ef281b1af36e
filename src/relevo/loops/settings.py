"""What a worker is told before it starts."""

import os
import socket
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from relevo.model.checks import check_name, check_positive, check_several, check_type
from relevo.model.errors import InvalidOption

ENGINE_CONNECTIONS: Final = 6
"""Claim, settle, rescue, prune, listen and heartbeat; handlers' connections come on top."""

EXIT_HUNG: Final = 70
"""How a worker process ends that hung."""

LEAST_LEASE: Final = timedelta(milliseconds=100)
"""A shorter one is over before its renewal is answered, so no session would start anything."""


def _default_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The settings of one worker process.

    Attributes:
        dsn: Where the jobs are; may go through a pooler.
        listen_dsn: A direct connection for LISTEN; None means the same as `dsn`, and an
            empty text means none: the worker only polls.
        queues: The queues to serve.
        concurrency: How many jobs may run at once; also the number of threads for
            handlers that are plain functions.
        lease: How long the jobs of a silent worker stay its own, from a tenth of a second;
            the heartbeat is a third.
        poll: How long an idle worker waits before it looks again without being told.
        grace: How long running jobs may go on after a stop was asked for.
        connections: The most connections that handlers of each sort may hold.
        drain: Whether to stop once nothing is due.
        name: What people see in the list of workers.

    Raises:
        InvalidOption: A value is of another type, or no worker could work with it.
    """

    dsn: str
    listen_dsn: str | None = None
    queues: tuple[str, ...] = ("default",)
    concurrency: int = 32
    lease: timedelta = timedelta(seconds=30)
    poll: timedelta = timedelta(seconds=1)
    grace: timedelta = timedelta(seconds=30)
    connections: int = 8
    drain: bool = False
    name: str = field(default_factory=_default_name)

    def __post_init__(self) -> None:
        """Refuse settings that could not work."""
        check_several("queues", self.queues)
        for queue in self.queues:
            check_name("queue", queue)
        for option in ("lease", "poll"):
            check_positive(option, getattr(self, option))
        check_type("grace", self.grace, timedelta)
        if self.lease < LEAST_LEASE:
            raise InvalidOption(
                option="lease",
                value=str(self.lease),
                why="it would be over before a heartbeat has renewed it",
                next="pass a tenth of a second or more; 30 seconds is usual",
            )
        for option in ("concurrency", "connections"):
            value = getattr(self, option)
            if type(value) is not int or value < 1:
                raise InvalidOption(
                    option=option,
                    value=value,
                    why="it is a count",
                    next="pass a whole number from 1",
                )
        if not self.queues:
            raise InvalidOption(
                option="queues", value=(), why="a worker serves at least one", next="name a queue"
            )
