"""The hot statements keep their index though they were planned while the table was empty."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest
from plans import Prepared, as_engine, nodes, scans

from factories import KIND, QUEUE, a_worker, some_jobs
from relevo import DEFAULT_TENANT
from relevo.store.archive import STATEMENTS as ARCHIVE
from relevo.store.jobs import again, claim, enqueue, prune, read, recover, settle, walk
from relevo.store.workers import STATEMENTS as WORKERS

pytestmark = pytest.mark.core

JOBS = {
    **claim.STATEMENTS,
    **walk.STATEMENTS,
    **settle.STATEMENTS,
    **prune.STATEMENTS,
    **recover.STATEMENTS,
    **enqueue.STATEMENTS,
    **again.STATEMENTS,
    **read.STATEMENTS,
}
ROWS = 300_000
ZERO = UUID(int=0)

CLAIM = {
    "worker": 0,
    "queue": QUEUE,
    "kinds": [KIND],
    "limit": 100,
    "after_tenant": ZERO,
    "after_lane": ZERO,
    "share": 100,
    "priorities": [0, 1, 2, 3],
    "known_tenants": [UUID(int=2**128 - 1)],
    "known_lanes": [UUID(int=2**128 - 1)],
    "visits": 2000,
}
LANES = {
    "worker": 0,
    "queue": QUEUE,
    "kinds": [KIND],
    "limit": 100,
    "shares": [100] * 4,
    "tenant_ids": [DEFAULT_TENANT] * 4,
    "lanes": [ZERO] * 4,
    "priorities": [0, 1, 2, 3],
    "floors": [datetime(1, 1, 1, tzinfo=UTC)] * 4,
    "floor_ids": [0] * 4,
}
ENDED = {
    "tenant_ids": [DEFAULT_TENANT],
    "ids": [1],
    "attempts": [1],
    "errors": ["e"],
    "keeps": [1.0],
}
ENDED |= {"keeps": [1.0]}
COMPLETE = {**ENDED, "worker": 0, "results": ["{}"]}
SETTLE = {**ENDED, "worker": 0, "actions": ["retried"], "delays": [1.0], "traces": ["t"]}
KEYS = {"tenant_id": DEFAULT_TENANT, "kind": KIND, "keys": ["k"]}
PRUNE = {"limit": 1000, "after_tenant": ZERO, "after": None}
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "claim": (JOBS["claim_jobs"], CLAIM),
    "claim from lanes": (JOBS["claim_lanes"], LANES),
    "prune": (JOBS["prune_jobs"], PRUNE),
    "missing months": (ARCHIVE["find_missing_months"], PRUNE),
    "overdue": (JOBS["count_overdue_jobs"], {"late": 600.0, "most": 1000}),
    "complete": (JOBS["complete_jobs"], COMPLETE),
    "settle": (JOBS["settle_jobs"], SETTLE),
    "renew": (WORKERS["renew_worker"], {"worker": 0, "lease": 1.0}),
    "holders": (JOBS["find_key_holders"], {**KEYS, "key_mode": "key"}),
    "expired": (JOBS["release_expired_keys"], KEYS),
    "rescue": (JOBS["rescue_jobs"], {"workers": [0], "keep": 1.0, "kept_kinds": ["x"]}),
    "unserved": (
        JOBS["postpone_unserved_jobs"],
        {"queue": QUEUE, "delay": 30.0, "limit": 1000},
    ),
    "unknown": (
        JOBS["release_unknown_jobs"],
        {"worker": 0, "known": [1], "keep": 86400.0, "kept_kinds": []},
    ),
    "show": (JOBS["show_job"], {"tenant_id": DEFAULT_TENANT, "id": 1}),
}


@pytest.fixture(scope="module")
def plans(server: str, template: str) -> Iterator[dict[str, Any]]:
    """The plans of all cases: prepared and run 7 times on an empty table, then 300,000 rows."""
    name = "relevo_plans"
    dsn = psycopg.conninfo.make_conninfo(server, dbname=name)
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"DROP DATABASE IF EXISTS {name}".encode())
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
        try:
            with (
                psycopg.connect(as_engine(dsn), autocommit=True) as session,
                psycopg.connect(dsn, autocommit=True) as owner,
            ):
                owner.execute("ANALYZE")
                prepared = {
                    case: (Prepared(session, statement), params)
                    for case, (statement, params) in CASES.items()
                }
                for statement, params in prepared.values():
                    for _ in range(7):
                        statement.execute(params)
                a_worker(owner)
                some_jobs(owner, ROWS)
                yield {
                    case: statement.execute(params, explain=True)
                    for case, (statement, params) in prepared.items()
                }
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def test_the_claim_reads_jobs_by_its_own_index_and_by_place_alone(plans: dict[str, Any]) -> None:
    assert scans(plans["claim"], "jobs") == [
        ("Index Only Scan", "jobs_claim"),
        ("Index Scan", "jobs_claim"),
        ("Tid Scan", None),
    ] or scans(plans["claim"], "jobs") == [
        ("Index Scan", "jobs_claim"),
        ("Tid Scan", None),
    ]


def test_the_claim_from_lanes_reads_each_lane_behind_its_floor(plans: dict[str, Any]) -> None:
    """Red when the floor is a filter: dead entries before it would be read every time."""
    assert scans(plans["claim from lanes"], "jobs") == [
        ("Index Scan", "jobs_claim"),
        ("Tid Scan", None),
    ]
    conditions = [
        node["Index Cond"]
        for node in nodes(plans["claim from lanes"])
        if node.get("Index Name") == "jobs_claim"
    ]
    for column in ("queue =", "tenant_id =", "lane =", "priority =", "available_at <="):
        assert all(column in condition for condition in conditions)
    assert all("ROW(available_at, id) > ROW(" in condition for condition in conditions)


def test_the_pruner_reads_only_rows_that_may_go(plans: dict[str, Any]) -> None:
    assert scans(plans["prune"], "jobs") == [("Index Scan", "jobs_prune"), ("Tid Scan", None)]
    assert scans(plans["prune"], "attempts") == [("Index Scan", "attempts_pkey")]


@pytest.mark.parametrize("case", ["prune", "missing months"])
def test_the_pruner_goes_on_where_the_batch_before_stopped(
    plans: dict[str, Any], case: str
) -> None:
    """Red when the place is a filter: dead entries before it would be read by every batch."""
    (condition,) = [
        node["Index Cond"] for node in nodes(plans[case]) if node.get("Index Name") == "jobs_prune"
    ]

    assert "prune_at >= CASE" in condition
    assert [
        node["Index Cond"] for node in nodes(plans[case]) if node.get("Relation Name") == "tenants"
    ] == ["(id >= $1)"]


@pytest.mark.parametrize("case", sorted(CASES))
def test_a_hot_statement_neither_sorts_jobs_nor_reads_them_whole(
    plans: dict[str, Any], case: str
) -> None:
    kinds = {node["Node Type"] for node in nodes(plans[case])}

    assert not any("Sort" in kind for kind in kinds)
    assert "Seq Scan" not in {kind for kind, _ in scans(plans[case], "jobs")}
    assert not {"Hash Join", "Merge Join", "Bitmap Heap Scan"} & kinds


@pytest.mark.parametrize("case", ["claim", "claim from lanes"])
def test_the_claim_filters_in_the_heap_only_what_the_decision_record_lists(
    plans: dict[str, Any], case: str
) -> None:
    filters = {
        node["Filter"]
        for node in nodes(plans[case])
        if node.get("Relation Name") == "jobs" and "Filter" in node
    }

    # `live` is the index's own predicate; a worker changes, and a worker serves many kinds.
    assert len(filters) == 1
    parts = filters.pop().removeprefix("(").removesuffix(")").split(" AND ")
    allowed = re.compile(
        r"live|\(worker IS NULL\)|\(kind = ANY \((\$\d+|\(InitPlan \d+\)\.col1)\)\)"
    )
    assert [part for part in parts if not allowed.fullmatch(part)] == []
    assert len(parts) == len(set(parts))


def test_the_claims_index_condition_covers_every_column_before_the_id(
    plans: dict[str, Any],
) -> None:
    picks = [
        node["Index Cond"]
        for node in nodes(plans["claim"])
        if node.get("Relation Name") == "jobs" and "Filter" in node
    ]

    for column in ("queue =", "tenant_id =", "lane =", "priority =", "available_at <="):
        assert all(column in condition for condition in picks)


@pytest.mark.parametrize("case", ["complete", "settle", "show"])
def test_a_job_is_ended_and_shown_by_its_primary_key(plans: dict[str, Any], case: str) -> None:
    assert {index for _, index in scans(plans[case], "jobs")} == {"jobs_pkey"}


@pytest.mark.parametrize("case", ["complete", "settle"])
def test_a_settle_names_tenant_and_id_in_the_index_and_the_fence_in_the_heap(
    plans: dict[str, Any], case: str
) -> None:
    fenced = [
        node
        for node in nodes(plans[case])
        if node.get("Index Name") == "jobs_pkey" and "worker" in node.get("Filter", "")
    ]

    assert fenced
    for node in fenced:
        assert "tenant_id =" in node["Index Cond"]
        assert "id =" in node["Index Cond"]
        assert "attempt" in node["Filter"]
        assert "state" not in node["Filter"]


def test_a_heartbeat_renews_by_primary_key(plans: dict[str, Any]) -> None:
    assert scans(plans["renew"], "workers") == [("Index Scan", "workers_pkey")]


def test_the_holders_of_keys_are_looked_up_one_by_one_in_their_unique_index(
    plans: dict[str, Any],
) -> None:
    looks = {
        node["Index Name"]: node["Index Cond"]
        for node in nodes(plans["holders"])
        if node.get("Relation Name") == "jobs"
    }

    assert sorted(looks) == ["jobs_key", "jobs_live_key", "jobs_waiting_key"]
    assert all("key = wanted" in condition for condition in looks.values())


def test_expired_keys_are_found_by_their_unique_index(plans: dict[str, Any]) -> None:
    assert scans(plans["expired"], "jobs") == [("Index Scan", "jobs_key")]


@pytest.mark.parametrize("case", ["rescue", "unknown"])
def test_a_rescue_passes_over_live_jobs_only_once(plans: dict[str, Any], case: str) -> None:
    whole = [
        node["Index Name"]
        for node in nodes(plans[case])
        if node.get("Relation Name") == "jobs" and "Scan" in node["Node Type"]
        if "Index Cond" not in node
    ]

    assert whole == ["jobs_claim"]


def test_unserved_jobs_are_looked_for_at_the_head_of_the_claim_index(
    plans: dict[str, Any],
) -> None:
    assert {index for kind, index in scans(plans["unserved"], "jobs") if kind != "Tid Scan"} == {
        "jobs_claim"
    }
