"""How a channel reaches its server: values, checked once, that show no secret.

Reading them from a URL and from the environment belongs to environment.py.
"""

import re
import ssl
from base64 import b64encode
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from relevo.integrations.smtp.errors import BadMailSetting
from relevo.integrations.smtp.mailbox import Mailbox
from relevo.integrations.smtp.routing import Routing

DEFAULT_CONNECTIONS: Final = 4
_GREETING = re.compile(r"[A-Za-z0-9.:_\[\]-]{1,255}")


class Tls(StrEnum):
    """How the conversation is encrypted."""

    IMPLICIT = "implicit"
    STARTTLS = "starttls"
    OFF = "off"


class Secret:
    """A password that no repr, format, comparison or pickle shows."""

    __slots__ = ("_value",)

    def __init__(self, value: str = "") -> None:
        self._value = value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return "Secret(***)" if self else "Secret()"

    def __reduce__(self) -> str | tuple[object, ...]:
        """Refuse to be copied into a pickle."""
        raise TypeError("a secret is not pickled")

    def reveal(self) -> str:
        """Answer the password, for the server alone."""
        return self._value


@dataclass(frozen=True, slots=True)
class Rate:
    """How many mails a process sends in a time, at most.

    Attributes:
        mails: How many.
        per: In how long.
    """

    mails: float
    per: timedelta

    @property
    def bucket(self) -> tuple[float, float]:
        """Capacity and seconds of a bucket that never bursts beyond one second's share."""
        each_second = self.mails / self.per.total_seconds()
        capacity = max(1.0, each_second)
        return capacity, capacity / each_second


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long the channel waits for the server.

    Attributes:
        connect: For the name, the connection, the greeting, TLS and AUTH, each.
        reply: For the answer to a command.
        message: For the answer after the final dot; long, because giving up there is what
            makes a second delivery possible.
    """

    connect: timedelta = timedelta(seconds=10)
    reply: timedelta = timedelta(seconds=30)
    message: timedelta = timedelta(seconds=120)


def is_loopback(host: str) -> bool:
    """Whether a host can only be this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost" or host.lower().endswith(".localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpSettings:
    """Everything a channel needs to know.

    Attributes:
        host: The server's name or address.
        port: Its port.
        sender: Who the mails are from.
        tls: How the conversation is encrypted; the certificate is always verified.
        user: Whom to log in as; empty for nobody.
        password: The password, which is never shown.
        plain_auth: Whether the password may travel unencrypted to another machine.
        ca_file: Certificates to trust instead of the system's.
        helo: The name to greet with; empty takes the sender's domain.
        rate: The most that one process sends; None for no limit.
        connections: The most connections that one process holds.
        idle_for: How long an unused connection stays open.
        mails_per_connection: After how many mails a connection is replaced.
        timeouts: How long to wait for the server.
        routing: Who may be written to from here.

    Raises:
        BadMailSetting: A value that cannot be used, or a password that would travel in the clear.
    """

    host: str
    port: int
    sender: Mailbox
    tls: Tls = Tls.STARTTLS
    user: str = ""
    password: Secret = field(default_factory=Secret)
    plain_auth: bool = False
    ca_file: Path | None = None
    helo: str = ""
    rate: Rate | None = None
    connections: int = DEFAULT_CONNECTIONS
    idle_for: timedelta = timedelta(seconds=30)
    mails_per_connection: int = 100
    timeouts: Timeouts = field(default_factory=Timeouts)
    routing: Routing = field(default_factory=Routing)

    def __post_init__(self) -> None:
        """Refuse what could not work, or would give the password away."""
        if self.connections < 1:
            raise BadMailSetting(
                name="connections", problem="is less than 1", remedy="allow at least one"
            )
        if self.helo and not _GREETING.fullmatch(self.helo):
            raise BadMailSetting(
                name="RELEVO_SMTP_HELO",
                problem="is not a host name",
                remedy="write a name such as mail.example.com",
            )
        if self.user and self.tls is Tls.OFF and not self.plain_auth and not self.is_loopback:
            raise BadMailSetting(
                name="RELEVO_SMTP_URL",
                problem="has a password that would travel unencrypted to another machine",
                remedy="use smtps:// or starttls=required, or say plain_auth=allow",
            )

    @property
    def is_loopback(self) -> bool:
        """Whether the server is on this machine."""
        return is_loopback(self.host)

    @property
    def server(self) -> str:
        """Host and port, for people to read."""
        return f"{self.host}:{self.port}"

    @property
    def domain(self) -> str:
        """The sender's domain, for Message-IDs and for the greeting."""
        return self.sender.domain

    @property
    def greeting(self) -> str:
        """The name for EHLO: the sender's domain, which takes no look-up and tells no secret."""
        name = self.helo or self.domain
        return name if name.isascii() else "localhost"

    def spelled_secrets(self) -> tuple[str, ...]:
        """Every form in which the password goes to the server, so that no reply shows it."""
        if not self.password:
            return ()
        user, password = self.user.encode(), self.password.reveal().encode()
        encoded = (b64encode(password), b64encode(b"\0" + user + b"\0" + password))
        return (self.password.reveal(), *(form.decode() for form in encoded))

    def tls_context(self) -> ssl.SSLContext | None:
        """Answer the context that verifies the server, or None without TLS.

        Raises:
            BadMailSetting: The file of certificates cannot be read.
        """
        if self.tls is Tls.OFF:
            return None
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise BadMailSetting(
                name=f"ca={self.ca_file}",
                problem="cannot be read as certificates",
                remedy="give a PEM file that this user can read",
            ) from error
