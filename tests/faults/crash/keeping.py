"""What keeps the tables right, interrupted: rescue, prune, and the archive."""

from faults.crash.world import Scenario, World

LOST = """
UPDATE relevo.workers SET expires_at = clock_timestamp()
"""
UNKNOWN = """
INSERT INTO relevo.jobs (tenant_id, kind, payload)
SELECT t.id, 'nobody.knows', '{}'
FROM relevo.tenants AS t
"""
OVERDUE = """
UPDATE relevo.jobs
SET prune_at = clock_timestamp()
WHERE NOT live
  AND kind <> 'crash.fail'
"""
ARCHIVE = """
SELECT relevo.make_archive_month('2020-01-01 00:00+00');
UPDATE relevo.installation SET archiving = true, archive_months = 1
"""
LEFT = """
SELECT
    (SELECT count(*) FROM relevo.jobs AS j WHERE j.prune_at <= now()),
    (SELECT count(*) FROM relevo.jobs AS j),
    (SELECT count(*) FROM relevo.attempts AS a WHERE NOT EXISTS (
        SELECT FROM relevo.jobs AS j WHERE (j.tenant_id, j.id) = (a.tenant_id, a.job_id)
    )),
    (SELECT count(*) FROM relevo.archive AS a),
    (SELECT coalesce(sum(jsonb_array_length(a.attempts)), 0)::integer FROM relevo.archive AS a)
"""
MONTHS = """
SELECT
    (SELECT count(*) FROM relevo.archive_months() AS m),
    (SELECT count(*) FROM relevo.archive_months() AS m WHERE m.starts_at < relevo.archive_since()),
    count(*) FILTER (WHERE c.relispartition),
    count(*) FILTER (WHERE c.relrowsecurity AND c.relforcerowsecurity),
    (SELECT count(*) FROM pg_policies AS p WHERE p.tablename ~ '^archive_\\d')
FROM pg_class AS c
WHERE c.relnamespace = 'relevo'::regnamespace
  AND c.relkind = 'r'
  AND c.relname ~ '^archive_\\d'
"""


def _lose(world: World) -> None:
    """A process holds jobs, one of them in its last start, and is heard of no more."""
    world.some(inside=1, outside=1, raises=1)
    process = world.process
    process.claim()
    process.work()
    process.settle()
    world.some(retry=2)
    world.make_due()
    process.forget()
    process.claim()
    world.run(LOST)
    world.run(UNKNOWN)


def _rescue(world: World) -> None:
    process = world.process
    with world.counting():
        process.rescue()


def _finish(world: World) -> None:
    world.some(inside=1, outside=1, retry=1, fail=1, cancel=1)
    world.drain()
    world.run(OVERDUE)


def _finish_into_archive(world: World) -> None:
    _finish(world)
    world.run(ARCHIVE)


def _prune(world: World) -> None:
    process = world.process
    with world.counting():
        process.prune()


def _prune_again(world: World) -> None:
    world.process.prune()


def _not_pruned(world: World) -> list[str]:
    # The failed job's retention is not over.
    return _unlike(world, LEFT, (0, 1, 0, 0, 0))


def _half_archived(world: World) -> list[str]:
    # Of the four one was retried and one cancelled; each has its attempt that did not complete it.
    wrong = _unlike(world, LEFT, (0, 1, 0, 4, 2))
    # This month and the next, whole, with two policies each; the old one is gone.
    return wrong + _unlike(world, MONTHS, (2, 0, 2, 2, 4))


def _unlike(world: World, query: str, wanted: tuple[int, ...]) -> list[str]:
    found = world.row(query)
    return [] if found == wanted else [f"there is {found} instead of {wanted}"]


KEEPING = (
    Scenario("rescue", _rescue, prepare=_lose, goes_on=True),
    Scenario(
        "prune", _prune, prepare=_finish, again=_prune_again, problems=_not_pruned, goes_on=True
    ),
    Scenario(
        "archive",
        _prune,
        prepare=_finish_into_archive,
        again=_prune_again,
        problems=_half_archived,
        goes_on=True,
    ),
)
