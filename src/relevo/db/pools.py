"""Connections for handlers: bounded, opened on first use, one pool for each way of waiting.

The engine's own statements never pass through here, so a handler that holds every
connection cannot stop a claim, a heartbeat or a settle.
"""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final
from weakref import WeakSet

import psycopg
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolTimeout

from relevo.db.pooler import configure, configure_async

GIVES_UP_AFTER: Final = 5.0
"""After so many seconds of failed tries a pool begins anew: its waits double without end."""

_AT_ONCE: Final = 0.001


class HandlerPools:
    """Pools for synchronous and for asynchronous handlers.

    Args:
        dsn: Where to connect, role and settings included.
        size: The most connections of each pool.
        wait: How many seconds a handler waits for a connection before it fails.
    """

    def __init__(self, dsn: str, size: int, wait: float = 30.0) -> None:
        self._dsn = dsn
        self._size = size
        self._wait = wait
        self._left: list[object] = []
        self._begin()
        _pools.add(self)

    def _begin(self) -> None:
        self._sync: ConnectionPool[psycopg.Connection] | None = None
        self._async: AsyncConnectionPool[psycopg.AsyncConnection] | None = None
        self._gate = threading.Lock()
        self._async_gate = asyncio.Lock()

    def leave(self) -> None:
        """Begin anew in the child of a fork; the connections stay the parent's.

        They are kept and never closed: what is said on them the parent's server hears.
        """
        self._left += [self._sync, self._async]
        self._begin()

    @contextmanager
    def sync_transaction(self) -> Generator[psycopg.Connection]:
        """Lend a connection in a transaction: commits at the end, rolls back on an exception."""
        with self._gate:
            if self._sync is None:
                self._sync = ConnectionPool(
                    self._dsn,
                    min_size=0,
                    max_size=self._size,
                    timeout=self._wait,
                    reconnect_timeout=GIVES_UP_AFTER,
                    reconnect_failed=_try_again,
                    open=True,
                    configure=configure,
                    # One that was cut while it lay idle must not cost its next user an attempt.
                    check=ConnectionPool.check_connection,
                )
        # The inner block refuses a commit of the handler's own, which would leave its end out.
        with self._sync.connection() as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def async_transaction(self) -> AsyncGenerator[psycopg.AsyncConnection]:
        """Lend a connection in a transaction: commits at the end, rolls back on an exception."""
        async with self._async_gate:
            if self._async is None:
                pool: AsyncConnectionPool[psycopg.AsyncConnection] = AsyncConnectionPool(
                    self._dsn,
                    min_size=0,
                    max_size=self._size,
                    timeout=self._wait,
                    reconnect_timeout=GIVES_UP_AFTER,
                    reconnect_failed=_try_again_async,
                    open=False,
                    configure=configure_async,
                    check=AsyncConnectionPool.check_connection,
                )
                await pool.open()
                self._async = pool
        async with self._async.connection() as connection, connection.transaction():
            yield connection

    def close_sync(self) -> None:
        """Close the pool of the synchronous handlers."""
        if self._sync is not None:
            self._sync.close()

    async def close_async(self) -> None:
        """Close the pool of the asynchronous handlers, on their loop."""
        if self._async is not None:
            await self._async.close()


# A pool that has given up tries again only when somebody asks, and whoever waits has asked.


def _try_again(pool: ConnectionPool[Any]) -> None:
    if pool.get_stats().get("requests_waiting"):
        with suppress(PoolTimeout):
            pool.putconn(pool.getconn(timeout=_AT_ONCE))


async def _try_again_async(pool: AsyncConnectionPool[Any]) -> None:
    if pool.get_stats().get("requests_waiting"):
        with suppress(PoolTimeout):
            await pool.putconn(await pool.getconn(timeout=_AT_ONCE))


_pools: Final[WeakSet[HandlerPools]] = WeakSet()


def _leave_to_the_parent() -> None:
    for each in list(_pools):
        each.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_the_parent)
