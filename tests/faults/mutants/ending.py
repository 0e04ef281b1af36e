"""Scenarios about ends: of starts, of sessions, and of jobs' rows."""

from datetime import timedelta

from faults.mutants.stage import SOON, Session, Stage
from relevo.engine.archive import switch_archive
from relevo.engine.jobs.prune import prune
from relevo.model.job import ClaimedJob
from relevo.model.settlement import Action
from relevo.store.archive import Setting
from relevo.store.jobs import recover as recover_rows

MONTH = timedelta(days=30).total_seconds()


def late_answer(stage: Stage) -> None:
    """A start that had timed out completes while the same session runs the next one."""
    session = stage.session()
    stage.enqueue()
    (first,) = session.claim()
    session.answer(first, Action.RETRIED, delay=SOON)
    _claim_again(stage, session)
    session.complete(first)
    stage.drain()


def after_rescue(stage: Stage) -> None:
    """A session that was given up answers for jobs that wait for somebody else by now."""
    frozen, other = stage.session(), stage.session()
    stage.enqueue(number=2)
    # A sweep takes a part of a lane, the round behind it the rest.
    done, failed = frozen.claim(8)
    frozen.fall_silent()
    other.rescue()
    frozen.complete(done)
    frozen.answer(failed, Action.FAILED, error="too late")
    stage.drain()


def lost_handler(stage: Stage) -> None:
    """A handler commits its effect after its job was given to somebody else."""
    process, other = stage.process(), stage.session()
    stage.enqueue()
    process.claim()
    stage.owner.execute("UPDATE relevo.workers SET expires_at = now() WHERE name LIKE 'p%'")
    other.rescue()
    process.work()
    process.settle()
    stage.drain()


def delivered_again(stage: Stage) -> None:
    """A message is sent, and its handler asks for another start all the same."""
    process = stage.process()
    stage.enqueue("play.mail")
    for _ in range(2):
        stage.make_due()
        process.forget()
        process.claim()
        process.work()
        process.settle()
    stage.drain()


def retried(stage: Stage) -> None:
    """A job is retried until its starts are spent."""
    session = stage.session()
    stage.enqueue("play.twice")
    for _ in range(3):
        for job in _claim_again(stage, session):
            session.answer(job, Action.RETRIED, delay=SOON, error="again")
    stage.drain()


def handed_back(stage: Stage) -> None:
    """A worker that stops hands back what it has not started."""
    session = stage.session()
    stage.enqueue("play.twice")
    for _ in range(3):
        session.answer(_claim_again(stage, session), Action.RELEASED)
    stage.drain()


def lost(stage: Stage) -> None:
    """One session falls silent, another lives; both have jobs."""
    silent, living, other = stage.session(), stage.session(), stage.session()
    stage.enqueue(number=2)
    silent.claim(1)
    (held,) = living.claim(1)
    silent.fall_silent()
    other.rescue()
    living.complete(held)
    stage.drain()


def lost_again(stage: Stage) -> None:
    """A job loses its worker until its starts are spent."""
    stage.enqueue("play.twice")
    for _ in range(3):
        session = stage.session()
        session.claim()
        session.fall_silent()
        stage.session().rescue()
    stage.drain()


def answer_beside_rescue(stage: Stage) -> None:
    """A job is completed between the look of a rescue and its lock."""
    silent, other = stage.session(), stage.session()
    stage.enqueue()
    (job,) = silent.claim()
    silent.fall_silent()
    with stage.paused(
        recover_rows.STATEMENTS,
        "rescue_jobs",
        "AND j.worker = ANY (%(workers)s::bigint[])",
        other.rescue,
    ):
        silent.answer(job, Action.COMPLETED)
    stage.drain()


def long_transaction(stage: Stage) -> None:
    """A lease is renewed in a transaction that is older than the lease is long."""
    session, other = stage.session(lease=1.5), stage.session()
    connection = session.connection("heartbeat")
    with connection.transaction():
        # The time that has passed is what this is about; nothing is waited for.
        connection.execute("SELECT pg_sleep(1.6)")
        session.renew(connection)
    other.end_sessions()


def beat_beside_silence(stage: Stage) -> None:
    """A session that lives renews its lease, and takes over from one that fell silent."""
    silent, living = stage.session(), stage.session()
    stage.enqueue()
    silent.claim()
    silent.fall_silent()
    living.renew(living.connection("heartbeat"))
    living.rescue()
    for job in _claim_again(stage, living):
        living.complete(job)


def beat_after_end(stage: Stage) -> None:
    """A session that was frozen renews its lease after somebody has ended it."""
    frozen, other = stage.session(), stage.session()
    frozen.fall_silent()
    other.rescue()
    frozen.renew(frozen.connection("heartbeat"))


def old_job(stage: Stage) -> None:
    """A job that was enqueued long ago completes, and its retention begins."""
    session = stage.session()
    stage.enqueue()
    stage.owner.execute("UPDATE relevo.jobs SET created_at = now() - interval '90 days'")
    session.answer(session.claim(), Action.COMPLETED, keep=MONTH)
    stage.operate(prune())


def archived(stage: Stage) -> None:
    """Finished jobs leave the table while the archive is on."""
    session = stage.session()
    stage.operate(switch_archive(Setting(archiving=True, months=None)))
    # The checker does not judge what follows the switch within a second.
    stage.owner.execute("SELECT pg_sleep(1.1)")
    stage.enqueue(number=2)
    session.answer(session.claim(), Action.COMPLETED, keep=0.0)
    stage.operate(prune())


def _claim_again(stage: Stage, session: Session) -> list[ClaimedJob]:
    stage.make_due()
    session.ring.rest()
    return session.claim()


SCENARIOS = (
    late_answer,
    after_rescue,
    lost_handler,
    delivered_again,
    retried,
    handed_back,
    lost,
    lost_again,
    answer_beside_rescue,
    long_transaction,
    beat_beside_silence,
    beat_after_end,
    old_job,
    archived,
)
