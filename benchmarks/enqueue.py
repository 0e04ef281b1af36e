"""What does one enqueue pay for? The same insert, each time without one thing that it promises.

    python benchmarks/enqueue.py                 seven rounds, some two minutes
    python benchmarks/enqueue.py --rounds 25     steadier on a busy machine

Jobs are added one by one, each committed: by hand-written SQL to the raw loop's table, by the
public interface, and by the engine's own statement to copies of its table that lack something.
Rounds visit everybody in turn; printed are medians, and the ratio of the rates within a round.
The CPU is that of the client's process and of its one session on the server, the flush of the
WAL included, so it does not add up: what comes cold to the processor is paid by whoever is first.
"""

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psycopg
from measuring import DATA, a_server, as_worker, cpu_of
from psycopg import sql
from psycopg.conninfo import make_conninfo

from relevo.bench.own import KIND, QUEUE, OwnQueue
from relevo.bench.raw import CREATE, RawQueue
from relevo.db.migrate import ENGINE, migrate
from relevo.model.ids import DEFAULT_TENANT
from relevo.model.job import NewJob
from relevo.store.jobs.enqueue import STATEMENTS, Insert

SETTINGS: Final = {"shared_buffers": "512MB", "max_wal_size": "4GB", "autovacuum": "off"}
"""Durable, as installed; nothing tidies up in between."""

WARM: Final = 50

COPY: Final = """
CREATE TABLE {table} (LIKE relevo.jobs INCLUDING ALL);
ALTER TABLE {table} ADD CONSTRAINT tenant FOREIGN KEY (tenant_id) REFERENCES relevo.tenants (id);
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON {table}
    USING (tenant_id = (SELECT relevo.current_tenant()))
    WITH CHECK (tenant_id = (SELECT relevo.current_tenant()));
CREATE POLICY worker ON {table} TO relevo_worker USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON {table} TO relevo_worker
"""
INDEXES: Final = """
SELECT indexrelid::regclass::text
FROM pg_index
WHERE indrelid = %s::regclass
  AND CASE WHEN %s
      THEN indisunique AND NOT indisprimary
      ELSE pg_get_indexdef(indexrelid) LIKE '%%(queue, tenant_id, %%'
  END
"""


@dataclass(frozen=True, slots=True)
class Without:
    """A copy of the table, or of the statement, that lacks something.

    Attributes:
        ddl: What is taken from the copy.
        indexes: Which indexes are dropped: those of keys, or the claim's.
        statement: What is taken from the statement.
    """

    ddl: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    statement: Callable[[str], str] = str


@dataclass(slots=True)
class Found:
    """What one contender took, a value for each round, in microseconds an enqueue."""

    wall: list[float] = field(default_factory=list)
    client: list[float] = field(default_factory=list)
    server: list[float] = field(default_factory=list)


def _without_conflict(text: str) -> str:
    return text.replace("ON CONFLICT DO NOTHING\n", "")


def _without_waking(text: str) -> str:
    return text.partition("RETURNING")[0] + "RETURNING id"


NO_RULES: Final = "ALTER TABLE {table} DROP CONSTRAINT jobs_sound"
NO_TENANT: Final = "ALTER TABLE {table} DROP CONSTRAINT tenant"
NO_SECURITY: Final = "ALTER TABLE {table} DISABLE ROW LEVEL SECURITY"

COPIES: Final[Mapping[str, Without]] = {
    "its statement by hand": Without(),
    "… without the rules of a row": Without((NO_RULES,)),
    "… without the foreign key": Without((NO_TENANT,)),
    "… without asking who is idle": Without(statement=_without_waking),
    "… without ON CONFLICT": Without(statement=_without_conflict),
    "… without row-level security": Without((NO_SECURITY,)),
    "… without the indexes of keys": Without(indexes=("keys",)),
    "… without the claim's index": Without(indexes=("claim",)),
    "… without all of these": Without(
        (NO_RULES, NO_TENANT, NO_SECURITY),
        ("keys", "claim"),
        lambda text: _without_waking(_without_conflict(text)),
    ),
}

Enqueue = Callable[[int], Awaitable[object]]


async def by_hand(
    owner: psycopg.AsyncConnection, connection: psycopg.AsyncConnection, place: int, lack: Without
) -> Enqueue:
    """Make a copy of the table, and answer what adds a job to it."""
    name = f"copy_{place}"
    table = sql.Identifier("relevo", name)
    for ddl in (*COPY.split(";"), *lack.ddl):
        await owner.execute(sql.SQL(ddl).format(table=table))
    for which in lack.indexes:
        rows = await (await owner.execute(INDEXES, [f"relevo.{name}", which == "keys"])).fetchall()
        for (index,) in rows:
            await owner.execute(f"DROP INDEX {index}".encode())
    statement = STATEMENTS["insert_job"]
    text = lack.statement(statement.numbered)
    text = text.replace("relevo.jobs (", f"relevo.{name} (").replace("jobs.queue", f"{name}.queue")
    job = NewJob(DEFAULT_TENANT, QUEUE, KIND, "{}")
    call = next(Insert(job).run("{}"))

    async def add(number: int) -> None:
        params = {**call.params, "payload": json.dumps({"i": number})}
        values = statement.positional(params)
        await connection.execute(text.encode(), values, prepare=True, binary=True)

    return add


async def measure(dsn: str, rounds: int, block: int) -> dict[str, Found]:
    """Visit everybody in turn."""
    async with AsyncExitStack() as stack:
        owner = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
        await stack.enter_async_context(owner)
        await owner.execute("CREATE SCHEMA relevo_bench")
        await owner.execute(CREATE)
        raw, own = RawQueue(dsn), OwnQueue(dsn)
        for queue in (raw, own):
            await queue.open()
            stack.push_async_callback(queue.close)
        adding: dict[str, Enqueue] = {"raw": raw.enqueue, "relevo": own.enqueue}
        for place, (name, lack) in enumerate(COPIES.items()):
            connection = await psycopg.AsyncConnection.connect(
                as_worker(dsn), autocommit=True, cursor_factory=psycopg.AsyncRawCursor
            )
            await stack.enter_async_context(connection)
            adding[name] = await by_hand(owner, connection, place, lack)
        found = {name: Found() for name in adding}
        sessions = {name: await _session(owner, add, name) for name, add in adding.items()}
        for _ in range(rounds):
            for name in random.sample(list(adding), len(adding)):
                await _add(adding[name], sessions[name], block, found[name])
        return found


async def _session(owner: psycopg.AsyncConnection, add: Enqueue, name: str) -> int:
    """Warm a contender up, and answer the process of its session: the last that committed."""
    for number in range(WARM):
        await add(number)
    row = await (
        await owner.execute(
            "SELECT pid FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " ORDER BY state_change DESC LIMIT 1"
        )
    ).fetchone()
    if row is None:
        msg = f"no session of {name}"
        raise RuntimeError(msg)
    return int(row[0])


async def _add(add: Enqueue, session: int, block: int, found: Found) -> None:
    begun, client, server = time.monotonic(), time.process_time(), cpu_of(session)
    for number in range(block):
        await add(number)
    each = 1e6 / block
    found.wall.append((time.monotonic() - begun) * each)
    found.client.append((time.process_time() - client) * each)
    found.server.append((cpu_of(session) - server) * each)


def report(found: Mapping[str, Found]) -> None:
    """Print the medians of the rounds, and the ratios within them."""
    print("one committed enqueue, in microseconds; x is the rate, raw being 1")
    print(f"{'':32} {'time':>6} {'x raw':>6} {'client':>7} {'server':>7} {'saved':>6}")
    whole = statistics.median(found["its statement by hand"].server)
    for name, one in found.items():
        ratios = [raw / own for raw, own in zip(found["raw"].wall, one.wall, strict=True)]
        server = statistics.median(one.server)
        saved = f"{whole - server:6.1f}" if name.startswith("…") else ""
        print(
            f"{name:32} {statistics.median(one.wall):6.0f} {statistics.median(ratios):6.2f}"
            f" {statistics.median(one.client):7.1f} {server:7.1f} {saved}"
        )


def main() -> None:
    """Measure on a server of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--block", type=int, default=500, help="enqueues of each in a round (500)")
    parser.add_argument("--data", type=Path, default=DATA, help="where the server keeps its data")
    options = parser.parse_args()
    with a_server(options.data, SETTINGS) as server:
        dsn = make_conninfo(server.dsn(), dbname="postgres")
        migrate(dsn, [ENGINE])
        report(asyncio.run(measure(dsn, options.rounds, options.block)))


if __name__ == "__main__":
    main()
