"""relevo: one worker process, and a coroutine handler that returns at once."""

from typing import ClassVar

from peer import serve

from relevo import ENGINE, migrate
from relevo.bench.own import CONCURRENCY, OwnQueue


class Own(OwnQueue):
    """relevo's side of `relevo bench`, in a database of its own."""

    package = "relevo"
    left = "SELECT count(*) FROM relevo.jobs WHERE live"
    settings: ClassVar = {"concurrency": CONCURRENCY}

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self.dsn = dsn

    async def install(self) -> None:
        """Migrate."""
        migrate(self.dsn, [ENGINE])


serve(Own)
