"""Pauses: what they keep from being claimed, which of two stands, and when something is at rest."""

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from factories import (
    KIND,
    QUEUE,
    a_job,
    a_tenant,
    a_worker,
    claim_some,
    settle_some,
    some_jobs,
    value,
)
from limiting import ENGINES_LEVEL
from relevo import DEFAULT_TENANT, InvalidOption, TenantNotFound
from relevo.db.drivers import run
from relevo.db.dsn import WORKER_ROLE, with_session
from relevo.engine.pauses import Pause, find_pause, list_pauses, look, pause, resume
from relevo.engine.scopes import is_known
from relevo.model.scope import Scope
from relevo.model.settlement import Action

pytestmark = pytest.mark.core

OTHER = "test.other"
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
TENANT = str(DEFAULT_TENANT)


@pytest.fixture
def committed(database: str) -> Iterator[psycopg.Connection]:
    """A worker's connection to a database of the test's own, each statement committed."""
    dsn = with_session(database, role=WORKER_ROLE)
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def hold(
    connection: psycopg.Connection,
    scope: Scope = Scope.QUEUE,
    name: str = QUEUE,
    *,
    reason: str = "why not",
    for_: timedelta | None = None,
) -> bool:
    """Pause as an operator; answers whether an older pause was kept."""
    return run(connection, pause(scope, name, reason, for_=for_, actor="ana@hr")).is_kept


def standing(
    connection: psycopg.Connection, scope: Scope = Scope.QUEUE, name: str = QUEUE
) -> Pause:
    found = run(connection, find_pause(scope, name))
    assert found is not None
    return found


def left(connection: psycopg.Connection, pause: Pause) -> timedelta:
    """How long the pause has to go."""
    return value(connection, "SELECT %s - clock_timestamp()", pause.paused_until)


@pytest.mark.parametrize(
    ("scope", "name"), [(Scope.QUEUE, QUEUE), (Scope.KIND, KIND), (Scope.TENANT, "default")]
)
def test_what_is_paused_is_passed_by_and_goes_on_when_it_is_resumed(
    connection: psycopg.Connection, scope: Scope, name: str
) -> None:
    worker = a_worker(connection)
    held = a_job(connection)
    elsewhere = a_job(connection, tenant_id=a_tenant(connection), kind=OTHER, queue="other")
    kinds = (KIND, OTHER)
    hold(connection, scope, name)

    during = [
        job.id
        for queue in (QUEUE, "other")
        for job in claim_some(connection, worker, queue=queue, kinds=kinds)
    ]
    stood = run(connection, resume(scope, name))
    after = [job.id for job in claim_some(connection, worker, kinds=kinds)]

    assert during == [elsewhere]
    assert stood
    assert after == [held]


def test_a_paused_kind_does_not_hold_up_what_stands_behind_it(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    some_jobs(connection, 1000)
    behind = [a_job(connection, kind=OTHER) for _ in range(3)]
    hold(connection, Scope.KIND, KIND)

    found = claim_some(connection, worker, kinds=(KIND, OTHER))

    assert sorted(job.id for job in found) == behind


def test_one_pause_that_ends_leaves_another_of_the_same_job(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    job = a_job(connection)
    hold(connection, Scope.QUEUE, QUEUE)
    hold(connection, Scope.KIND, KIND)

    run(connection, resume(Scope.QUEUE, QUEUE))
    during = claim_some(connection, worker)
    run(connection, resume(Scope.KIND, KIND))

    assert during == []
    assert [found.id for found in claim_some(connection, worker)] == [job]


def test_a_tenant_is_named_by_slug_or_id_and_stored_by_its_id(
    connection: psycopg.Connection,
) -> None:
    hold(connection, Scope.TENANT, "default")
    kept = hold(connection, Scope.TENANT, TENANT.upper())

    assert kept
    assert [each.name for each in run(connection, list_pauses())] == [TENANT]
    assert run(connection, resume(Scope.TENANT, TENANT))
    assert not run(connection, resume(Scope.TENANT, "default"))


def test_a_tenant_that_does_not_exist_is_refused(connection: psycopg.Connection) -> None:
    with pytest.raises(TenantNotFound):
        hold(connection, Scope.TENANT, "nowhere")
    with pytest.raises(TenantNotFound):
        run(connection, resume(Scope.TENANT, "nowhere"))


@pytest.mark.parametrize(
    ("scope", "name", "reason", "for_"),
    [
        (Scope.QUEUE, "Mail!", "why not", None),
        (Scope.KIND, "", "why not", None),
        (Scope.LANE, KIND, "why not", None),
        (Scope.QUEUE, QUEUE, "  ", None),
        (Scope.QUEUE, QUEUE, "two\nlines", None),
        (Scope.QUEUE, QUEUE, "why not", timedelta(0)),
        (Scope.QUEUE, QUEUE, "why not", timedelta(days=40_000)),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(
    connection: psycopg.Connection, scope: Scope, name: str, reason: str, for_: timedelta | None
) -> None:
    with pytest.raises(InvalidOption):
        hold(connection, scope, name, reason=reason, for_=for_)

    assert value(connection, "SELECT count(*) FROM relevo.pauses") == 0


@pytest.mark.parametrize("longer", [HOUR, None])
@pytest.mark.parametrize("shorter", [MINUTE, timedelta(minutes=59)])
def test_a_shorter_pause_does_not_shorten_a_longer_one(
    connection: psycopg.Connection, longer: timedelta | None, shorter: timedelta
) -> None:
    hold(connection, reason="first", for_=longer)
    before = standing(connection)

    kept = hold(connection, reason="second", for_=shorter)

    assert kept
    assert standing(connection) == before


@pytest.mark.parametrize("longer", [HOUR, None])
def test_a_longer_pause_takes_the_place_of_a_shorter_one_and_says_since_when(
    connection: psycopg.Connection, longer: timedelta | None
) -> None:
    hold(connection, reason="first", for_=MINUTE)
    before = standing(connection)

    kept = hold(connection, reason="second", for_=longer)

    now = standing(connection)
    assert not kept
    assert (now.reason, now.paused_at) == ("second", before.paused_at)
    assert now.paused_until is None or left(connection, now) > MINUTE * 59


def test_a_pause_whose_time_is_over_is_no_pause(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    job = a_job(connection)
    hold(connection, for_=HOUR)
    connection.execute("UPDATE relevo.pauses SET paused_until = now() - interval '1 second'")

    listed = run(connection, list_pauses())
    claimed = [found.id for found in claim_some(connection, worker)]
    stood = run(connection, resume(Scope.QUEUE, QUEUE))

    assert (listed, claimed, stood) == ([], [job], False)


@pytest.mark.parametrize("lasting", [None, HOUR])
def test_an_outage_leaves_an_operators_longer_pause_as_it_is(
    connection: psycopg.Connection, lasting: timedelta | None
) -> None:
    """Red where `pause` writes over whatever stands."""
    worker = a_worker(connection)
    a_job(connection)
    jobs = claim_some(connection, worker)
    hold(connection, reason="maintenance", for_=lasting)
    before = standing(connection)

    settle_some(connection, worker, jobs, Action.RELEASED, error="no route", pause=MINUTE)

    assert standing(connection) == before
    assert (before.reason, before.actor) == ("maintenance", "ana@hr")
    assert claim_some(connection, worker) == []


def test_an_outage_that_lasts_longer_than_an_operators_pause_is_waited_for(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    a_job(connection)
    jobs = claim_some(connection, worker)
    hold(connection, for_=MINUTE)

    settle_some(connection, worker, jobs, Action.RELEASED, error="no route", pause=HOUR)

    now = standing(connection)
    assert (now.reason, now.actor) == ("no route", "relevo")
    assert left(connection, now) > MINUTE * 59


def test_an_operators_pause_outlasts_an_outage_and_never_shortens_it(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    a_job(connection)
    jobs = claim_some(connection, worker)
    settle_some(connection, worker, jobs, Action.RELEASED, error="no route", pause=HOUR)

    kept = hold(connection, for_=MINUTE)
    during = standing(connection)
    hold(connection, reason="maintenance")

    assert kept
    assert (during.actor, left(connection, during) > MINUTE * 59) == ("relevo", True)
    after = standing(connection)
    assert (after.actor, after.reason, after.paused_until) == ("ana@hr", "maintenance", None)


def test_what_a_worker_serves_or_a_job_waits_for_is_known(connection: psycopg.Connection) -> None:
    a_worker(connection, queues=("mail",), kinds=("mail.letter",))
    a_worker(connection, queues=("gone",), kinds=("gone.kind",), lease=-1)
    a_job(connection, queue="waiting", kind="waiting.kind")
    a_job(connection, queue="done", kind="done.kind", state="completed")

    def known(scope: Scope, *names: str) -> list[bool]:
        return [run(connection, is_known(scope, name)) for name in names]

    assert known(Scope.QUEUE, "mail", "waiting", "gone", "done", "never") == [
        True,
        True,
        False,
        False,
        False,
    ]
    kinds = ("mail.letter", "waiting.kind", "gone.kind", "done.kind", "mail")
    assert known(Scope.KIND, *kinds) == [True, True, False, False, False]
    assert known(Scope.TENANT, TENANT) == [True]


@pytest.mark.parametrize(
    ("scope", "name"), [(Scope.QUEUE, QUEUE), (Scope.KIND, KIND), (Scope.TENANT, TENANT)]
)
def test_only_what_runs_of_the_paused_is_counted(
    connection: psycopg.Connection, scope: Scope, name: str
) -> None:
    for _ in range(3):
        a_job(connection, state="running")
    a_job(connection)
    a_job(connection, state="completed")
    other = {"kind": OTHER, "queue": "other", "tenant_id": a_tenant(connection)}
    a_job(connection, state="running", **other)
    hold(connection, scope, name)

    seen = run(connection, look(scope, name))

    assert (seen.running, seen.is_paused, seen.is_over) == (3, True, False)


def test_nothing_is_at_rest_that_is_not_paused(connection: psycopg.Connection) -> None:
    before = run(connection, look(Scope.QUEUE, QUEUE))
    hold(connection)
    after = run(connection, look(Scope.QUEUE, QUEUE))

    assert (before.is_paused, before.is_over) == (False, False)
    assert (after.is_paused, after.is_over) == (True, True)


def test_a_claim_that_has_not_seen_the_pause_is_waited_for(
    committed: psycopg.Connection, database: str
) -> None:
    """Red where `look` does not ask for the claims that began before the pause."""
    worker = a_worker(committed)
    with psycopg.connect(database, options=ENGINES_LEVEL) as other:
        a_job(other)
        other.commit()
        claimed = claim_some(other, worker)
        hold(committed)

        during = run(committed, look(Scope.QUEUE, QUEUE))
        other.commit()

    after = run(committed, look(Scope.QUEUE, QUEUE, during.claims))
    settle_some(committed, worker, claimed)
    end = run(committed, look(Scope.QUEUE, QUEUE, after.claims))

    assert (during.running, len(during.claims), during.is_over) == (0, 1, False)
    assert (after.running, len(after.claims), after.is_over) == (1, 0, False)
    assert end.is_over


def test_a_claim_that_began_after_the_pause_is_not_waited_for(
    committed: psycopg.Connection, database: str
) -> None:
    """Red where each look waits for the claims of its own moment."""
    worker = a_worker(committed)
    for queue in ("old", "new"):
        a_job(committed, queue=queue)
    with psycopg.connect(database) as old, psycopg.connect(database) as new:
        claim_some(old, worker, queue="old")
        hold(committed)
        first = run(committed, look(Scope.QUEUE, QUEUE))
        claim_some(new, worker, queue="new")
        old.rollback()

        second = run(committed, look(Scope.QUEUE, QUEUE, first.claims))

    assert (len(first.claims), first.is_over) == (1, False)
    assert second.is_over


def test_who_only_reads_or_enqueues_is_no_claim(
    committed: psycopg.Connection, database: str
) -> None:
    hold(committed)
    with psycopg.connect(database) as reader, psycopg.connect(database) as writer:
        reader.execute("SELECT FROM relevo.pauses, relevo.jobs")
        a_job(writer)

        seen = run(committed, look(Scope.QUEUE, QUEUE))

    assert seen.is_over


@pytest.mark.parametrize("scope", [Scope.QUEUE, Scope.KIND, Scope.TENANT])
def test_those_who_may_have_work_are_told_when_something_goes_on(
    committed: psycopg.Connection, database: str, scope: Scope
) -> None:
    name = {Scope.QUEUE: QUEUE, Scope.KIND: KIND, Scope.TENANT: "default"}[scope]
    a_worker(committed, idle=True)
    a_worker(committed, queues=("second",), idle=True)
    a_worker(committed, queues=("third",), kinds=(OTHER,), idle=True)
    a_worker(committed, queues=("busy",))
    a_worker(committed, queues=("gone",), idle=True, lease=-1)
    hold(committed, scope, name)
    with psycopg.connect(database, autocommit=True) as listener:
        listener.execute("LISTEN relevo")

        run(committed, resume(scope, name))
        run(committed, resume(Scope.QUEUE, "never"))
        committed.execute("NOTIFY relevo, 'end'")

        heard = []
        for notification in listener.notifies(timeout=20):
            if notification.payload == "end":
                break
            heard.append(notification.payload)

    told = {
        Scope.QUEUE: [QUEUE],
        Scope.KIND: [QUEUE, "second"],
        Scope.TENANT: [QUEUE, "second", "third"],
    }
    assert heard == told[scope]
