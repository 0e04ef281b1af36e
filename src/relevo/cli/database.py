"""Find the database of a command, and speak to it as the right role.

The first of these decides: --dsn, RELEVO_DSN, DATABASE_URL, and else an embedded
server, started when needed and stopped when its last user leaves. A password is never
part of what is said.
"""

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo, timeout_from_conninfo

from relevo.api import perform
from relevo.cli.errors import (
    DatabaseMissing,
    DatabaseUnreachable,
    EmptyDsn,
    LoginRefused,
    RoleNotAllowed,
    UnreadableDsn,
)
from relevo.db.connect import with_patience
from relevo.db.dsn import with_session
from relevo.db.embedded import Embedded, default_root
from relevo.db.pooler import fit
from relevo.db.session import set_tenant

VARIABLES: Final = ("RELEVO_DSN", "DATABASE_URL")
LISTEN_VARIABLE: Final = "RELEVO_LISTEN_DSN"

_SECRETS: Final = {"password", "sslpassword", "oauth_client_secret"}
_DRIVER: Final = re.compile(r"^postgres(ql)?\+\w+://")


@dataclass(frozen=True, slots=True)
class Database:
    """Where a command works.

    Attributes:
        dsn: The connection string, password included; show `address` or `shown_dsn` instead.
        listen_dsn: A direct connection for LISTEN; None means the same, "" means none.
        embedded: The embedded server, where there is one.
    """

    dsn: str
    listen_dsn: str | None = None
    embedded: Embedded | None = None

    @property
    def address(self) -> str:
        """User, host, port and database, fit to be shown."""
        return redact(self.dsn)

    @property
    def shown_dsn(self) -> str:
        """The connection string as it may be shown: whoever uses it brings the password.

        An embedded server's has none, and is answered as it is.
        """
        parts = conninfo_to_dict(self.dsn)
        if not parts.keys() & _SECRETS:
            return self.dsn
        return make_conninfo("", **{k: v for k, v in parts.items() if k not in _SECRETS})

    @contextmanager
    def connect(
        self, role: str | None = None, *, settings: Mapping[str, str] | None = None
    ) -> Generator[psycopg.Connection[tuple[Any, ...]], None, None]:
        """Open a connection that commits by itself.

        Args:
            role: The role to work as; None is the login's own.
            settings: PostgreSQL settings that the session begins with.

        Raises:
            DatabaseUnreachable: Nobody answers, or nobody is let in.
            RoleNotAllowed: The login may not work as `role`.
        """
        dsn = with_session(self.dsn, role=role, settings=settings, application_name="relevo cli")
        try:
            connection = psycopg.connect(with_patience(dsn), autocommit=True)
        except psycopg.OperationalError as error:
            if role is not None and self._answers():
                raise RoleNotAllowed(
                    dsn=self.address, role=role, reason=reason_of(error)
                ) from error
            raise self.unreachable(error) from error
        with connection:
            fit(connection)
            yield connection

    @contextmanager
    def transaction(
        self, role: str, tenant_id: UUID | None = None
    ) -> Generator[psycopg.Connection[tuple[Any, ...]], None, None]:
        """Open a connection and one transaction that ends with the block.

        Args:
            role: The role to work as.
            tenant_id: Whose rows the transaction sees and writes.
        """
        with self.connect(role) as connection, connection.transaction():
            if tenant_id is not None:
                perform(connection, set_tenant(tenant_id))
            yield connection

    def require(self) -> None:
        """Refuse in our own words, before anything else is tried, where nobody answers.

        Raises:
            DatabaseUnreachable: Nobody answers, or nobody is let in.
        """
        with self.connect():
            pass

    def unreachable(self, error: psycopg.Error) -> DatabaseUnreachable:
        """Make of the driver's error one that says where and shows no secret."""
        return unreachable(self.address, error)

    def _answers(self) -> bool:
        try:
            psycopg.connect(with_patience(self.dsn)).close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def open_database(dsn: str | None, listen_dsn: str | None) -> Generator[Database, None, None]:
    """Find the database, and keep an embedded server running for the block.

    Args:
        dsn: What --dsn said.
        listen_dsn: What --listen-dsn said.

    Raises:
        EmptyDsn: A connection string was given, and is empty.
        UnreadableDsn: A connection string has no meaning.
        EmbeddedError: No connection string was given and no server can be started.
    """
    source, found = "--dsn", dsn
    for variable in VARIABLES:
        if found is None:
            source, found = variable, os.environ.get(variable)
    if listen_dsn:
        _check(listen_dsn, "--listen-dsn")
    elif listen_dsn is None and (listen_dsn := os.environ.get(LISTEN_VARIABLE)):
        _check(listen_dsn, LISTEN_VARIABLE)
    if found is not None:
        if not found.strip():
            # Falling back would work on another database than the one that was meant.
            raise EmptyDsn(source=source)
        # SQLAlchemy's way of naming a driver, often seen in DATABASE_URL, means nothing to libpq.
        found = _DRIVER.sub("postgresql://", found)
        _check(found, source)
        yield Database(found, listen_dsn)
        return
    with _embedded() as server:
        yield Database(server.dsn(), listen_dsn, server)


@contextmanager
def _embedded() -> Generator[Embedded, None, None]:
    """Run the embedded server for the block, and take it along when a signal ends the block.

    A signal that comes while the server starts waits until it has: a start that is broken
    off would leave the server running alone.
    """
    server = Embedded(default_root())
    pending: list[int] = []
    is_started = False

    def leave(number: int, _frame: FrameType | None) -> None:
        if not is_started:
            pending.append(number)
            return
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)

    with _handling(leave), server:
        is_started = True
        for number in pending:
            leave(number, None)
        yield server


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], None]) -> Generator[None, None, None]:
    """Handle the signals that end a process; only a main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, handled in before.items():
            signal.signal(number, handled)


def redact(dsn: str) -> str:
    """Answer user, host, port and database of a connection string, nothing else."""
    parts = {**conninfo_to_dict(dsn)}
    user, host, port = (str(parts.get(name) or "") for name in ("user", "host", "port"))
    place = f"{user}@" if user else ""
    place += host or str(parts.get("hostaddr") or "") or "localhost"
    place += f":{port}" if port else ""
    return f"{place}/{parts.get('dbname') or user or ''}"


def reason_of(error: psycopg.Error) -> str:
    """Answer the server's or the driver's reason in one line."""
    text = error.diag.message_primary or str(error)
    lines = [line.strip(" \t-") for line in text.splitlines()]
    # libpq says the same for every address that it tried, and asks a question of its own.
    said = [line for line in lines if line and not line.startswith("Is the server running")]
    return said[-1] if said else type(error).__name__


def unreachable(address: str, error: psycopg.Error) -> DatabaseUnreachable:
    """Answer what a connection that did not come about is called, and what to do.

    Args:
        address: Where it was tried, fit to be shown.
        error: The driver's; it knows no code for this, only the server's words.
    """
    reason = reason_of(error)
    if "password" in reason:
        return LoginRefused(dsn=address, reason=reason)
    if "database" in reason and "does not exist" in reason:
        return DatabaseMissing(dsn=address, reason=reason)
    return DatabaseUnreachable(dsn=address, reason=reason)


def _check(dsn: str, source: str) -> None:
    try:
        parts = conninfo_to_dict(dsn)
        if "connect_timeout" in parts:
            timeout_from_conninfo(parts)
    except psycopg.ProgrammingError:
        # The driver's text quotes the string, and with it perhaps the password.
        raise UnreadableDsn(source=source) from None
    if _is_torn(dsn, str(parts.get("port") or "")):
        # A piece of the password stands in the host, the port or the database's name now.
        raise UnreadableDsn(source=source)


def _is_torn(dsn: str, ports: str) -> bool:
    """Say whether a mark in the password, not percent-encoded, has ended it too early."""
    scheme, separator, rest = dsn.partition("://")
    if not separator or scheme not in {"postgresql", "postgres"}:
        return False
    # libpq takes the first @ or / for the end of the login, and knows no second.
    end = next((mark for mark in rest if mark in "@/"), "")
    place = rest.partition("@")[2] if end == "@" else rest
    return "@" in place.partition("?")[0] or not all(
        port.isdigit() for port in ports.split(",") if port
    )
