"""What is interrupted: each operation of the engine, driven step by step."""

from datetime import timedelta

import psycopg

from faults.crash.world import Scenario, World
from relevo import DEFAULT_TENANT, KeyMode, perform, set_tenant
from relevo.db.dsn import WEB_ROLE


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
        with connection.transaction():
            perform(connection, set_tenant(DEFAULT_TENANT))
        world.enqueue(connection, "crash.inside", ["a", "b"])
        world.enqueue(connection, "crash.outside", ["c"], key="held", key_for=hour)
        world.enqueue(connection, "crash.outside", ["d"], key="over", key_for=hour)
        with world.told(["e", "f"], kind="crash.outside") as ids, connection.transaction():
            ids += job.enqueue_many(connection, [{"ref": "e"}, {"ref": "f"}])
        with world.told(["g"], kind="crash.outside", key="k") as ids, connection.transaction():
            keyed = job.with_options(key_mode=KeyMode.LIVE)
            ids += keyed.enqueue_many(connection, [{"ref": "g"}], keys=["k"])
        _roll_back(world, connection)
        connection.set_autocommit(True)
        with world.told(["i"], kind="crash.outside") as ids:
            ids.append(job.enqueue(connection, ref="i"))


def _roll_back(world: World, connection: psycopg.Connection) -> None:
    world.witness.note("intent", ref="h")
    with connection.transaction():
        world.kinds.kinds["crash.outside"].enqueue(connection, ref="h")
        raise psycopg.Rollback
    world.witness.note("rolled_back", ref="h")


SCENARIOS = (Scenario("enqueue", _enqueue, prepare=_keys),)
