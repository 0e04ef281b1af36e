"""Scenarios about claims: who may start what, and in which order."""

from datetime import timedelta

from faults.mutants.stage import LATER, QUEUE, Session, Stage
from relevo.engine.limits import declare_limits, set_limit
from relevo.model.job import ClaimedJob
from relevo.model.scope import Scope
from relevo.model.settlement import Action
from relevo.store.jobs import limited as limited_rows


def plain(stage: Stage) -> None:
    """Jobs are claimed a few at a time, started and completed."""
    session = stage.session()
    stage.enqueue(number=5)
    for job in session.claim(2):
        session.complete(job)
    stage.drain()


def two_at_once(stage: Stage) -> None:
    """Two sessions claim the only job; the first has not committed when the second looks."""
    first, second = stage.session(), stage.session()
    stage.enqueue()
    first.claiming.execute("BEGIN")
    first.claim(1)
    with stage.beside(lambda: second.claim(1)):
        first.claiming.execute("COMMIT")
    stage.drain()


def one_asked(stage: Stage) -> None:
    """A session asks for one job where there are several."""
    session = stage.session()
    stage.enqueue(number=4)
    session.claim(1)
    stage.drain()


def ended_session(stage: Stage) -> None:
    """A session whose end it has not heard of claims once more."""
    frozen, other = stage.session(), stage.session()
    frozen.fall_silent()
    other.rescue()
    stage.enqueue()
    frozen.claim()
    stage.drain()


def limit_set(stage: Stage) -> None:
    """Two sessions that know of no limit claim after one was set."""
    sessions = stage.session(), stage.session()
    stage.enqueue(number=3)
    stage.operate(set_limit(Scope.QUEUE, QUEUE, 1))
    for session in sessions:
        session.claim()
    stage.drain()


def same_permits(stage: Stage) -> None:
    """Two claims see the same permits free; one takes them before the other locks them."""
    first, second = stage.session(), stage.session()
    stage.enqueue(number=8)
    stage.operate(set_limit(Scope.QUEUE, QUEUE, 2))
    _complete(first, first.claim())
    first.ring.rest()
    statements = limited_rows.STATEMENTS
    with stage.paused(statements, "claim_limited", "WHERE n.is_whole", lambda: first.claim(2)):
        second.claim(2)
    stage.drain()


def limited_starts(stage: Stage) -> None:
    """What may start twice an hour is asked for again at once."""
    session = stage.session()
    stage.enqueue(number=6)
    stage.operate(set_limit(Scope.QUEUE, QUEUE, 2, within=timedelta(hours=1)))
    _complete(session, session.claim())
    session.ring.rest()
    _complete(session, session.claim())


def ordered_retry(stage: Stage) -> None:
    """The first of an ordered lane waits for its retry when a session asks for the next."""
    session = stage.session()
    stage.operate(declare_limits([stage.kinds.kinds["play.ordered"].kind]))
    stage.enqueue("play.ordered", 3, lane_key="a")
    session.answer(session.claim(), Action.RETRIED, delay=LATER)
    session.ring.rest()
    session.claim()
    stage.drain()


def late_commit(stage: Stage) -> None:
    """A job that was added first becomes visible after a later one was claimed."""
    session = stage.session()
    late = stage.connect("caller", role=None)
    late.execute("BEGIN")
    stage.witness.note("intent", ref="late")
    (job_id,) = late.execute(
        "INSERT INTO relevo.jobs (tenant_id, kind, payload)"
        " SELECT t.id, 'play.work', '{\"ref\": \"late\"}' FROM relevo.tenants AS t RETURNING id"
    ).fetchall()[0]
    stage.enqueue(number=2)
    _complete(session, session.claim())
    late.execute("COMMIT")
    stage.witness.note("enqueued", ref="late", job_id=job_id)
    for _ in range(3):
        session.ring.rest()
        _complete(session, session.claim())


def idle_worker(stage: Stage) -> None:
    """A session that waits to be told looks again by itself when its time has come."""
    process = stage.process()
    process.mark_idle(idle=True)
    stage.enqueue()
    process.forget()
    process.claim()
    process.work()
    process.settle()
    stage.drain()


def _complete(session: Session, jobs: list[ClaimedJob]) -> None:
    for job in jobs:
        session.complete(job)


SCENARIOS = (
    plain,
    two_at_once,
    one_asked,
    ended_session,
    limit_set,
    same_permits,
    limited_starts,
    ordered_retry,
    late_commit,
    idle_worker,
)
