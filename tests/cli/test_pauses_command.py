"""`relevo pause`, `resume`, `pauses` and `drain`, beside a worker that works."""

import json
import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from real_command import PATIENCE, Command, read_until

from factories import KIND, QUEUE, a_job, a_tenant, a_worker, claim_some, settle_some, some_jobs
from relevo import DEFAULT_TENANT, Context, Relevo
from workers import query, running, wait_until

WHY = ("--reason", "maintenance of the mail server")
NEVER = timedelta(minutes=10)
"""A poll so long that whatever starts within a test's patience was started by a hint."""


@pytest.fixture
def owner(database: str) -> Iterator[psycopg.Connection]:
    """The owner's connection, each statement committed by itself."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def app() -> Relevo:
    """An application with two kinds in one queue that do nothing."""
    app = Relevo()

    def work(_ctx: Context) -> None:
        """Do nothing."""

    app.job("test.work")(work)
    app.job("test.other")(work)
    return app


def finished(database: str, *ids: int) -> bool:
    rows = query(database, "SELECT state FROM relevo.jobs WHERE id = ANY (%s)", list(ids))
    return {row[0] for row in rows} == {"completed"}


def starts(database: str, *ids: int) -> int:
    """How often any of the jobs has been started."""
    return query(database, "SELECT sum(attempt) FROM relevo.jobs WHERE id = ANY (%s)", list(ids))[
        0
    ][0]


def falls_idle(database: str) -> None:
    """Wait until the worker wants to be told."""
    wait_until(lambda: query(database, "SELECT id FROM relevo.workers WHERE idle"), what="idle")


def listed(relevo: Command) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(relevo("pauses", "-o", "json").stdout)["pauses"]
    return found


def test_a_pause_is_listed_with_who_why_and_until_when(relevo: Command) -> None:
    relevo.variables["RELEVO_ACTOR"] = "ana@hr"

    first = relevo("pause", "queue", "mail", "--for", "30m", *WHY, "-o", "json")
    second = relevo("pause", "kind", "mail.letter", *WHY)

    kind, queue = listed(relevo)
    assert json.loads(first.stdout) == {"pause": queue, "kept": False}
    assert (queue["scope"], queue["name"], queue["tenant_id"]) == ("queue", "mail", None)
    assert (queue["actor"], queue["reason"]) == ("ana@hr", WHY[1])
    until = datetime.fromisoformat(str(queue["paused_until"]))
    assert timedelta(minutes=29) < until - datetime.now(UTC) < timedelta(minutes=31)
    assert (kind["scope"], kind["name"], kind["paused_until"]) == ("kind", "mail.letter", None)
    assert "kind mail.letter: paused until it is resumed: maintenance" in second.stdout
    assert "(ana@hr)" in second.stdout
    plain = relevo("pauses").stdout.splitlines()
    assert plain[0].split() == ["scope", "name", "since", "until", "by", "reason"]
    assert "it is resumed" in plain[1]


def test_nothing_paused_is_no_error(relevo: Command) -> None:
    shown = relevo("pauses")

    assert (shown.returncode, shown.stdout) == (0, "")
    assert "nothing is paused" in shown.stderr
    assert listed(relevo) == []


def test_resume_says_whether_something_was_paused(relevo: Command) -> None:
    relevo("pause", "queue", "mail", *WHY)

    first = relevo("resume", "queue", "mail", "-o", "json")
    second = relevo("resume", "queue", "mail")

    assert json.loads(first.stdout) == {"resumed": True}
    assert (second.returncode, second.stdout) == (0, "queue mail: was not paused\n")
    assert listed(relevo) == []


def test_a_longer_pause_is_kept_and_the_person_is_told(relevo: Command) -> None:
    relevo("pause", "queue", "mail", *WHY)

    shorter = relevo("pause", "queue", "mail", "--for", "30m", "--reason", "lunch", "-o", "json")

    (standing,) = listed(relevo)
    assert shorter.returncode == 0
    assert json.loads(shorter.stdout) == {"pause": standing, "kept": True}
    assert (standing["reason"], standing["paused_until"]) == (WHY[1], None)
    assert "that pause is kept" in shorter.stderr
    assert "relevo resume queue mail" in shorter.stderr


def test_a_name_that_nobody_knows_is_paused_with_a_warning(
    relevo: Command, owner: psycopg.Connection
) -> None:
    a_worker(owner)

    unknown = [relevo("pause", *words, *WHY) for words in (("queue", "mial"), ("kind", "m.x"))]
    known = [relevo("pause", *words, *WHY) for words in (("queue", QUEUE), ("kind", KIND))]

    assert [each.returncode for each in unknown + known] == [0, 0, 0, 0]
    assert all("check the name" in each.stderr for each in unknown)
    assert "queue mial: no live worker serves it" in unknown[0].stderr
    assert [each.stderr for each in known] == ["", ""]
    assert len(listed(relevo)) == 4


@pytest.mark.parametrize("command", ["pause", "drain", "resume"])
def test_a_tenant_that_does_not_exist_ends_with_3(relevo: Command, command: str) -> None:
    ended = relevo(command, "tenant", "nowhere", *(() if command == "resume" else WHY))

    assert ended.returncode == 3
    assert "there is no tenant 'nowhere'" in ended.stderr
    assert listed(relevo) == []


@pytest.mark.parametrize(
    "words",
    [
        ("pause", "queue", "mail"),
        ("pause", "queue", "mail", "--reason", " "),
        ("pause", "queue", "Mail!", *WHY),
        ("pause", "queue", "mail", "--for", "0", *WHY),
        ("pause", "lane", "mail", *WHY),
        ("drain", "queue", "mail"),
        ("resume", "mail"),
    ],
)
def test_what_cannot_be_meant_is_a_matter_of_usage(relevo: Command, words: tuple[str, ...]) -> None:
    ended = relevo(*words)

    assert ended.returncode == 2, ended.stderr
    assert listed(relevo) == []


def test_a_tenant_is_named_by_its_slug_and_shown_by_it(relevo: Command) -> None:
    assert relevo("db", "init", "--tenants", "multi").returncode == 0
    added = json.loads(relevo("tenants", "add", "north", "-o", "json").stdout)

    relevo("pause", "tenant", "north", *WHY)

    (standing,) = listed(relevo)
    assert (standing["name"], standing["tenant_id"]) == ("north", added["id"])
    assert "tenant  north" in relevo("pauses").stdout
    resumed = relevo("resume", "tenant", added["id"])
    assert resumed.returncode == 0
    assert listed(relevo) == []


def test_everything_is_said_in_the_language_of_the_run(relevo: Command) -> None:
    paused = relevo("pause", "queue", "mail", *WHY, "--lang", "es")
    drained = relevo("drain", "queue", "mail", *WHY, "--lang", "pt")

    assert "cola mail: en pausa hasta que se reanude" in paused.stdout
    assert "ningún worker activo" in paused.stderr
    assert "fila mail: nada executa e nada começa" in drained.stdout


def test_a_worker_leaves_a_paused_kind_and_runs_the_others_of_its_queue(
    relevo: Command, database: str, owner: psycopg.Connection, app: Relevo
) -> None:
    """Red where the claim does not ask which kinds rest, or where resuming wakes nobody."""
    relevo("pause", "kind", "test.work", *WHY)
    held = [a_job(owner, kind="test.work") for _ in range(3)]
    others = [a_job(owner, kind="test.other") for _ in range(3)]

    with running(app, database, poll=NEVER):
        wait_until(lambda: finished(database, *others))
        falls_idle(database)
        before = starts(database, *held)
        relevo("resume", "kind", "test.work")
        wait_until(lambda: finished(database, *held))

    assert before == 0


def test_a_worker_leaves_a_paused_tenant_and_runs_the_others(
    relevo: Command, database: str, owner: psycopg.Connection, app: Relevo
) -> None:
    tenant = a_tenant(owner)
    relevo("pause", "tenant", str(tenant), *WHY)
    held = [a_job(owner, tenant_id=tenant) for _ in range(3)]
    others = [a_job(owner, tenant_id=DEFAULT_TENANT) for _ in range(3)]

    with running(app, database, poll=NEVER):
        wait_until(lambda: finished(database, *others))
        falls_idle(database)
        before = starts(database, *held)
        relevo("resume", "tenant", str(tenant))
        wait_until(lambda: finished(database, *held))

    assert before == 0


def test_a_worker_leaves_a_paused_queue_and_serves_its_other(
    relevo: Command, database: str, owner: psycopg.Connection, app: Relevo
) -> None:
    relevo("pause", "queue", "mail", *WHY)
    held, other = a_job(owner, queue="mail"), a_job(owner, queue="post")

    with running(app, database, poll=NEVER, queues=("mail", "post")):
        wait_until(lambda: finished(database, other))
        falls_idle(database)
        before = starts(database, held)
        relevo("resume", "queue", "mail")
        wait_until(lambda: finished(database, held))

    assert before == 0


def test_a_thousand_jobs_of_a_paused_kind_hold_up_nobody(
    relevo: Command, database: str, owner: psycopg.Connection, app: Relevo
) -> None:
    relevo("pause", "kind", "test.work", *WHY)
    some_jobs(owner, 1000, kind="test.work")
    others = [a_job(owner, kind="test.other") for _ in range(50)]

    with running(app, database, poll=NEVER):
        wait_until(lambda: finished(database, *others))
        started = query(
            database, "SELECT count(*) FROM relevo.jobs WHERE kind = 'test.work' AND attempt > 0"
        )

    assert started == [(0,)]


def test_drain_waits_for_what_runs_and_leaves_the_pause(
    relevo: Command, database: str, owner: psycopg.Connection
) -> None:
    app, may_end = Relevo(), threading.Event()

    @app.job("test.work")
    def work(_ctx: Context) -> None:
        assert may_end.wait(PATIENCE)

    runs = a_job(owner)
    with running(app, database, poll=NEVER):
        wait_until(lambda: query(database, "SELECT id FROM relevo.jobs WHERE worker > 0"))
        with relevo.started("drain", "queue", QUEUE, *WHY, "-o", "json") as process:
            read_until(process, "1 job still runs")
            later = a_job(owner)
            still_waits = process.poll()
            may_end.set()
            code = process.wait(PATIENCE)
            assert process.stdout is not None
            said = json.loads(process.stdout.read())

    (standing,) = listed(relevo)
    assert (still_waits, code) == (None, 0)
    assert finished(database, runs)
    assert starts(database, later) == 0
    assert said == {"pause": standing, "kept": False, "running": 0}
    assert standing["paused_until"] is None


def test_drain_waits_for_a_claim_that_has_not_seen_the_pause(
    relevo: Command, database: str, owner: psycopg.Connection
) -> None:
    worker = a_worker(owner)
    a_job(owner)
    with psycopg.connect(database) as claiming:
        jobs = claim_some(claiming, worker)
        with relevo.started("drain", "queue", QUEUE, *WHY) as process:
            read_until(process, "a claim from before the pause is under way")
            claiming.commit()
            read_until(process, "1 job still runs")
            settle_some(owner, worker, jobs)
            code = process.wait(PATIENCE)

    assert code == 0


@pytest.mark.parametrize(
    ("scope", "name"), [("queue", QUEUE), ("kind", KIND), ("tenant", "default")]
)
def test_drain_ends_with_5_when_its_time_is_over_and_the_pause_stands(
    relevo: Command, owner: psycopg.Connection, scope: str, name: str
) -> None:
    a_job(owner, state="running")
    a_job(owner, state="running")

    ended = relevo("drain", scope, name, "--timeout", "0", *WHY)

    assert ended.returncode == 5
    assert "2 jobs still run" in ended.stderr
    assert f"relevo resume {scope} {name}" in ended.stderr
    assert [each["name"] for each in listed(relevo)] == [name]


def test_drain_does_not_wait_for_other_work(relevo: Command, owner: psycopg.Connection) -> None:
    a_job(owner, state="running", queue="other", kind="test.other", tenant_id=a_tenant(owner))

    for words in (("queue", QUEUE), ("kind", KIND), ("tenant", "default")):
        ended = relevo("drain", *words, "--timeout", "0", *WHY)
        assert ended.returncode == 0, ended.stderr


def test_a_drain_ends_with_4_when_somebody_resumes(
    relevo: Command, owner: psycopg.Connection
) -> None:
    a_job(owner, state="running")

    with relevo.started("drain", "queue", QUEUE, *WHY) as process:
        read_until(process, "1 job still runs")
        relevo("resume", "queue", QUEUE)
        said = read_until(process, "agree with them")
        code = process.wait(PATIENCE)

    assert code == 4
    assert f"somebody has let queue {QUEUE} go on" in said


def test_an_interrupted_drain_leaves_the_pause_and_says_so(
    relevo: Command, owner: psycopg.Connection
) -> None:
    a_job(owner, state="running")

    with relevo.started("drain", "queue", QUEUE, *WHY) as process:
        read_until(process, "1 job still runs")
        process.send_signal(signal.SIGINT)
        read_until(process, f"queue {QUEUE} stays paused")
        code = process.wait(PATIENCE)

    assert code == 130
    assert len(listed(relevo)) == 1
