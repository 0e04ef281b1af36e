"""What a runner refuses before anything reaches the database."""

from typing import ClassVar

from relevo.errors import RelevoError


class UnknownConnection(RelevoError):
    """The object is not a connection that relevo can work on."""

    template: ClassVar[str] = (
        "%(given)s is not a connection that relevo works on; give one of "
        "psycopg.Connection, psycopg.AsyncConnection, asyncpg.Connection, "
        "SQLAlchemy's Connection, Session, AsyncConnection and AsyncSession "
        "(over psycopg, psycopg2 or asyncpg), or Django's connection to PostgreSQL"
    )


class NeedsSyncConnection(UnknownConnection):
    """An asynchronous connection was given where nothing can be awaited."""

    template: ClassVar[str] = (
        "%(given)s must be awaited, and this call is synchronous; "
        "await the asynchronous call, or give a synchronous connection"
    )


class NeedsAsyncConnection(UnknownConnection):
    """A synchronous connection was given to a call that awaits."""

    template: ClassVar[str] = (
        "%(given)s is synchronous and would block the event loop of this call; "
        "use the synchronous call in a thread, or give an asynchronous connection"
    )


class NotInTransaction(RelevoError):
    """The connection commits by itself, and the work needs one commit for several steps."""

    template: ClassVar[str] = (
        "'%(statement)s' needs a transaction, and this connection commits each statement "
        "by itself; open a transaction around the call (%(remedy)s)"
    )


class OperationSpent(RelevoError):
    """The same operation was given to a runner twice."""

    template: ClassVar[str] = (
        "the operation %(operation)s already ran, and an operation runs once; "
        "make a new one for each attempt"
    )
