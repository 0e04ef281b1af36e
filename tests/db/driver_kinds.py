"""One small adapter for each kind of connection, so that one contract runs on all of them.

An adapter opens the connection as its library's users do, and translates "begin", "commit",
"roll back" and "savepoint" into that library. Asynchronous ones keep a loop of their own.
"""

import asyncio
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any
from uuid import uuid4

import asyncpg
import django
import psycopg
from django.conf import settings
from django.db import connection as django_connection
from django.db import connections, transaction
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from sqlalchemy import Engine, NullPool, create_engine
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import pooler
from relevo.db.drivers import run, run_async
from relevo.db.operation import Operation


class Undone(Exception):
    """The caller changes its mind inside a savepoint."""


class Adapter(ABC):
    connection: Any

    @abstractmethod
    def __init__(self, dsn: str, *, autocommit: bool) -> None: ...

    def begin(self) -> None:  # noqa: B027 - most libraries begin by themselves
        """Open a transaction, where the library does not do so by itself."""

    @abstractmethod
    def run(self, operation: Operation[Any]) -> Any: ...

    @abstractmethod
    def run_with_the_other_runner(self, operation: Operation[Any]) -> Any: ...

    @abstractmethod
    def savepoint(self, operation: Operation[Any], *, undo: bool = False) -> None:
        """Run the operation inside a savepoint, and undo it on demand."""

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def rollback(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class SyncAdapter(Adapter):
    def run(self, operation):
        return run(self.connection, operation)

    def run_with_the_other_runner(self, operation):
        return asyncio.run(run_async(self.connection, operation))

    def savepoint(self, operation, *, undo=False):
        with suppress(Undone), self.nested():
            self.run(operation)
            if undo:
                raise Undone

    @abstractmethod
    def nested(self) -> Any: ...

    def commit(self):
        self.connection.commit()

    def rollback(self):
        self.connection.rollback()


class AsyncAdapter(Adapter):
    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        if not hasattr(self, "loop"):
            self.loop = asyncio.Runner()
        return self.loop.run(work)

    def run(self, operation):
        return self.wait(run_async(self.connection, operation))

    def run_with_the_other_runner(self, operation):
        return run(self.connection, operation)

    def savepoint(self, operation, *, undo=False):
        async def inside():
            async with self.nested():
                await run_async(self.connection, operation)
                if undo:
                    raise Undone

        with suppress(Undone):
            self.wait(inside())

    @abstractmethod
    def nested(self) -> Any: ...

    def commit(self):
        self.wait(self.connection.commit())

    def rollback(self):
        self.wait(self.connection.rollback())

    def close(self):
        try:
            self.wait(self.close_all())
        finally:
            self.loop.close()

    @abstractmethod
    async def close_all(self) -> None: ...


class OnPsycopg(SyncAdapter):
    def __init__(self, dsn, *, autocommit):
        self.connection = psycopg.connect(dsn, autocommit=autocommit, row_factory=dict_row)

    def nested(self):
        return self.connection.transaction()

    def close(self):
        self.connection.close()


class OnPsycopgAsync(AsyncAdapter):
    def __init__(self, dsn, *, autocommit):
        connect = psycopg.AsyncConnection.connect
        self.connection = self.wait(connect(dsn, autocommit=autocommit, row_factory=dict_row))

    def nested(self):
        return self.connection.transaction()

    async def close_all(self):
        await self.connection.close()


class OnAsyncpg(AsyncAdapter):
    def __init__(self, dsn, *, autocommit):
        self.connection = self.wait(self.open(asyncpg_places(dsn)))

    async def open(self, places):
        return await asyncpg.connect(**places)

    def begin(self):
        self.transaction = self.connection.transaction()
        self.wait(self.transaction.start())

    def nested(self):
        return self.connection.transaction()

    def commit(self):
        self.wait(self.transaction.commit())

    def rollback(self):
        self.wait(self.transaction.rollback())

    async def close_all(self):
        await self.connection.close()


class OnAsyncpgPool(OnAsyncpg):
    async def open(self, places):
        self.pool = await asyncpg.create_pool(**places, min_size=1, max_size=1)
        return await self.pool.acquire()

    async def close_all(self):
        await self.pool.release(self.connection)
        await self.pool.close()


class OnSqlalchemy(SyncAdapter):
    driver = "psycopg"

    def __init__(self, dsn, *, autocommit):
        level = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
        self.engine = create_engine(
            f"postgresql+{self.driver}://", connect_args=places(dsn), poolclass=NullPool, **level
        )
        self.connection = self.open(self.engine)

    def open(self, engine: Engine) -> Any:
        return engine.connect()

    def nested(self):
        return self.connection.begin_nested()

    def close(self):
        self.connection.close()
        self.engine.dispose()


class OnSqlalchemyPsycopg2(OnSqlalchemy):
    driver = "psycopg2"


class OnSession(OnSqlalchemy):
    def open(self, engine):
        return Session(engine)


class OnSessionPsycopg2(OnSession):
    driver = "psycopg2"


class OnScopedSession(OnSqlalchemy):
    def open(self, engine):
        return scoped_session(sessionmaker(engine))


class OnSqlalchemyAsync(AsyncAdapter):
    driver = "psycopg"

    def __init__(self, dsn, *, autocommit):
        level = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
        where = asyncpg_places(dsn) if self.driver == "asyncpg" else places(dsn)
        if "statement_cache_size" in where:
            # SQLAlchemy prepares in any case; names that nobody else has are its way.
            where["prepared_statement_name_func"] = lambda: f"relevo_{uuid4().hex}"
        self.engine = create_async_engine(
            f"postgresql+{self.driver}://", connect_args=where, poolclass=NullPool, **level
        )
        self.connection = self.wait(self.open(self.engine))

    async def open(self, engine: AsyncEngine) -> Any:
        return await engine.connect()

    def nested(self):
        return self.connection.begin_nested()

    async def close_all(self):
        await self.connection.close()
        await self.engine.dispose()


class OnSqlalchemyAsyncpg(OnSqlalchemyAsync):
    driver = "asyncpg"


class OnAsyncSession(OnSqlalchemyAsync):
    async def open(self, engine):
        return AsyncSession(engine)


class OnAsyncSessionAsyncpg(OnAsyncSession):
    driver = "asyncpg"


class OnAsyncScopedSession(OnSqlalchemyAsyncpg):
    async def open(self, engine):
        # One scope for the whole test: each of its steps is a task of its own.
        return async_scoped_session(async_sessionmaker(engine), scopefunc=lambda: "test")


class OnDjango(SyncAdapter):
    alias = "default"

    def __init__(self, dsn, *, autocommit):
        configure_django()
        where = {key.upper(): value for key, value in places(dsn).items()}
        where["NAME"] = where.pop("DBNAME")
        connections[self.alias].settings_dict |= where
        self.connection = self.open()

    def open(self) -> Any:
        return django_connection

    def nested(self):
        return transaction.atomic(using=self.alias)

    def begin(self):
        self.atomic = transaction.atomic(using=self.alias)
        self.atomic.__enter__()

    def commit(self):
        self.atomic.__exit__(None, None, None)

    def rollback(self):
        transaction.set_rollback(True, using=self.alias)
        self.commit()

    def close(self):
        if connections[self.alias].in_atomic_block:
            self.rollback()
        connections[self.alias].close()


class OnDjangoAlias(OnDjango):
    """The connection itself instead of the proxy, with values bound by the server."""

    alias = "bound"

    def open(self):
        return connections[self.alias]


class OnDjangoPsycopg2(OnDjango):
    alias = "psycopg2"

    def open(self):
        return connections[self.alias]


KINDS: dict[str, Callable[..., Adapter]] = {
    "psycopg": OnPsycopg,
    "psycopg-async": OnPsycopgAsync,
    "asyncpg": OnAsyncpg,
    "asyncpg-pool": OnAsyncpgPool,
    "sqlalchemy-connection-psycopg": OnSqlalchemy,
    "sqlalchemy-connection-psycopg2": OnSqlalchemyPsycopg2,
    "sqlalchemy-session-psycopg": OnSession,
    "sqlalchemy-session-psycopg2": OnSessionPsycopg2,
    "sqlalchemy-scoped-session": OnScopedSession,
    "sqlalchemy-async-connection-psycopg": OnSqlalchemyAsync,
    "sqlalchemy-async-connection-asyncpg": OnSqlalchemyAsyncpg,
    "sqlalchemy-async-session-psycopg": OnAsyncSession,
    "sqlalchemy-async-session-asyncpg": OnAsyncSessionAsyncpg,
    "sqlalchemy-async-scoped-session": OnAsyncScopedSession,
    "django-proxy": OnDjango,
    "django-alias-server-binding": OnDjangoAlias,
    "django-psycopg2": OnDjangoPsycopg2,
}


def places(dsn: str) -> dict[str, Any]:
    """Take from a DSN what every library understands under the same names."""
    known = conninfo_to_dict(dsn)
    return {
        key: known[key] for key in ("host", "port", "user", "password", "dbname") if key in known
    }


def asyncpg_places(dsn: str) -> dict[str, Any]:
    found = places(dsn)
    found["database"] = found.pop("dbname")
    if pooler.is_through(dsn):
        # Behind a pooler callers keep no prepared statements.
        found["statement_cache_size"] = 0
    return found


def configure_django() -> None:
    if not settings.configured:
        postgresql = {"ENGINE": "django.db.backends.postgresql"}
        settings.configure(
            USE_TZ=True,
            LOGGING_CONFIG=None,
            DATABASES={
                "default": {**postgresql},
                "bound": {**postgresql, "OPTIONS": {"server_side_binding": True}},
                "psycopg2": {**postgresql},
                "sqlite": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
            },
        )
        django.setup()
        backend = backend_without_psycopg3()
        connections["psycopg2"] = backend.DatabaseWrapper(
            connections.settings["psycopg2"], "psycopg2"
        )


def backend_without_psycopg3() -> ModuleType:
    """Load Django's backend once more, as it is where only psycopg2 is installed."""
    ours = ("psycopg", "django.db.backends.postgresql")
    hidden = {
        name: module
        for name, module in sys.modules.items()
        if name in ours or name.startswith(tuple(f"{one}." for one in ours))
    }
    for name in hidden:
        del sys.modules[name]
    sys.modules["psycopg"] = None  # type: ignore[assignment] - how Python marks what is missing
    try:
        return import_module("django.db.backends.postgresql.base")
    finally:
        for name in [name for name in sys.modules if name.startswith(ours[1])]:
            del sys.modules[name]
        sys.modules.update(hidden)
        if ours[1] in hidden:
            django.db.backends.postgresql = hidden[ours[1]]
