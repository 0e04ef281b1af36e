"""A raw loop of the same kind: what hand-written SQL does with the same jobs, and no more.

One table and three connections, and the rows stay when they are done. Jobs are claimed 500 at a
time under a lease, and claiming, running and ending overlap. It has no tenants, no keys, no
fences, no rescue and no retries: the distance to it is what these cost.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import psycopg

SCHEMA: Final = "relevo_bench"
BATCH: Final = 500
POLL: Final = 1.0

CREATE: Final = """
CREATE TABLE relevo_bench.work (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    due_at timestamptz NOT NULL DEFAULT now(),
    held_until timestamptz,
    starts smallint NOT NULL DEFAULT 0,
    state smallint NOT NULL DEFAULT 0,
    kind text NOT NULL,
    payload jsonb NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX work_due ON relevo_bench.work (due_at, id) WHERE state = 0;
CREATE INDEX work_held ON relevo_bench.work (held_until) WHERE state = 1;
"""
ADD: Final = """
WITH added AS (
    INSERT INTO relevo_bench.work (kind, payload) VALUES ('noop', $1::text::jsonb) RETURNING id
)
SELECT added.id, pg_notify('relevo_bench', '') FROM added
"""
ADD_MANY: Final = """
INSERT INTO relevo_bench.work (kind, payload)
SELECT 'noop', given::jsonb FROM unnest($1::text[]) AS given
"""
HOLD: Final = """
WITH picked AS MATERIALIZED (
    SELECT id
    FROM relevo_bench.work
    WHERE state = 0 AND due_at <= now()
    ORDER BY due_at, id
    LIMIT $1::integer
    FOR UPDATE SKIP LOCKED
)
UPDATE relevo_bench.work AS w
SET state = 1, starts = w.starts + 1, held_until = now() + interval '1 minute'
FROM picked
WHERE w.id = picked.id
RETURNING w.id, w.kind, w.payload::text
"""
END: Final = """
UPDATE relevo_bench.work SET state = 2, held_until = NULL WHERE id = ANY ($1::bigint[])
"""
DELETE: Final = "DELETE FROM relevo_bench.work WHERE id = ANY ($1::bigint[])"
COUNT: Final = "SELECT count(*) FROM relevo_bench.work WHERE state < 2"
EMPTY: Final = "TRUNCATE relevo_bench.work"


class Link(Protocol):
    """What the loop needs of a driver; statements have ``$1`` parameters and are prepared."""

    async def fetch(self, query: str, *params: object) -> Sequence[Sequence[Any]]:
        """Run a statement that commits by itself; answer its rows."""
        ...

    async def listen(self, heard: Callable[[], None]) -> None:
        """Call `heard` for every notification of the loop's channel."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...


class PsycopgLink:
    """The loop's connection on psycopg, the engine's own driver."""

    def __init__(self, connection: psycopg.AsyncConnection) -> None:
        self._connection = connection
        self._listening: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, dsn: str) -> "PsycopgLink":
        """Open a connection that commits by itself."""
        connection = await psycopg.AsyncConnection.connect(
            dsn, autocommit=True, cursor_factory=psycopg.AsyncRawCursor
        )
        return cls(connection)

    async def fetch(self, query: str, *params: object) -> Sequence[Sequence[Any]]:
        """Run a statement that commits by itself; answer its rows."""
        cursor = await self._connection.execute(
            query.encode(), params or None, prepare=True, binary=True
        )
        return await cursor.fetchall() if cursor.description else ()

    async def listen(self, heard: Callable[[], None]) -> None:
        """Call `heard` for every notification of the loop's channel."""
        await self._connection.execute("LISTEN relevo_bench")
        self._listening = asyncio.create_task(self._listen(heard))

    async def close(self) -> None:
        """Close the connection."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait({self._listening})
        await self._connection.close()

    async def _listen(self, heard: Callable[[], None]) -> None:
        async for _ in self._connection.notifies():
            heard()


class RawQueue:
    """The raw loop's producer and its worker.

    Args:
        dsn: Where the scratch schema is.
        ending: How a batch of done jobs is written; `END` keeps the rows, `DELETE` does not.
    """

    def __init__(self, dsn: str, ending: str = END) -> None:
        self._dsn = dsn
        self._ending = ending
        self._link: Link | None = None

    async def link(self) -> Link:
        """Open a connection."""
        return await PsycopgLink.open(self._dsn)

    async def install(self) -> None:
        """Create the table; the schema is there."""
        async with await psycopg.AsyncConnection.connect(self._dsn) as connection:
            await connection.execute(CREATE)

    async def open(self) -> None:
        """Open the producer's connection, and begin with an empty table."""
        self._link = await self.link()
        await self._link.fetch(EMPTY)

    async def close(self) -> None:
        """Close it."""
        if self._link is not None:
            await self._link.close()

    async def enqueue(self, number: int) -> None:
        """Add one job, and tell whoever listens."""
        await self._producer.fetch(ADD, _payload(number))

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        """Add a job for each number in one statement."""
        await self._producer.fetch(ADD_MANY, [_payload(number) for number in numbers])

    async def unfinished(self) -> int:
        """Answer how many jobs are not done yet."""
        rows = await self._producer.fetch(COUNT)
        return int(rows[0][0])

    async def work(self, ran: Callable[[int], None], ready: Callable[[], None]) -> None:
        """Run jobs until cancelled.

        Args:
            ran: Called by every job, first thing, with its number.
            ready: Called when the first job is looked for.
        """
        woken = asyncio.Event()
        links = [await self.link() for _ in range(3)]
        claiming, ending, listening = links
        try:
            await listening.listen(woken.set)
            ready()
            await self._run(claiming, ending, woken, ran)
        finally:
            for link in links:
                await link.close()

    async def _run(
        self, claiming: Link, ending: Link, woken: asyncio.Event, ran: Callable[[int], None]
    ) -> None:
        async def noop(i: int) -> None:
            ran(i)

        handlers = {"noop": noop}
        held: Sequence[Sequence[Any]] = ()
        done: list[int] = []
        while True:
            # One lap: run a batch, while the next one is claimed and the last one is ended.
            async with asyncio.TaskGroup() as lap:
                following = lap.create_task(claiming.fetch(HOLD, BATCH))
                if done:
                    lap.create_task(ending.fetch(self._ending, done))
                for _, kind, payload in held:
                    lap.create_task(handlers[kind](**json.loads(payload)))
            done = [job_id for job_id, _, _ in held]
            held = following.result()
            if not held and not done:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), POLL)
                woken.clear()

    @property
    def _producer(self) -> Link:
        if self._link is None:
            raise RuntimeError("open() comes first")
        return self._link


def _payload(number: int) -> str:
    return json.dumps({"i": number})
