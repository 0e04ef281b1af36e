"""What a worker's process does with jobs, interrupted: claim, start, heartbeat, settle, stop."""

from faults.crash.world import Scenario, World

BY_SQL = """
INSERT INTO relevo.jobs (tenant_id, kind, lane_key, payload)
SELECT t.id, 'crash.ordered', 'by sql', '{"ref": "by-sql"}'
FROM relevo.tenants AS t
"""
END_SESSIONS = """
UPDATE relevo.workers SET expires_at = clock_timestamp();
DELETE FROM relevo.workers;
"""


def _claim(world: World) -> None:
    process = world.process
    with world.counting():
        process.claim()
        # It has forgotten one, as when the answer of a claim was lost.
        process.slots.held.pop()
        process.resolve_doubt()
        process.forget()
        process.claim()
        process.find_due()
        process.mark_idle(idle=True)
        process.mark_idle(idle=False)


def _claimable(world: World) -> None:
    world.some(inside=3, outside=2, retry=1)


def _claim_limited(world: World) -> None:
    process = world.start()
    process.beat()
    with world.counting():
        process.declare()
        process.claim()
        process.work()
        process.settle()
        process.forget()
        process.claim()


def _limited(world: World) -> None:
    world.some(limited=4, outside=1)
    with world.connect() as connection:
        world.enqueue(connection, "crash.ordered", ["x", "y"], lane_key="a")
    with world.told(["by-sql"]) as enqueued:
        world.run(BY_SQL)
        enqueued.append(world.created("by-sql"))


def _start(world: World) -> None:
    process = world.process
    process.claim()
    with world.counting():
        process.work()
        process.settle()


def _heartbeat(world: World) -> None:
    process = world.start()
    with world.counting():
        process.beat()
        process.beat()
    process.claim()
    # Somebody ends the session under it: the next beat opens another.
    world.run(END_SESSIONS)
    with world.counting():
        process.beat()
        process.beat()


def _settle(world: World) -> None:
    process = world.process
    process.claim()
    process.work()
    with world.counting():
        process.settle()


def _every_end(world: World) -> None:
    world.some(outside=2, retry=1, raises=1, fail=1, cancel=1, outage=1)


def _retry(world: World) -> None:
    process = world.process
    process.claim()
    process.work()
    with world.counting():
        process.settle()
    world.make_due()
    process.forget()
    process.claim()
    process.work()
    with world.counting():
        process.settle()


def _stop(world: World) -> None:
    process = world.process
    process.claim()
    with world.counting():
        process.hand_back(1)
        process.settle()
        # What it still holds is left to the rescue.
        process.stop()


WORKING = (
    Scenario("claim", _claim, prepare=_claimable, goes_on=True),
    Scenario("claim limited", _claim_limited, prepare=_limited, has_limits=True, goes_on=True),
    Scenario("start", _start, prepare=lambda world: world.some(inside=2), goes_on=True),
    Scenario("heartbeat", _heartbeat, prepare=lambda world: world.some(inside=1), goes_on=True),
    Scenario("settle", _settle, prepare=_every_end, goes_on=True),
    Scenario(
        "retry", _retry, prepare=lambda world: world.some(retry=1, raises=1, fail=1), goes_on=True
    ),
    Scenario("stop", _stop, prepare=lambda world: world.some(inside=2)),
)
