"""The four ways to fail at a point."""

from collections.abc import Mapping
from enum import StrEnum

import psycopg

from faults.crash.points import Boundary, Failure
from faults.crash.server import Server


class Way(StrEnum):
    """How a point fails."""

    CLIENT_KILLED = "client killed before it is sent"
    BACKEND_KILLED = "backend killed before it answers"
    ANSWER_DROPPED = "answer dropped"
    SERVER_STOPPED = "server stopped at once"


class Killed(BaseException):
    """The process is gone; nothing of it may catch this."""


class ClientKilled:
    """Nothing is sent any more, by any connection of the process."""

    def before(self, connection: Boundary) -> None:
        connection.cut()
        raise Killed

    def sent(self, connection: Boundary) -> None:
        """It never is."""

    def answered(self, connection: Boundary) -> None:
        """It never is."""


class BackendKilled:
    """The server's process ends while it works, or just after: both are legal."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._is_done = False

    def before(self, connection: Boundary) -> None:
        """It is to arrive."""

    def sent(self, connection: Boundary) -> None:
        self._is_done = True
        self._server.terminate(connection.info.backend_pid)  # type: ignore[attr-defined]

    def answered(self, connection: Boundary) -> None:
        if not self._is_done:
            self.sent(connection)


class AnswerDropped:
    """It was done, and whoever asked for it is not told."""

    def before(self, connection: Boundary) -> None:
        """It is to arrive."""

    def sent(self, connection: Boundary) -> None:
        """It is to be done."""

    def answered(self, connection: Boundary) -> None:
        connection.cut()
        raise psycopg.OperationalError("the connection was lost before the answer came")


class ServerStopped:
    """Every process of the server ends at once, and nothing is written any more."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def before(self, connection: Boundary) -> None:
        """It is to arrive."""

    def sent(self, connection: Boundary) -> None:
        self._server.stop_at_once()

    def answered(self, connection: Boundary) -> None:
        self._server.stop_at_once()


def failure(way: Way, server: Server) -> Failure:
    """Answer what is to happen at the point."""
    ways: Mapping[Way, Failure] = {
        Way.CLIENT_KILLED: ClientKilled(),
        Way.BACKEND_KILLED: BackendKilled(server),
        Way.ANSWER_DROPPED: AnswerDropped(),
        Way.SERVER_STOPPED: ServerStopped(server),
    }
    return ways[way]
