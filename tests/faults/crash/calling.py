"""What callers do, interrupted: enqueue jobs, and activate a cycle."""

from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

import psycopg

from faults.crash.world import Scenario, World
from relevo import DEFAULT_TENANT, KeyMode, Operation, perform, set_tenant, wake
from relevo.db.dsn import WEB_ROLE
from relevo_apps.evaluations import service
from relevo_apps.evaluations.importer import read_people
from relevo_apps.evaluations.model.cycles import CycleState

T = TypeVar("T")


def _keys(world: World) -> None:
    """Two jobs hold keys; the time of one is over."""
    with world.connect() as connection:
        hour = timedelta(hours=1)
        for ref in ("held", "over"):
            world.enqueue(connection, "crash.outside", [ref], key=ref, key_for=hour)
    world.run("UPDATE relevo.jobs SET key_expires_at = now() WHERE key = 'over'")


def _enqueue(world: World) -> None:
    job = world.kinds.kinds["crash.outside"]
    connection = world.connect()
    hour = timedelta(hours=1)
    with world.counting():
        world.enqueue(connection, "crash.inside", ["a", "b"])
        world.enqueue(connection, "crash.outside", ["c"], key="held", key_for=hour)
        world.enqueue(connection, "crash.outside", ["d"], key="over", key_for=hour)
        with world.told(["e", "f"], kind="crash.outside") as ids, connection.transaction():
            ids.extend(job.enqueue_many(connection, [{"ref": "e"}, {"ref": "f"}]))
        with world.told(["g"], kind="crash.outside", key="k") as ids, connection.transaction():
            keyed = job.with_options(key_mode=KeyMode.LIVE)
            ids.extend(keyed.enqueue_many(connection, [{"ref": "g"}], keys=["k"]))
        _roll_back(world, connection)
        connection.set_autocommit(True)
        with world.told(["i"], kind="crash.outside") as ids:
            ids.append(job.enqueue(connection, ref="i"))


def _roll_back(world: World, connection: psycopg.Connection) -> None:
    world.witness.note("intent", ref="h")
    # Where the roll-back itself fails it reaches the caller; there is nothing to be undone then.
    with suppress(psycopg.Rollback), connection.transaction():
        world.kinds.kinds["crash.outside"].enqueue(connection, ref="h")
        raise psycopg.Rollback
    world.witness.note("rolled_back", ref="h")


PEOPLE = """id,name,email,manager
1,Ana Alves,ana@example.com,
2,Bruno Borges,bruno@example.com,1
3,Celia Costa,celia@example.com,1
4,Dora Dias,dora@example.com,2
"""
ACTOR = "ana@example.com"
NAME = "2025"


def _draft(world: World) -> None:
    with world.connect() as connection:
        tenant = DEFAULT_TENANT
        perform(connection, service.import_people(tenant, read_people(PEOPLE.encode())))
        cycle = perform(connection, service.create_cycle(tenant, NAME, actor=ACTOR))
        perform(connection, service.add_participants(tenant, cycle.id, None, actor=ACTOR))
        perform(connection, service.generate_evaluations(tenant, cycle.id, actor=ACTOR))


def _activate(world: World) -> None:
    connection = world.connect(role=WEB_ROLE)
    cycle = _by_web(connection, service.find_cycle(DEFAULT_TENANT, NAME))
    with world.counting():
        _by_web(connection, _activation(cycle.id))


def _recall_and_activate(world: World) -> None:
    """Take an activation back, and activate again: the rows of before come back to life."""
    connection = world.connect(role=WEB_ROLE)
    cycle = _by_web(connection, service.find_cycle(DEFAULT_TENANT, NAME))
    _by_web(connection, _activation(cycle.id))
    with world.counting():
        _by_web(connection, service.recall(DEFAULT_TENANT, cycle.id, actor=ACTOR))
        _by_web(connection, _activation(cycle.id))


def _activate_again(world: World) -> None:
    """What a person does who does not know whether it went through."""
    connection = world.connect(role=WEB_ROLE)
    cycle = _by_web(connection, service.find_cycle(DEFAULT_TENANT, NAME))
    if cycle.state is CycleState.DRAFT:
        _by_web(connection, _activation(cycle.id))


def _activation(cycle_id: UUID) -> Operation[Any]:
    return service.activate(DEFAULT_TENANT, cycle_id, actor=ACTOR, wake=wake)


def _by_web(connection: psycopg.Connection[Any], operation: Operation[T]) -> T:
    with connection.transaction():
        perform(connection, set_tenant(DEFAULT_TENANT))
        return perform(connection, operation)


def _half_activated(world: World) -> list[str]:
    found = world.row(STANDING)
    # Everybody writes about themselves, their manager and who reports to them: four people.
    return [] if found == ("active", 0, 4, 4, 4) else [f"the cycle stands as {found}"]


STANDING = """
SELECT c.state, e.drafts, e.asked, j.jobs, j.completed
FROM evaluations.cycles AS c
CROSS JOIN (
    SELECT
        count(*) FILTER (WHERE e.state = 'draft') AS drafts,
        count(DISTINCT e.evaluator_id) AS asked
    FROM evaluations.evaluations AS e
) AS e
CROSS JOIN (
    SELECT
        count(*) AS jobs,
        count(*) FILTER (WHERE j.state = 'completed') AS completed
    FROM relevo.jobs AS j
    WHERE j.kind = 'cycle.dispatched'
) AS j
"""

CALLING = (
    Scenario("enqueue", _enqueue, prepare=_keys),
    Scenario(
        "activation",
        _activate,
        prepare=_draft,
        again=_activate_again,
        problems=_half_activated,
    ),
    Scenario(
        "recall",
        _recall_and_activate,
        prepare=_draft,
        again=_activate_again,
        problems=_half_activated,
    ),
)
