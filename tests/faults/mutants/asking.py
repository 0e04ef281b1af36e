"""Scenarios about what people ask for: keys, cancels, requeues, and cycles."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg

from faults.crash.calling import ACTOR, NAME, PEOPLE
from faults.mutants.stage import Stage
from relevo import (
    DEFAULT_TENANT,
    KeyMode,
    Operation,
    PayloadError,
    cancel_jobs,
    set_tenant,
    wake,
)
from relevo.db.drivers import run
from relevo.db.dsn import WEB_ROLE
from relevo.engine.jobs.again import requeue
from relevo.model.settlement import Action
from relevo_apps.evaluations import service
from relevo_apps.evaluations.importer import read_people


def same_key(stage: Stage) -> None:
    """Whatever the mode of the key, a second job asks for it."""
    for mode in KeyMode:
        for _ in range(2):
            stage.enqueue(key=f"{mode.value} k", key_mode=mode)
    stage.drain()


def expired_key(stage: Stage) -> None:
    """One tenant's key has expired when another tenant asks for the same."""
    one, other = stage.a_tenant(), stage.a_tenant()
    hour = timedelta(hours=1)
    stage.enqueue(tenant_id=one, key="k", key_for=hour)
    stage.owner.execute("UPDATE relevo.jobs SET key_expires_at = now()")
    for _ in range(2):
        stage.enqueue(tenant_id=other, key="k", key_for=hour)
    stage.drain()


def taken_back(stage: Stage) -> None:
    """A caller adds two jobs in one transaction, and takes the second back to a savepoint."""
    kind, owner = stage.kinds.kinds["play.work"], stage.owner
    for ref in ("kept", "taken back"):
        stage.witness.note("intent", ref=ref)
    with owner.transaction():
        kept = kind.enqueue(owner, ref="kept")
        with owner.transaction():
            kind.enqueue(owner, ref="taken back")
            raise psycopg.Rollback
    stage.witness.note("enqueued", ref="kept", job_id=kept.id)
    stage.witness.note("rolled_back", ref="taken back")
    stage.drain()


def refused_payload(stage: Stage) -> None:
    """A caller adds a job, is refused another one, and commits the first all the same."""
    kind, owner = stage.kinds.kinds["play.work"], stage.owner
    stage.witness.note("intent", ref="kept")
    owner.execute("BEGIN")
    kept = kind.enqueue(owner, ref="kept")
    # A refusal in words has sent nothing; one of the server's has ended the transaction.
    with suppress(PayloadError, psycopg.DataError):
        kind.enqueue(owner, ref="refused\0")
    owner.execute("COMMIT")
    stage.witness.note("enqueued", ref="kept", job_id=kept.id)
    stage.drain()


def cancelled(stage: Stage) -> None:
    """The jobs of one aggregate are cancelled: one has ended, one runs, one waits."""
    session = stage.session()
    stage.enqueue(number=2, aggregate_id="a")
    done, running = session.claim()
    session.complete(done)
    stage.enqueue(aggregate_id="a")
    stage.operate(cancel_jobs(DEFAULT_TENANT, "play.work", "a"))
    session.complete(running)
    stage.drain()


def cancelled_elsewhere(stage: Stage) -> None:
    """One tenant cancels what it calls by a name that another tenant uses as well."""
    one, other = stage.a_tenant(), stage.a_tenant()
    for tenant_id in (one, other):
        stage.enqueue(tenant_id=tenant_id, aggregate_id="a")
    stage.operate(cancel_jobs(one, "play.work", "a"), one)
    stage.drain()


def asked_again(stage: Stage) -> None:
    """An operator lets a completed and a failed job start again."""
    session = stage.session()
    stage.enqueue(number=2)
    done, failed = session.claim()
    session.complete(done)
    session.answer(failed, Action.FAILED, error="no")
    for job in (done, failed):
        stage.operate(requeue(job.tenant_id, job.id, "operator"))
    stage.drain()


def cycle(stage: Stage) -> None:
    """A cycle is activated, recalled, and activated again, by whoever may only see one tenant."""
    stage.operate(_draft(), DEFAULT_TENANT)
    (cycle_id,) = stage.owner.execute("SELECT id FROM evaluations.cycles").fetchall()[0]
    web = stage.connect("web", role=WEB_ROLE)
    web.set_autocommit(False)
    for step in (_activation, service.recall, _activation):
        with web.transaction():
            run(web, set_tenant(DEFAULT_TENANT))
            run(web, step(DEFAULT_TENANT, cycle_id, actor=ACTOR))
    # Nobody here writes messages; that they are withdrawn in the end is a state that may last.
    with web.transaction():
        run(web, service.recall(DEFAULT_TENANT, cycle_id, actor=ACTOR))


def _activation(tenant_id: Any, cycle_id: Any, actor: str) -> Operation[Any]:
    return service.activate(tenant_id, cycle_id, actor=actor, wake=wake)


def _draft() -> Operation[None]:
    tenant = DEFAULT_TENANT
    yield from service.import_people(tenant, read_people(PEOPLE.encode()))
    made = yield from service.create_cycle(tenant, NAME, actor=ACTOR)
    yield from service.add_participants(tenant, made.id, None, actor=ACTOR)
    yield from service.generate_evaluations(tenant, made.id, actor=ACTOR)


SCENARIOS = (
    same_key,
    expired_key,
    taken_back,
    refused_payload,
    cancelled,
    cancelled_elsewhere,
    asked_again,
    cycle,
)
