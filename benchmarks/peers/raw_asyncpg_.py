"""The raw loop on asyncpg: what another driver would make of it."""

from collections.abc import Callable, Sequence
from typing import Any

import asyncpg
from peer import serve
from raw_ import Raw


class AsyncpgLink:
    """The loop's connection on asyncpg, which prepares every statement by itself."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, query: str, *params: object) -> Sequence[Sequence[Any]]:
        """Run a statement that commits by itself; answer its rows."""
        return await self._connection.fetch(query, *params)

    async def listen(self, heard: Callable[[], None]) -> None:
        """Call `heard` for every notification of the loop's channel."""
        await self._connection.add_listener("relevo_bench", lambda *_: heard())

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()


class RawAsyncpg(Raw):
    """The same loop and the same statements."""

    package = "asyncpg"

    async def link(self) -> AsyncpgLink:
        """Open a connection."""
        return AsyncpgLink(await asyncpg.connect(self.dsn))


serve(RawAsyncpg)
