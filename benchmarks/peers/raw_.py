"""The raw loop on psycopg, the engine's own driver: it keeps its rows, or deletes them."""

import os
from typing import ClassVar

import psycopg
from peer import serve

from relevo.bench.raw import BATCH, COUNT, DELETE, END, SCHEMA, RawQueue

DELETES = os.environ.get("BENCH_RAW") == "delete"


class Raw(RawQueue):
    """The loop of `relevo bench`, in a database of its own."""

    package = "psycopg"
    left = COUNT
    settings: ClassVar = {"batch": BATCH, "rows": "deleted" if DELETES else "kept"}

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn, DELETE if DELETES else END)
        self.dsn = dsn

    async def install(self) -> None:
        """Make the schema and the table."""
        async with await psycopg.AsyncConnection.connect(self.dsn) as connection:
            await connection.execute(f"CREATE SCHEMA {SCHEMA}")
        await super().install()


if __name__ == "__main__":
    serve(Raw)
