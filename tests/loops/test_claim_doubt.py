"""A claim was committed and its answer did not arrive, or arrived after the session had ended."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from factories import job_row, value
from relevo import Context, Relevo
from relevo.db.operation import Operation
from relevo.loops import claimer
from relevo.loops.heartbeat import Heartbeat
from workers import drain, query, running, settings, wait_until

POLL = timedelta(milliseconds=50)


@pytest.fixture
def app() -> Relevo:
    app = Relevo()

    @app.job("test.work")
    async def work(ctx: Context) -> None:
        """Nothing."""

    return app


def enqueue(owner: psycopg.Connection, number: int) -> None:
    query_text = (
        "INSERT INTO relevo.jobs (tenant_id, kind)"
        " SELECT id, 'test.work' FROM relevo.tenants, generate_series(1, %s)"
    )
    owner.execute(query_text, [number])


@pytest.fixture
def lost_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first claim that takes something is committed, and its answer is lost."""
    claim, lost = claimer.claim, []

    def lossy(*args: Any) -> Operation[Any]:
        answer = yield from claim(*args)
        if answer and not lost:
            lost.append(answer)
            msg = "the answer was lost on the way"
            raise psycopg.OperationalError(msg)
        return answer

    monkeypatch.setattr(claimer, "claim", lossy)


@pytest.mark.usefixtures("lost_answer")
def test_a_drain_does_not_end_while_it_may_hold_jobs_that_it_does_not_know(
    app: Relevo, database: str, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the doubt is forgotten: the drain would end and leave its jobs running."""
    monkeypatch.setattr(claimer, "CLAIM_TIMEOUT", 1.0)
    enqueue(owner, 5)

    drain(app, database, poll=POLL)

    assert query(
        database,
        "SELECT state, attempt, excused, losses, count(*) FROM relevo.jobs GROUP BY 1,2,3,4",
    ) == [("completed", 2, 1, 0, 5)]


@pytest.mark.usefixtures("lost_answer")
def test_a_worker_that_stops_hands_back_what_it_holds_unknown(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    """Red when the doubt is left to the rescue: the jobs would be charged with a loss."""
    enqueue(owner, 5)
    worker = app.worker(settings(database, poll=POLL))
    worker.start()
    wait_until(lambda: value(owner, "SELECT count(*) FROM relevo.jobs WHERE state = 'running'"))
    worker.ask_to_stop()

    assert worker.wait(20)
    assert query(
        database,
        "SELECT state, attempt, excused, losses, count(*) FROM relevo.jobs GROUP BY 1,2,3,4",
    ) == [("available", 1, 1, 0, 5)]


def test_jobs_of_a_session_that_ended_during_the_claim_are_not_started(
    app: Relevo, database: str, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when they are: they would run here and, by the rescue, in another worker as well."""
    claim, beats = claimer.claim, []
    begun = Heartbeat.start

    def remember(heartbeat: Heartbeat) -> None:
        beats.append(heartbeat)
        begun(heartbeat)

    def late(*args: Any) -> Operation[Any]:
        answer = yield from claim(*args)
        if answer and args[0] == beats[0].worker and len(beats) == 1:
            # The process slept here for long, and its heartbeat woke first.
            query(database, "UPDATE relevo.workers SET expires_at = clock_timestamp()")
            query(database, "DELETE FROM relevo.workers WHERE id = %s", args[0])
            wait_until(lambda: beats[0].worker not in (None, args[0]))
            beats.append(beats[0])
        return answer

    monkeypatch.setattr(Heartbeat, "start", remember)
    monkeypatch.setattr(claimer, "claim", late)
    starts: list[int] = []

    @app.job("test.counted")
    async def counted(ctx: Context) -> None:
        starts.append(ctx.attempt)

    with running(app, database, poll=POLL):
        job = counted.enqueue(owner)
        wait_until(lambda: job_row(owner, job.id)["state"] == "completed")

    assert starts == [2]


def test_jobs_claimed_while_the_lease_cannot_be_proved_are_given_back(
    app: Relevo, database: str, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-019. Red when they are started: another worker may hold them soon."""
    claim, doubted = claimer.claim, []
    is_proved = Heartbeat.is_proved

    def late(*args: Any) -> Operation[Any]:
        answer = yield from claim(*args)
        if answer and not doubted:
            doubted.append(1)
        return answer

    def prove(heartbeat: Heartbeat) -> bool:
        # The first look after the claim falls into the gap.
        if doubted == [1]:
            doubted.append(2)
            return False
        return is_proved(heartbeat)

    monkeypatch.setattr(claimer, "claim", late)
    monkeypatch.setattr(Heartbeat, "is_proved", prove)
    enqueue(owner, 1)

    drain(app, database, poll=POLL)

    assert query(database, "SELECT state, attempt, excused, losses FROM relevo.jobs") == [
        ("completed", 2, 1, 0)
    ]
