"""R17: an upgrade while workers and enqueuers of the version before go on, and after it.

The version before is a commit of the history; ours has a line of migrations more, which
nobody but this campaign knows.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

import psycopg

from faults.campaigns.before import SOURCES, Crew, a_crew, sources_before, start
from faults.campaigns.ground import Server, a_server, await_that
from faults.campaigns.stalls import Stalls
from faults.campaigns.verdict import Verdict, count, keep
from faults.checker import check
from faults.crash.migrating import catalog
from faults.evidence import install, read_history
from faults.measured import Measured
from faults.sizes import Size, numbers

OLD_WORKERS = 8
NEW_WORKERS = 2
PHASE = 150
"""So many jobs end in each phase: before the upgrade, beside one another, and after."""

LONGEST_STALL = 1.0
PATIENCE = 600.0
FEW = 300
POINTS_OF_A_PULL_REQUEST = 10
A_LOT = 100_000

LOAD = """
INSERT INTO relevo.jobs (
    tenant_id, kind, payload, available_at, live, state, outcome, finished_at, attempt
)
SELECT
    '00000000-0000-0000-0000-000000000001',
    'upgrade.stands',
    jsonb_build_object('number', n),
    CASE WHEN n %% 5 = 0 THEN now() + interval '60 days' ELSE now() - interval '2 hours' END,
    n %% 5 = 0,
    CASE WHEN n %% 5 = 0 THEN 'available' ELSE 'completed' END,
    CASE WHEN n %% 5 = 0 THEN NULL ELSE 'completed' END,
    CASE WHEN n %% 5 = 0 THEN NULL ELSE now() - interval '1 hour' END,
    CASE WHEN n %% 5 = 0 THEN 0 ELSE 1 END
FROM generate_series(1, %s) AS n
"""

# In words that every version has.
DIGEST = """
SELECT
    count(*),
    sum(hashtextextended(concat_ws('|', id, state, attempt, available_at, finished_at, payload), 0))
FROM relevo.jobs
WHERE kind = 'upgrade.stands'
"""

ENDED = "SELECT count(*) FROM evidence.events WHERE state = 'completed' AND op = 'update'"
IS_OVER = "SELECT NOT EXISTS (SELECT FROM relevo.jobs WHERE live AND kind <> 'upgrade.stands')"

STOP_AT = """
CREATE FUNCTION public.stop_at() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM nextval('public.commands');
    IF currval('public.commands') = current_setting('upgrade.stop_at')::bigint THEN
        PERFORM pg_advisory_lock(17);
        PERFORM pg_advisory_unlock(17);
    END IF;
END $$;
CREATE SEQUENCE public.commands;
CREATE EVENT TRIGGER stop_at ON ddl_command_end EXECUTE FUNCTION public.stop_at();
"""
GO_ON = "DROP EVENT TRIGGER stop_at"
MIGRATOR = """
SELECT l.pid
FROM pg_locks AS l
JOIN pg_database AS d
    ON d.oid = l.database
WHERE l.locktype = 'advisory'
  AND NOT l.granted
  AND l.objid = 17
  AND d.datname = current_database()
"""
ALONE = """
SELECT count(*) = 0
FROM pg_stat_activity
WHERE datname = current_database()
  AND pid <> pg_backend_pid()
  AND backend_type = 'client backend'
"""


def measure(size: Size, seed: int, directory: Path) -> Measured:
    """Upgrade a table of as many rows as the size says, and interrupt upgrades of small ones."""
    points = POINTS_OF_A_PULL_REQUEST if size is Size.PULL_REQUEST else None
    verdict = Verdict()
    old = sources_before(directory / "before")
    with a_server(is_durable=False) as server:
        upgrade(server, old, numbers("R17", size)["rows"], directory, verdict)
        interrupt(server, old, points, seed, verdict)
    return verdict.measured()


def upgrade(server: Server, old: Path, rows: int, directory: Path, verdict: Verdict) -> None:
    """Upgrade under load, with workers of both versions, and judge what came of it."""
    directory.mkdir(parents=True, exist_ok=True)
    dsn = server.create(f"upgrade_{rows}")
    run_well(old, "migrate", dsn)
    install(dsn)
    load(dsn, rows)
    with psycopg.connect(dsn, autocommit=True) as owner:
        stood = owner.execute(DIGEST.encode()).fetchone()
        with a_crew(directory, dsn) as crew:
            _run_both(crew, old, owner, verdict)
        if owner.execute(DIGEST.encode()).fetchone() != stood:
            verdict.problems.append("rows that nobody worked on came out of it changed")
        # A history is held in memory; these have been compared.
        owner.execute("SET session_replication_role = replica")
        owner.execute("DELETE FROM relevo.jobs WHERE kind = 'upgrade.stands'")
    history = read_history(dsn, crew.witnesses)
    violations = check(history)
    if violations:
        keep(history, violations, directory / "evidence.txt")
    verdict.violations += violations
    verdict.counts.update({"rows": rows, **count(history)})
    verdict.counts["jobs_failed"] += sum(job.state == "failed" for job in history.jobs)
    if verdict.counts["jobs_failed"]:
        verdict.problems.append("jobs failed of the upgrade")
    server.drop(f"upgrade_{rows}")


def load(dsn: str, rows: int) -> None:
    """Put rows there that only stand in the way, past the evidence."""
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute("SET session_replication_role = replica")
        for begin in range(0, rows, A_LOT):
            owner.execute(LOAD.encode(), [min(A_LOT, rows - begin)])
        owner.execute("VACUUM ANALYZE relevo.jobs")


def _run_both(crew: Crew, old: Path, owner: psycopg.Connection, verdict: Verdict) -> None:
    def run_on() -> None:
        wanted = _ended(owner) + PHASE
        await_that(lambda: _ended(owner) >= wanted or crew.dead(), f"{wanted} jobs' ends", PATIENCE)
        assert not crew.dead(), crew.dead()

    olds = [f"old{number}" for number in range(OLD_WORKERS)]
    news = [f"new{number}" for number in range(NEW_WORKERS)]
    for name in olds:
        crew.start(old, "work", name)
    crew.start(old, "enqueue", "old-enqueuer")
    # Most of the time an open transaction has written to the table.
    crew.start(old, "hold", "old-holder")
    run_on()
    with Stalls(crew.dsn) as stalls:
        begun_at = time.monotonic()
        run_well(SOURCES, "migrate", crew.dsn, "next")
        verdict.counts["migrated_in_seconds"] = round(time.monotonic() - begun_at, 2)  # type: ignore[assignment]
        for name in news:
            crew.start(SOURCES, "work", name)
        crew.start(SOURCES, "enqueue", "new-enqueuer")
        run_on()
        verdict.problems += crew.stop("old-enqueuer", "old-holder", *olds)
        run_on()
    verdict.problems += crew.stop("new-enqueuer")
    await_that(lambda: owner.execute(IS_OVER).fetchone() == (True,), "the last job", PATIENCE)
    verdict.problems += crew.stop(*news)
    verdict.counts.update(
        {
            "longest_claim_stall_ms": round(stalls.claims * 1000),
            "longest_other_stall_ms": round(stalls.others * 1000),
            "longest_gap_between_looks_ms": round(stalls.gap * 1000),
        }
    )
    if stalls.claims > LONGEST_STALL:
        verdict.problems.append(f"a claim waited {stalls.claims:.2f} s for a lock")


def _ended(owner: psycopg.Connection) -> int:
    return int(owner.execute(ENDED).fetchall()[0][0])


def run_well(sources: Path, *words: str) -> None:
    """Run a process of one version to its end."""
    code = start(sources, *words).wait(PATIENCE)
    assert code == 0, f"{words[0]} ended with {code}"


def interrupt(server: Server, old: Path, points: int | None, seed: int, verdict: Verdict) -> None:
    """Interrupt a migrator inside its statements, each in two ways, and migrate again.

    Args:
        server: Where.
        old: The version before.
        points: At how many statements, drawn by chance; None is at all of them.
        seed: Of chance.
        verdict: Where it is counted.
    """
    template = server.create("upgrade_before")
    run_well(old, "migrate", template)
    load(template, FEW)
    whole = server.create("upgrade_whole", "upgrade_before")
    with psycopg.connect(whole, autocommit=True) as owner:
        owner.execute(STOP_AT.encode())
        owner.execute("ALTER DATABASE upgrade_whole SET upgrade.stop_at = 0")
        run_well(SOURCES, "migrate", whole, "next")
        owner.execute(GO_ON)
        ((statements,),) = owner.execute("SELECT last_value FROM public.commands").fetchall()
    expected = catalog(whole)
    every = range(1, statements + 1)
    random = Random(seed)  # noqa: S311 -- no secret
    chosen = sorted(random.sample(every, min(points or len(every), len(every))))
    verdict.counts["statements"] = statements
    for number in chosen:
        for way in ("killed", "terminated"):
            dsn = server.create("upgrade_cut", "upgrade_before")
            _cut(dsn, number, way)
            run_well(SOURCES, "migrate", dsn, "next")
            verdict.counts[f"migrations_{way}"] += 1
            verdict.problems += _unlike(expected, catalog(dsn), f"{way} in statement {number}")
            server.drop("upgrade_cut")
    for name in ("upgrade_whole", "upgrade_before"):
        server.drop(name)


def _unlike(
    expected: Sequence[tuple[str, ...]], found: Sequence[tuple[str, ...]], where: str
) -> list[str]:
    wrong = sorted(set(expected) ^ set(found), key=str)
    return [f"{where}: {row} is in one of both catalogues" for row in wrong]


def _cut(dsn: str, number: int, way: str) -> None:
    """Stop a migrator inside a statement and end it there."""
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute(STOP_AT.encode())
        owner.execute(f"ALTER DATABASE upgrade_cut SET upgrade.stop_at = {number}".encode())
        owner.execute("SELECT pg_advisory_lock(17)")
        # What it says of its end is known.
        with Path(os.devnull).open("wb") as nowhere:
            migrator = start(SOURCES, "migrate", dsn, "next", log=nowhere)
        (pid,) = await_that(lambda: owner.execute(MIGRATOR.encode()).fetchone(), "the statement")
        if way == "killed":
            migrator.kill()
        else:
            owner.execute("SELECT pg_terminate_backend(%s)", [pid])
        migrator.wait(60)
        # The statement of a killed one goes on to its end, as it would.
        owner.execute("SELECT pg_advisory_unlock(17)")
        await_that(lambda: owner.execute(ALONE.encode()).fetchone() == (True,), "its session's end")
        with suppress(psycopg.errors.UndefinedObject):
            owner.execute(GO_ON)
