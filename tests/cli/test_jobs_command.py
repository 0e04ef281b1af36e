"""`relevo jobs`: look, and try again."""

import json
from uuid import UUID

import psycopg
import pytest
from real_command import Command

from factories import a_job, a_tenant, history, job_row
from relevo.model.text import trace_error


def test_list_shows_jobs_newest_first_page_by_page(
    relevo: Command, connection: psycopg.Connection
) -> None:
    ids = [a_job(connection) for _ in range(5)]
    connection.commit()

    first = json.loads(relevo("jobs", "list", "--limit", "3", "-o", "json").stdout)
    before = str(first["before"])
    second = json.loads(relevo("jobs", "list", "--before", before, "-o", "json").stdout)

    assert [job["id"] for job in first["jobs"] + second["jobs"]] == ids[::-1]
    assert second["before"] is None


def test_list_keeps_to_its_filters(relevo: Command, connection: psycopg.Connection) -> None:
    wanted = a_job(connection, state="failed", queue="mail", kind="mail.letter", aggregate_id="7")
    a_job(connection, state="failed", queue="mail", kind="mail.letter", aggregate_id="8")
    a_job(connection, state="failed", queue="mail", kind="mail.other", aggregate_id="7")
    a_job(connection, state="failed", queue="other", kind="mail.letter", aggregate_id="7")
    a_job(connection, state="completed", queue="mail", kind="mail.letter", aggregate_id="7")
    connection.commit()
    words = [
        "--state",
        "failed",
        "--queue",
        "mail",
        "--kind",
        "mail.letter",
        "--aggregate",
        "7",
        "-o",
        "json",
    ]

    listed = json.loads(relevo("jobs", "list", *words, "-o", "json").stdout)

    assert [job["id"] for job in listed["jobs"]] == [wanted]


def test_retrying_and_scheduled_are_shown_and_found_apart_from_available(
    relevo: Command, connection: psycopg.Connection
) -> None:
    a_job(connection)
    waiting = a_job(connection, attempt=1)
    later = a_job(connection, available_at="2100-01-01")
    connection.commit()

    listed = json.loads(relevo("jobs", "list", "-o", "json").stdout)["jobs"]
    found = {
        word: json.loads(relevo("jobs", "list", "--state", word, "-o", "json").stdout)["jobs"]
        for word in ("retrying", "scheduled", "available")
    }

    assert {job["id"]: job["standing"] for job in listed}[later] == "scheduled"
    assert [job["id"] for job in found["retrying"]] == [waiting]
    assert [job["id"] for job in found["scheduled"]] == [later]
    assert found["available"] == listed


def test_plain_text_has_a_header_columns_and_no_control_characters(
    relevo: Command, connection: psycopg.Connection
) -> None:
    a_job(connection, state="failed", last_error="\x1b[31mboom\u202e\nsecond line")
    connection.commit()

    said = relevo("jobs", "list").stdout

    header, row = said.splitlines()
    assert header.split() == ["id", "state", "queue", "kind", "starts", "time", "last", "error"]
    assert r"\x1b[31mboom" in row
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert "second" not in row


def test_a_list_shows_no_payload_and_show_does(
    relevo: Command, connection: psycopg.Connection
) -> None:
    job = a_job(connection, payload={"salary": 12345678901234567890, "name": "Núñez"})
    connection.commit()

    listed = relevo("jobs", "list", "-o", "json").stdout
    shown = json.loads(relevo("jobs", "show", str(job), "-o", "json").stdout)

    assert "salary" not in listed
    assert shown["payload"] == {"salary": 12345678901234567890, "name": "Núñez"}
    assert shown["attempts"] == []


def test_show_prints_the_stack_of_the_last_start_that_has_one(
    relevo: Command, connection: psycopg.Connection
) -> None:
    job = a_job(connection, attempt=3)
    for place in (1, 2):
        a_start(connection, job, place, "retried", trace_error(raised(f"boom {place}\x1b[31m")))
    a_start(connection, job, 3, "lost", "worker lost")
    connection.commit()

    shown = relevo("jobs", "show", str(job)).stdout

    _table, _, stack = shown.partition("\n\nthe stack of start 2:\n")
    head, file, *_ = stack.splitlines()
    assert head == r"    ValueError: boom 2\x1b[31m"
    assert file.startswith('      File "')
    assert "in raised" in stack
    assert "boom 1" not in stack


def test_without_a_stack_show_ends_with_the_starts(
    relevo: Command, connection: psycopg.Connection
) -> None:
    job = a_job(connection, attempt=1)
    a_start(connection, job, 1, "released", "OperationalError: no\nDETAIL: the disk is full")
    connection.commit()

    assert "stack" not in relevo("jobs", "show", str(job)).stdout


@pytest.mark.parametrize(("language", "word"), [("es", "perdido"), ("pt", "perdido")])
def test_what_became_of_a_start_is_said_in_the_readers_language(
    relevo: Command, connection: psycopg.Connection, language: str, word: str
) -> None:
    job = a_job(connection, attempt=1)
    a_start(connection, job, 1, "lost", "worker lost")
    connection.commit()
    relevo.variables["RELEVO_LANG"] = language

    said = relevo("jobs", "show", str(job)).stdout
    data = json.loads(relevo("jobs", "show", str(job), "-o", "json").stdout)

    assert said.splitlines()[-1].split()[:2] == ["1", word]
    assert data["attempts"][0]["outcome"] == "lost"


def a_start(
    connection: psycopg.Connection, job: int, attempt: int, outcome: str, error: str
) -> None:
    connection.execute(
        "INSERT INTO relevo.attempts (tenant_id, job_id, attempt, outcome, error) "
        "SELECT tenant_id, id, %s, %s, %s FROM relevo.jobs WHERE id = %s",
        [attempt, outcome, error, job],
    )


def raised(message: str) -> ValueError:
    try:
        raise ValueError(message)  # noqa: TRY301 -- for its stack
    except ValueError as error:
        return error


def test_the_starts_that_count_are_called_so_everywhere(
    relevo: Command, connection: psycopg.Connection
) -> None:
    job = a_job(connection, state="failed", attempt=5, excused=2, last_error="boom")
    connection.commit()

    (listed,) = json.loads(relevo("jobs", "list", "-o", "json").stdout)["jobs"]
    shown = json.loads(relevo("jobs", "show", str(job), "-o", "json").stdout)

    assert (listed["starts"], listed["max_attempts"]) == (3, 6)
    assert listed.keys().isdisjoint({"attempt", "attempts", "excused"})
    assert (shown["starts"], shown["attempt"], shown["excused"]) == (3, 5, 2)
    assert "3/6" in relevo("jobs", "list").stdout
    assert "3/6" in relevo("jobs", "show", str(job)).stdout


def test_retry_makes_a_failed_job_due_and_records_who_asked(
    relevo: Command, connection: psycopg.Connection
) -> None:
    job = a_job(connection, state="failed", attempt=6, last_error="boom")
    connection.commit()
    relevo.variables["RELEVO_ACTOR"] = "ana@hr"

    retried = relevo("jobs", "retry", str(job), "-o", "json")

    row = job_row(connection, job)
    assert json.loads(retried.stdout) == {"retried": [job], "refused": []}
    assert (row["state"], row["excused"], row["requeued_by"]) == ("available", 6, "ana@hr")
    assert [attempt["outcome"] for attempt in history(connection, job)] == ["failed"]


def test_retry_by_filter_takes_the_failed_ones_and_needs_yes(
    relevo: Command, connection: psycopg.Connection
) -> None:
    failed = [a_job(connection, state="failed") for _ in range(250)]
    a_job(connection, state="completed")
    a_job(connection, state="failed", kind="other.kind")
    connection.commit()

    asked = relevo("jobs", "retry", "--kind", "test.work")
    done = relevo("jobs", "retry", "--kind", "test.work", "--yes", "-o", "json")

    assert asked.returncode == 2
    assert "250" in asked.stderr
    assert json.loads(done.stdout)["retried"] == failed


def test_retry_without_saying_which_is_refused(relevo: Command) -> None:
    neither = relevo("jobs", "retry", "--yes")
    both = relevo("jobs", "retry", "1", "--kind", "x", "--yes")

    assert (neither.returncode, both.returncode) == (2, 2)
    assert "not both" in both.stderr
    assert "not both" not in neither.stderr


def test_a_filter_that_finds_no_failed_job_says_so_and_where_the_retrying_ones_are(
    relevo: Command, connection: psycopg.Connection
) -> None:
    waiting = [a_job(connection, attempt=1) for _ in range(3)]
    connection.commit()

    for words in (["--yes"], []):
        none = relevo("jobs", "retry", "--kind", "test.work", *words)
        assert none.returncode == 0
        assert none.stdout == ""
        assert "no job in the state failed" in none.stderr
        assert "3 jobs that wait for their retry" in none.stderr
        assert "--state retrying" in none.stderr
        assert "--yes" not in none.stderr
    as_json = relevo("jobs", "retry", "--kind", "test.work", "--yes", "-o", "json")
    done = relevo(
        "jobs", "retry", "--kind", "test.work", "--state", "retrying", "--yes", "-o", "json"
    )

    assert json.loads(as_json.stdout) == {"retried": [], "refused": []}
    assert json.loads(done.stdout)["retried"] == waiting


def test_a_filter_that_finds_nothing_at_all_only_says_so(relevo: Command) -> None:
    none = relevo("jobs", "retry", "--kind", "test.work", "--yes")

    assert none.stderr.splitlines() == ["no job in the state failed matches the filter"]


def test_a_job_that_cannot_be_retried_leaves_the_others_be(
    relevo: Command, connection: psycopg.Connection
) -> None:
    failed = a_job(connection, state="failed")
    running = a_job(connection, state="running")
    shadowed = a_job(connection, state="failed", live_key="k")
    a_job(connection, live_key="k")
    connection.commit()
    words = [str(job) for job in (running, failed, shadowed)]

    retried = relevo("jobs", "retry", *words, "-o", "json")

    answer = json.loads(retried.stdout)
    assert retried.returncode == 4
    assert answer["retried"] == [failed]
    assert [each["id"] for each in answer["refused"]] == [running, shadowed]
    assert job_row(connection, running)["state"] == "running"


def test_what_does_not_exist_ends_with_three(relevo: Command) -> None:
    assert relevo("jobs", "show", "4711").returncode == 3
    assert relevo("jobs", "retry", "4711").returncode == 3
    assert relevo("jobs", "list", "--tenant", "nobody").returncode == 3


def test_a_tenant_is_named_by_slug_or_id_and_sees_only_its_jobs(
    relevo: Command, connection: psycopg.Connection
) -> None:
    tenant = a_tenant(connection, UUID(int=7))
    slug = connection.execute("SELECT slug FROM relevo.tenants WHERE id = %s", [tenant]).fetchone()
    theirs = a_job(connection, tenant_id=tenant)
    others = a_job(connection)
    connection.commit()
    assert slug is not None

    by_slug = relevo("jobs", "list", "--tenant", slug[0], "-o", "json")
    by_id = relevo("jobs", "list", "--tenant", str(tenant).upper(), "-o", "json")

    assert [job["id"] for job in json.loads(by_slug.stdout)["jobs"]] == [theirs]
    assert by_slug.stdout == by_id.stdout
    assert relevo("jobs", "show", str(others), "--tenant", slug[0]).returncode == 3
    assert relevo("jobs", "retry", str(others), "--tenant", slug[0]).returncode == 3


def test_with_many_tenants_one_has_to_be_named(
    relevo: Command, connection: psycopg.Connection
) -> None:
    connection.execute("UPDATE relevo.installation SET mode = 'multi'")
    connection.commit()

    assert relevo("jobs", "list").returncode == 2
    assert relevo("jobs", "list", "--tenant", "default").returncode == 0


@pytest.mark.parametrize(("language", "word"), [("es", "fallido"), ("pt", "com falha")])
def test_words_are_the_readers_and_keys_are_english(
    relevo: Command, connection: psycopg.Connection, language: str, word: str
) -> None:
    a_job(connection, state="failed")
    connection.commit()
    relevo.variables["RELEVO_LANG"] = language

    said = relevo("jobs", "list").stdout
    data = json.loads(relevo("jobs", "list", "-o", "json").stdout)

    assert word in said
    assert data["jobs"][0]["state"] == "failed"


def test_a_retry_says_that_its_queue_rests(relevo: Command, connection: psycopg.Connection) -> None:
    job_id = a_job(connection, state="failed", queue="mail")
    connection.execute(
        "INSERT INTO relevo.pauses (scope, name, paused_until, reason) "
        "VALUES ('queue', 'mail', '2999-01-01', 'the server is away')"
    )
    connection.commit()

    ended = relevo("jobs", "retry", str(job_id))

    assert ended.returncode == 0
    assert "the queue mail is paused until 2999-01-01" in ended.stderr


def test_an_id_beyond_all_ids_is_not_found(relevo: Command) -> None:
    absurd = "9" * 40

    assert relevo("jobs", "show", absurd).returncode == 3
    assert relevo("jobs", "retry", absurd).returncode == 3


def test_an_empty_list_says_so(relevo: Command) -> None:
    assert "no jobs" in relevo("jobs", "list").stderr
