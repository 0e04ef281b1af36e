"""What operators do, interrupted: limits, pauses, and jobs that are to start again or never."""

from datetime import timedelta
from typing import Any, TypeVar

import psycopg

from faults.crash.world import Scenario, World
from relevo import DEFAULT_TENANT, Operation, cancel_jobs, perform
from relevo.engine.archive import Setting, switch_archive
from relevo.engine.jobs.again import requeue
from relevo.engine.limits import EACH_TENANT, remove_limit, set_limit
from relevo.engine.pauses import pause, resume
from relevo.model.scope import Scope

T = TypeVar("T")

WHO = "operator"
ABOUT = "x"
FAILED = "SELECT id FROM relevo.jobs WHERE state = 'failed'"


def _leave_work(world: World) -> None:
    """A job has failed, others wait, two of them about something that is called off."""
    world.some(fail=1)
    world.drain()
    # Its lease would run out some time, and then fewer queues are told of a limit.
    world.process.stop()
    world.some(outside=2, inside=1)
    with world.connect() as connection:
        world.enqueue(connection, "crash.outside", ["x1", "x2"], aggregate_id=ABOUT)


def _operate(world: World) -> None:
    (failed,) = world.row(FAILED)
    tenant = str(DEFAULT_TENANT)
    connection = world.connect()
    connection.set_autocommit(True)
    # Somebody has to be told of what changes.
    assert world.process.heartbeat.worker is not None
    with world.counting():
        _do(connection, set_limit(Scope.TENANT, EACH_TENANT, 5, actor=WHO))
        _do(connection, set_limit(Scope.TENANT, tenant, 3, actor=WHO))
        _do(connection, set_limit(Scope.TENANT, tenant, 2, actor=WHO))
        _do(connection, remove_limit(Scope.TENANT, tenant))
        _do(connection, remove_limit(Scope.TENANT, EACH_TENANT))
        perform(connection, pause(Scope.QUEUE, "default", "a look", for_=timedelta(hours=1)))
        perform(connection, resume(Scope.QUEUE, "default"))
        _do(connection, requeue(DEFAULT_TENANT, failed, WHO))
        _do(connection, cancel_jobs(DEFAULT_TENANT, "crash.outside", ABOUT))
        _do(connection, switch_archive(Setting(archiving=True, months=None)))


def _do(connection: psycopg.Connection[Any], operation: Operation[T]) -> T:
    with connection.transaction():
        return perform(connection, operation)


OPERATING = (Scenario("operate", _operate, prepare=_leave_work),)
