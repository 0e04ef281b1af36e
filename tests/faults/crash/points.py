"""The driver boundary: connections on which every statement is a numbered point.

A point is a statement, or one of the commands around a transaction, on the connection of one
role. Nothing here knows what is worked on; a failure that is due is carried out by `ways`.
"""

import os
import socket
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol
from unittest.mock import patch

import psycopg
from psycopg import pq
from psycopg._preparing import Prepare, PrepareManager

from faults.crash.names import migration_texts, name_of
from relevo.db.drivers import psycopg as _runner  # noqa: F401 -- while its classes are psycopg's own


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """A statement boundary.

    Attributes:
        role: Whose connection it is, such as `claim`.
        name: The statement's name, or BEGIN, COMMIT, ROLLBACK.
    """

    role: str
    name: str


class Failure(Protocol):
    """What happens at one point."""

    def before(self, connection: "Boundary") -> None:
        """The statement is about to be sent."""

    def sent(self, connection: "Boundary") -> None:
        """It is on its way, and its answer is not read yet."""

    def answered(self, connection: "Boundary") -> None:
        """The answer is here."""


class Points:
    """The points that a run has met, in order, and the failure that is due at one of them.

    Args:
        fail_at: The number of the point to fail at, from 1; None fails nowhere.
        failure: How.
    """

    def __init__(self, fail_at: int | None = None, failure: Failure | None = None) -> None:
        self.seen: list[Point] = []
        self.is_counting = False
        self.failed_at: Point | None = None
        self._fail_at = fail_at
        self._failure = failure
        self._opened: list[Boundary] = []

    def opened(self, connection: "Boundary") -> None:
        """Remember a connection, to be cut when its process dies."""
        self._opened.append(connection)

    def met(self, role: str, name: str) -> Failure | None:
        """Count one point; answer the failure that is due there."""
        if not self.is_counting:
            return None
        self.seen.append(Point(role, name))
        if len(self.seen) != self._fail_at:
            return None
        self.failed_at = self.seen[-1]
        return self._failure

    def cut_all(self) -> None:
        """Let every connection end as when their process is killed: without a good-bye."""
        for connection in self._opened:
            connection.cut()
        self._opened.clear()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count what is sent inside."""
        self.is_counting = True
        try:
            yield
        finally:
            self.is_counting = False


class Boundary:
    """What both sorts of connection do at each point; to be mixed into psycopg's classes."""

    points: ClassVar[Points] = Points()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._points = self.points
        self._failure: Failure | None = None
        self._is_sent = False
        self._prepared = _Statements(self)
        self._points.opened(self)

    @property
    def role(self) -> str:
        """Whose connection it is: the second word of its application's name."""
        return role_of(self.info.get_parameters().get("application_name", ""))  # type: ignore[attr-defined]

    def at(self, text: str) -> None:
        """Stand at a point: what follows is sent, unless it fails here."""
        self._failure = self._points.met(self.role, name_of(text))
        self._is_sent = False
        if self._failure is not None:
            self._failure.before(self)

    def cut(self) -> None:
        """End it without a word to the server."""
        _cut(self)

    def _exec_command(self, command: Any, result_format: pq.Format = pq.Format.TEXT) -> Any:
        self._check_connection_ok()  # type: ignore[attr-defined]
        self.at(command.decode() if isinstance(command, bytes) else command.as_string())
        result = yield from super()._exec_command(command, result_format)  # type: ignore[misc]
        self._answer()
        return result

    def _watch(self, steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Go through the steps of a statement; where they first wait, it has been sent."""
        ready: Any = None
        try:
            while True:
                wanted = steps.send(ready)
                if self._failure is not None and not self._is_sent:
                    self._is_sent = True
                    self._failure.sent(self)
                ready = yield wanted
        except StopIteration as stop:
            self._answer()
            return stop.value

    def _answer(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            failure.answered(self)


class _Statements(PrepareManager):
    """Asked about every statement just before it is sent, so it says where the point is."""

    def __init__(self, connection: Boundary) -> None:
        super().__init__()
        self._connection = connection

    def get(self, query: Any, prepare: bool | None = None) -> tuple[Prepare, bytes]:  # noqa: FBT001 -- psycopg's
        self._connection.at(query.query.decode())
        return super().get(query, prepare)


class Watched(Boundary, psycopg.Connection[Any]):
    """A connection that stops at every point."""

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        return super().wait(self._watch(gen), *args, **options)

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        """Execute; the statements of a migration one by one, each a point of its own."""
        if isinstance(query, bytes) and query in migration_texts():
            for statement in migration_texts()[query]:
                cursor = super().execute(statement.encode(), None, **options)
            return cursor
        return super().execute(query, params, **options)


class WatchedAsync(Boundary, psycopg.AsyncConnection[Any]):
    """The same, awaited."""

    async def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        return await super().wait(self._watch(gen), *args, **options)


@contextmanager
def watched(points: Points) -> Iterator[Points]:
    """Let every connection that is opened inside stop at its points."""
    with (
        patch.object(Boundary, "points", points),
        patch.object(psycopg, "connect", Watched.connect),
        patch.object(psycopg, "AsyncConnection", WatchedAsync),
    ):
        yield points


def role_of(program: str) -> str:
    """Answer whose connection it is by the name of its application: its second word."""
    return [*program.split(" "), ""][1]


def _cut(connection: Any) -> None:
    if not connection.closed:
        with socket.socket(fileno=os.dup(connection.pgconn.socket)) as wire:
            wire.shutdown(socket.SHUT_RDWR)
        connection.pgconn.finish()
