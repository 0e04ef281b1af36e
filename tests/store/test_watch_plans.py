"""A live view reads what is live or has just ended, whatever the table keeps beside it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest
from plans import Node, nodes, scans

from factories import a_tenant, a_worker, some_jobs
from relevo.cli.top import SETTINGS
from relevo.db.dsn import WORKER_ROLE, with_session
from relevo.store.watch import STATEMENTS

pytestmark = pytest.mark.core

FINISHED = 100_000
ROWS = 500

PARAMS: Mapping[str, object] = {
    "tenants": 100,
    "queues": 100,
    "rows": ROWS,
    "window": 10.0,
    "lag": 0.25,
    "names": ["default", "mail"],
    "lanes": 10,
    "head": 20,
    "workers": 100,
    "pauses": 100,
    "limits": 100,
    "permits": 100,
}

ABOUT_JOBS = {
    "watch_queues": {"jobs_claim"},
    "watch_live": {"jobs_claim"},
    "watch_heads": {"jobs_claim"},
    "watch_ended": {"jobs_finished"},
    "watch_limits": {"jobs_pkey"},
}


def explain(connection: psycopg.Connection, name: str, *, run: bool) -> Node:
    """What the server does for a statement that has been prepared on its session."""
    statement = STATEMENTS[name]
    how = "ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON" if run else "FORMAT JSON"
    found: Any = connection.execute(f"EXPLAIN ({how}) {statement.sql}".encode(), PARAMS).fetchone()
    return (json.loads(found[0]) if isinstance(found[0], str) else found[0])[0]["Plan"]


def buffers(connection: psycopg.Connection) -> dict[str, int]:
    """How many pages each statement touches, the second time."""
    for name in STATEMENTS:
        explain(connection, name, run=True)
    return {
        name: plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        for name in STATEMENTS
        for plan in [explain(connection, name, run=True)]
    }


@pytest.fixture(scope="module")
def filled(server: str, template: str) -> Iterator[dict[str, Any]]:
    """Plans and pages before and after 100,000 jobs have finished an hour ago."""
    name = "relevo_watch_plans"
    dsn = psycopg.conninfo.make_conninfo(server, dbname=name)
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"DROP DATABASE IF EXISTS {name}".encode())
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
        try:
            session = with_session(dsn, role=WORKER_ROLE, settings=SETTINGS)
            with (
                psycopg.connect(dsn, autocommit=True) as owner,
                psycopg.connect(session, autocommit=True) as watching,
            ):
                owner.execute("ANALYZE")
                a_worker(owner)
                some_jobs(owner, 200)
                some_jobs(owner, 2 * ROWS, queue="mail")
                before = buffers(watching)
                for outcome in ("completed", "failed"):
                    ended = {"state": outcome, "outcome": outcome, "live": False}
                    ago = owner.execute("SELECT now() - interval '1 hour'").fetchone()
                    some_jobs(owner, FINISHED // 2, **ended, finished_at=ago[0], started_at=ago[0])
                yield {
                    "before": before,
                    "after": buffers(watching),
                    "plans": {each: explain(watching, each, run=True) for each in STATEMENTS},
                }
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_finished_jobs_cost_a_look_no_page(filled: dict[str, Any], name: str) -> None:
    """The few pages more are levels of a taller index: one for each tenant and outcome."""
    assert filled["after"][name] <= filled["before"][name] + 6


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_jobs_are_read_by_the_indexes_of_live_and_of_finished_rows_alone(
    filled: dict[str, Any], name: str
) -> None:
    found = scans(filled["plans"][name], "jobs")

    assert {index for _, index in found} == ABOUT_JOBS.get(name, set())
    assert all(kind in {"Index Scan", "Index Only Scan"} for kind, _ in found)


def test_finished_jobs_are_read_from_when_the_window_begins(filled: dict[str, Any]) -> None:
    """Red when the time is a filter: the whole range of the tenant would be read."""
    conditions = [
        node["Index Cond"]
        for node in nodes(filled["plans"]["watch_ended"])
        if node.get("Index Name") == "jobs_finished"
    ]

    assert conditions
    for column in ("tenant_id =", "outcome =", "finished_at >"):
        assert all(column in condition for condition in conditions)


def test_of_a_long_queue_no_more_is_read_than_the_bound(filled: dict[str, Any]) -> None:
    reads = [
        node["Actual Rows"] * node["Actual Loops"]
        for node in nodes(filled["plans"]["watch_live"])
        if node.get("Relation Name") == "jobs"
    ]

    # 200 of one queue, and of the other the first of its thousand.
    assert sum(reads) == 200 + ROWS


def test_of_a_flood_of_ended_jobs_no_more_is_read_than_the_bound(
    connection: psycopg.Connection,
) -> None:
    ended = {"state": "completed", "outcome": "completed", "live": False}
    now = connection.execute("SELECT now() - interval '1 second'").fetchone()
    for tenant in (a_tenant(connection), a_tenant(connection)):
        some_jobs(connection, ROWS, tenant_id=tenant, finished_at=now[0], **ended)
    for name, value in SETTINGS.items():
        if name.startswith("enable_"):
            connection.execute(f"SET LOCAL {name} = {value}".encode())

    plan = explain(connection, "watch_ended", run=True)

    reads = [
        node["Actual Rows"] * node["Actual Loops"]
        for node in nodes(plan)
        if node.get("Relation Name") == "jobs"
    ]
    assert sum(reads) <= ROWS + 1


def test_the_session_of_a_look_can_neither_write_nor_take_long(shared_database: str) -> None:
    session = with_session(shared_database, role=WORKER_ROLE, settings=SETTINGS)

    with psycopg.connect(session, autocommit=True) as watching:
        shown = watching.execute("SHOW statement_timeout").fetchone()
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            watching.execute("DELETE FROM relevo.pauses")

    assert shown == ("2s",)
