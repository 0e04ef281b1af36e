"""`relevo limits`: list, set and remove what may run, beside a worker that works."""

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from real_command import PATIENCE, Command

from factories import KIND, QUEUE, a_job, a_kind, a_tenant, a_worker, claim_some, some_jobs
from relevo import DEFAULT_TENANT, Context, Relevo
from relevo.db.drivers import run
from relevo.engine.limits import declare_limits
from relevo.model.ids import lane_of
from relevo.model.limit import Limit
from workers import query, running, wait_until

NEVER = timedelta(minutes=10)
"""A poll so long that whatever starts within a test's patience was started by a hint."""


@pytest.fixture
def owner(database: str) -> Iterator[psycopg.Connection]:
    """The owner's connection, each statement committed by itself."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def listed(relevo: Command) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(relevo("limits", "-o", "json").stdout)["limits"]
    return found


def running_now(database: str) -> int:
    return query(database, "SELECT count(*) FROM relevo.jobs WHERE worker IS NOT NULL")[0][0]


def test_a_limit_is_set_listed_changed_and_removed(relevo: Command) -> None:
    relevo.variables["RELEVO_ACTOR"] = "ana@hr"

    first = relevo("limits", "set", "queue", "mail", "10", "-o", "json")
    (standing,) = listed(relevo)
    changed = relevo("limits", "set", "queue", "mail", "3")
    (after,) = listed(relevo)
    removed = relevo("limits", "remove", "queue", "mail", "-o", "json")
    again = relevo("limits", "remove", "queue", "mail")

    assert json.loads(first.stdout) == {"limit": standing}
    assert (standing["scope"], standing["name"], standing["measure"]) == (
        "queue",
        "mail",
        "running",
    )
    assert (standing["most"], standing["seconds"], standing["used"]) == (10, None, 0)
    assert standing["actor"] == "ana@hr"
    assert changed.stdout == "queue mail: 3 at once\n"
    assert after["most"] == 3
    assert json.loads(removed.stdout) == {"removed": True}
    assert (again.returncode, again.stdout) == (0, "queue mail: there was no such limit\n")
    assert listed(relevo) == []


def test_a_limit_of_starts_stands_beside_one_of_what_runs(relevo: Command) -> None:
    relevo("limits", "set", "kind", KIND, "10")
    set_ = relevo("limits", "set", "kind", KIND, "50", "--within", "1s")
    relevo("limits", "remove", "kind", KIND, "--starts")
    relevo("limits", "set", "kind", KIND, "7", "--within", "2m")

    both = {each["measure"]: (each["most"], each["seconds"]) for each in listed(relevo)}

    assert f"kind {KIND}: 50 starts within 1s" in set_.stdout
    assert both == {"running": (10, None), "starts": (7, 120.0)}
    relevo("limits", "remove", "kind", KIND)
    assert [each["measure"] for each in listed(relevo)] == ["starts"]


def test_the_list_says_what_stands_who_set_it_and_how_much_is_in_use(
    relevo: Command, owner: psycopg.Connection
) -> None:
    relevo.variables["RELEVO_ACTOR"] = "ana@hr"
    with owner.transaction():
        run(owner, declare_limits([a_kind(ordered=True, limits=(Limit(2, per="lane"),))]))
    relevo("limits", "set", "queue", QUEUE, "3")
    worker = a_worker(owner)
    for key in ("x", "y"):
        a_job(owner, lane=lane_of(KIND, key), lane_key=key)
    assert len(claim_some(owner, worker)) == 2

    used = {(each["scope"], each["measure"]): each["used"] for each in listed(relevo)}
    head, *rows = (line.split("  ") for line in relevo("limits", "list").stdout.splitlines())

    assert used == {("lane", "order"): 2, ("lane", "running"): 2, ("queue", "running"): 2}
    assert [word.strip() for word in head if word] == [
        "scope",
        "name",
        "limit",
        "in use",
        "since",
        "by",
    ]
    said = [[word.strip() for word in row if word] for row in rows]
    assert [(row[2], row[-1]) for row in said] == [
        ("one after the other", "the code"),
        ("2 at once", "the code"),
        ("3 at once", "ana@hr"),
    ]


def test_nothing_limited_is_no_error(relevo: Command) -> None:
    shown = relevo("limits")

    assert (shown.returncode, shown.stdout) == (0, "")
    assert "nothing is limited" in shown.stderr


def test_what_runs_already_counts_and_the_person_is_told(
    relevo: Command, owner: psycopg.Connection
) -> None:
    worker = a_worker(owner)
    some_jobs(owner, 5)
    assert len(claim_some(owner, worker, 3)) == 3

    said = relevo("limits", "set", "queue", QUEUE, "2")

    assert said.returncode == 0
    assert "3 run or have started already" in said.stderr
    assert listed(relevo)[0]["used"] == 3
    assert claim_some(owner, worker) == []


def test_tenants_are_named_by_slug_or_id_and_a_star_means_each(relevo: Command) -> None:
    assert relevo("db", "init", "--tenants", "multi").returncode == 0
    added = json.loads(relevo("tenants", "add", "north", "-o", "json").stdout)

    relevo("limits", "set", "tenant", "north", "5")
    each_ = relevo("limits", "set", "tenant", "*", "9")

    found = {one["name"]: (one["tenant_id"], one["most"]) for one in listed(relevo)}
    assert found == {"north": (added["id"], 5), "*": (None, 9)}
    assert each_.stderr == ""
    relevo("limits", "remove", "tenant", added["id"])
    relevo("limits", "remove", "tenant", "*")
    assert listed(relevo) == []


def test_a_tenant_that_does_not_exist_ends_with_3(relevo: Command) -> None:
    for words in (("set", "tenant", "nowhere", "1"), ("remove", "tenant", "nowhere")):
        assert relevo("limits", *words).returncode == 3


def test_a_name_that_nobody_knows_is_limited_with_a_warning(
    relevo: Command, owner: psycopg.Connection
) -> None:
    a_worker(owner)

    unknown = relevo("limits", "set", "queue", "mial", "1")
    known = [relevo("limits", "set", scope, KIND, "1") for scope in ("kind", "lane")]

    assert unknown.returncode == 0
    assert "queue mial: no live worker serves it" in unknown.stderr
    assert [each.stderr for each in known] == ["", ""]


@pytest.mark.parametrize(
    "words",
    [
        ("set", "queue", "mail"),
        ("set", "queue", "mail", "many"),
        ("set", "queue", "mail", "10001"),
        ("set", "queue", "*", "1"),
        ("set", "kind", "Mail!", "1"),
        ("set", "queue", "mail", "1", "--within", "25h"),
        ("set", "job", "mail", "1"),
        ("remove", "queue"),
    ],
)
def test_what_cannot_be_meant_is_a_matter_of_usage(relevo: Command, words: tuple[str, ...]) -> None:
    ended = relevo("limits", *words)

    assert ended.returncode == 2, ended.stderr
    assert listed(relevo) == []


def test_everything_is_said_in_the_language_of_the_run(relevo: Command) -> None:
    spanish = relevo("limits", "set", "queue", "mail", "4", "--within", "1s", "--lang", "es")
    portuguese = relevo("limits", "--lang", "pt")

    assert "cola mail: 4 inicios en 1s" in spanish.stdout
    assert "fila" in portuguese.stdout
    assert "4 inícios em 1s" in portuguese.stdout


@pytest.mark.parametrize(
    ("scope", "name"), [("queue", QUEUE), ("kind", KIND), ("tenant", "default"), ("lane", KIND)]
)
def test_a_worker_keeps_to_the_limit_and_uses_a_larger_one_at_once(
    relevo: Command, database: str, owner: psycopg.Connection, scope: str, name: str
) -> None:
    app, may_end = Relevo(), threading.Event()

    @app.job(KIND)
    def work(_ctx: Context) -> None:
        assert may_end.wait(PATIENCE)

    other = a_tenant(owner)
    relevo("limits", "set", scope, name, "2")
    some_jobs(owner, 6, tenant_id=DEFAULT_TENANT)
    # Where the limit is the tenant's, or each lane's, another tenant has permits of its own.
    a_job(owner, tenant_id=other)
    apart = scope in ("tenant", "lane")

    with running(app, database, poll=NEVER):
        wait_until(lambda: running_now(database) == 2 + apart)
        used = [each["used"] for each in listed(relevo)]
        relevo("limits", "set", scope, name, "5")
        wait_until(lambda: running_now(database) == 5 + apart)
        relevo("limits", "remove", scope, name)
        wait_until(lambda: running_now(database) == 7)
        may_end.set()
        wait_until(lambda: not query(database, "SELECT id FROM relevo.jobs WHERE live"))

    assert used == [2 + (scope == "lane")]
