"""What a claim under limits reads: as much as it starts and looks at, whatever the table keeps.

The statements were planned while the tables were empty; then came 300,000 jobs and 5,000 permits.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from plans import Node, Prepared, as_engine, nodes, scans
from psycopg import sql

from factories import KIND, QUEUE, a_worker, claim_some, make_due, settle_some, some_jobs, value
from limiting import ENGINES_LEVEL, in_lane, know, limit, ordered
from relevo import DEFAULT_TENANT
from relevo.model.ids import NO_LANE, lane_of
from relevo.model.ring import Ring
from relevo.model.scope import Scope
from relevo.model.settlement import Action
from relevo.store.jobs.lanes import STATEMENTS as MOVES
from relevo.store.jobs.limited import STATEMENTS as LIMITED
from relevo.store.jobs.walk import STATEMENTS as WALKS
from relevo.store.limits import STATEMENTS as LIMITS

pytestmark = pytest.mark.core

ROWS = 300_000
PERMITS = 5_000
USED = 4_900
LIMIT = 100
LANES = 128
OTHER = "test.other"
FIRST = datetime(1, 1, 1, tzinfo=UTC)

KEYS = [lane_of(KIND, str(n)) for n in range(LANES)]
ROUND: dict[str, Any] = {
    "worker": 0,
    "queue": QUEUE,
    "kinds": [KIND, OTHER],
    "limit": LIMIT,
    "shares": [LIMIT] * LANES,
    "tenant_ids": [DEFAULT_TENANT] * LANES,
    "lanes": [NO_LANE, *KEYS[1:]],
    "lane_kinds": [None, *[KIND] * (LANES - 1)],
    "priorities": [0, 1, 2, 3],
    "floors": [FIRST] * 4 * LANES,
    "floor_ids": [0] * 4 * LANES,
}
WALK: dict[str, Any] = {
    "queue": QUEUE,
    "kinds": [KIND, OTHER],
    "after_tenant": UUID(int=0),
    "after_lane": UUID(int=0),
    "priorities": [0, 1, 2, 3],
    "lanes": LANES,
    "known_tenants": [UUID(int=2**128 - 1)],
    "known_lanes": [UUID(int=2**128 - 1)],
    "known_kinds": [],
    "visits": 2000,
}
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "claim_limited": (LIMITED["claim_limited"], ROUND),
    "find_lanes": (WALKS["find_lanes"], WALK),
    "find_due_queues": (
        WALKS["find_due_queues"],
        {"queues": [QUEUE, "side"], "kinds": [KIND, OTHER]},
    ),
    "look_at_limits": (LIMITS["look_at_limits"], {"queue": QUEUE, "kinds": [KIND, OTHER]}),
    "prune_permits": (LIMITS["prune_permits"], {"limit": 1000}),
    "move_to_lanes": (
        MOVES["move_to_lanes"],
        {"queue": QUEUE, "tenant_ids": [DEFAULT_TENANT], "limit": 1000, "share": 100},
    ),
}


def run_and_explain(
    session: psycopg.Connection, prepared: Prepared, params: dict[str, Any]
) -> Node:
    """What the prepared statement did, its effect taken back; the second time, all pages warm."""
    for _ in range(2):
        with session.transaction(force_rollback=True):
            values = prepared._statement.positional(params)
            call = sql.SQL("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE {} ({})")
            found = session.execute(
                call.format(
                    sql.Identifier(prepared._statement.name),
                    sql.SQL(", ").join(map(sql.Literal, values)),
                )
            ).fetchone()[0]
    return (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]


def pages(plan: Node) -> int:
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


def fill(owner: psycopg.Connection) -> None:
    """Many jobs in one lane, some in many, and a limit whose permits are nearly all in use."""
    some_jobs(owner, ROWS, kind=OTHER)
    for n, lane in enumerate(KEYS):
        some_jobs(owner, 3, lane=str(lane), lane_key=str(n))
    limit(owner, Scope.QUEUE, QUEUE, PERMITS)
    limit(owner, Scope.LANE, KIND, 1)
    ordered(owner)
    worker = a_worker(owner)
    owner.execute(
        "WITH held AS (UPDATE relevo.jobs SET state = 'running', attempt = 1, worker = %s,"
        " started_at = now() WHERE id IN (SELECT id FROM relevo.jobs WHERE kind = %s"
        " ORDER BY id LIMIT %s) RETURNING tenant_id, id)"
        " INSERT INTO relevo.permits SELECT l.id, %s, %s, row_number() OVER (ORDER BY h.id),"
        " 1, h.tenant_id, h.id, now() FROM held AS h, relevo.limits AS l WHERE l.scope = 'queue'",
        [worker, OTHER, USED, NO_LANE, NO_LANE],
    )


@pytest.fixture(scope="module")
def filled(server: str, template: str) -> Iterator[dict[str, Any]]:
    """The plans of all cases, and what the claim did beside few jobs and beside many."""
    name = f"{template}_limit_plans"
    dsn = psycopg.conninfo.make_conninfo(server, dbname=name)
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
        try:
            with (
                psycopg.connect(as_engine(dsn), autocommit=True) as session,
                psycopg.connect(dsn, autocommit=True, options=ENGINES_LEVEL) as owner,
            ):
                # The driver would forget all prepared statements after a roll-back.
                session.prepare_threshold = None
                owner.execute("ANALYZE")
                prepared = {
                    case: (Prepared(session, statement), params)
                    for case, (statement, params) in CASES.items()
                }
                for statement, params in prepared.values():
                    for _ in range(7):
                        statement.execute(params)
                fill(owner)
                claim = {**ROUND, "worker": a_worker(owner)}
                yield {
                    "plans": {
                        case: statement.execute(params, explain=True)
                        for case, (statement, params) in prepared.items()
                    },
                    "claim": run_and_explain(session, prepared["claim_limited"][0], claim),
                    "walk": run_and_explain(session, *prepared["find_lanes"]),
                    "look": run_and_explain(session, *prepared["look_at_limits"]),
                }
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.mark.parametrize("case", sorted(CASES))
def test_jobs_and_permits_are_read_by_index_or_by_place_alone(
    filled: dict[str, Any], case: str
) -> None:
    plan = filled["plans"][case]

    for table in ("jobs", "permits"):
        kinds = {kind for kind, _ in scans(plan, table)}
        assert kinds <= {"Index Scan", "Index Only Scan", "Tid Scan"}
    assert {index for _, index in scans(plan, "jobs")} <= {"jobs_claim", "jobs_pkey", None}
    assert {index for _, index in scans(plan, "permits")} <= {"permits_pkey", None}


@pytest.mark.parametrize("case", sorted(CASES))
def test_jobs_are_neither_hashed_nor_merged(filled: dict[str, Any], case: str) -> None:
    kinds = {node["Node Type"] for node in nodes(filled["plans"][case])}

    assert not {"Hash Join", "Merge Join", "Bitmap Heap Scan"} & kinds


@pytest.mark.parametrize("case", ["claim_limited", "find_lanes", "find_due_queues"])
def test_a_look_for_due_jobs_names_every_column_of_the_claims_index(
    filled: dict[str, Any], case: str
) -> None:
    """Red when a column turns into a filter: jobs of others, or of later, would be read."""
    looks = [
        node["Index Cond"]
        for node in nodes(filled["plans"][case])
        if node.get("Index Name") == "jobs_claim" and "available_at" in node.get("Index Cond", "")
    ]

    assert looks
    for column in ("queue =", "tenant_id =", "lane =", "priority =", "available_at <="):
        assert all(column in condition for condition in looks)


def test_of_the_index_of_claims_only_the_walk_reads_what_is_not_due(
    filled: dict[str, Any],
) -> None:
    others = [
        node
        for node in nodes(filled["plans"]["claim_limited"])
        if node.get("Index Name") == "jobs_claim"
        and "available_at" not in node.get("Index Cond", "")
    ]

    assert others == []


def test_the_job_of_a_permit_is_found_by_its_primary_key(filled: dict[str, Any]) -> None:
    """Red when the look goes by tenant alone: an empty table's plan would read all of its jobs."""
    looks = [
        node["Index Cond"]
        for case in CASES
        for node in nodes(filled["plans"][case])
        if node.get("Index Name") == "jobs_pkey"
    ]

    assert looks
    for look in looks:
        assert re.search(r"\btenant_id =", look)
        assert re.search(r"\bid =", look)


def test_a_round_begins_in_each_lane_behind_its_floor(filled: dict[str, Any]) -> None:
    conditions = [
        node["Index Cond"]
        for node in nodes(filled["plans"]["claim_limited"])
        if node.get("Index Name") == "jobs_claim"
    ]

    assert sum("ROW(available_at, id) > ROW(" in each for each in conditions) == 1
    # A lane in order begins a minute before it.
    assert sum("'00:01:00'::interval" in each for each in conditions) == 1
    assert len(conditions) == 2


def test_a_claim_reads_pages_for_its_permits_and_its_jobs_alone(filled: dict[str, Any]) -> None:
    """Each permit: its page, its job by a tree of three levels, and one look for its number."""
    plan = filled["claim"]

    updated = [node for node in nodes(plan) if node["Node Type"] == "ModifyTable"]
    assert len(updated) == 3
    assert plan["Actual Rows"] == LIMIT
    assert pages(plan) <= 8 * PERMITS + 40 * LIMIT + 20 * LANES


def test_a_claim_compares_nothing_with_everything(filled: dict[str, Any]) -> None:
    """Red when a join reads all permits for each number: pages do not tell, rows do."""
    removed = [
        node.get("Rows Removed by Join Filter", 0) * node["Actual Loops"]
        for node in nodes(filled["claim"])
    ]
    read = [node["Actual Rows"] * node["Actual Loops"] for node in nodes(filled["claim"])]

    assert max(removed) <= 2 * PERMITS
    assert max(read) <= 2 * PERMITS


def test_permits_are_made_in_one_order(filled: dict[str, Any]) -> None:
    """Red without it: two claims that make the same ones could wait for each other."""
    (made,) = [
        node
        for node in nodes(filled["plans"]["claim_limited"])
        if node.get("Operation") == "Insert"
    ]
    (rows,) = made["Plans"]
    while rows["Node Type"] == "Subquery Scan":
        (rows,) = rows["Plans"]

    assert rows["Node Type"] == "Sort"
    assert [key.partition(".")[2] for key in rows["Sort Key"]] == [
        "limit_id",
        "for_tenant",
        "for_lane",
        "number",
    ]


def test_a_walk_reads_a_handful_of_pages_for_each_lane(filled: dict[str, Any]) -> None:
    plan = filled["walk"]

    assert plan["Actual Rows"] == LANES
    assert pages(plan) <= 60 * LANES


def test_a_look_at_limits_reads_no_job(filled: dict[str, Any]) -> None:
    assert scans(filled["plans"]["look_at_limits"], "jobs") == []
    assert pages(filled["look"]) <= 60


def number_of(session: psycopg.Connection) -> str | None:
    """The transaction's number; WAL begins with one, and so does a lock on a row."""
    return value(session, "SELECT pg_current_xact_id_if_assigned()::text")


def nothing_is_written(owner: psycopg.Connection, dsn: str, worker: int, ring: Ring) -> None:
    with psycopg.connect(as_engine(dsn), autocommit=True) as session:
        for _ in range(7):
            assert claim_some(session, worker, kinds=(KIND, OTHER), ring=ring) == []
            ring.rest()
        with session.transaction():
            assert claim_some(session, worker, kinds=(KIND, OTHER), ring=ring) == []
            assert number_of(session) is None


@pytest.mark.parametrize("within", [None, timedelta(hours=1)], ids=["running", "starts"])
@pytest.mark.parametrize("scope", [Scope.QUEUE, Scope.KIND, Scope.TENANT, Scope.LANE])
def test_a_claim_under_a_limit_that_is_used_up_writes_no_wal(
    database: str, scope: Scope, within: timedelta | None
) -> None:
    """Red when jobs or permits are locked before it is known that a permit is free."""
    names = {Scope.QUEUE: QUEUE, Scope.TENANT: "*"}
    ring = Ring()
    with psycopg.connect(database, autocommit=True, options=ENGINES_LEVEL) as owner:
        worker = a_worker(owner)
        limit(owner, scope, names.get(scope, KIND), 2, within=within)
        for _ in range(5):
            in_lane(owner, "a")
        assert len(claim_some(owner, worker, ring=ring)) == 2

        nothing_is_written(owner, database, worker, ring)


def test_a_claim_beside_a_turn_that_waits_for_a_permit_writes_no_wal(database: str) -> None:
    """Red when a retry that keeps its turn is locked though its kind is at its limit."""
    ring = Ring()
    with psycopg.connect(database, autocommit=True, options=ENGINES_LEVEL) as owner:
        worker = a_worker(owner)
        ordered(owner)
        jobs = [in_lane(owner, key) for key in "ab"]
        claimed = claim_some(owner, worker)
        limit(owner, Scope.KIND, KIND, 1)
        again = next(job for job in claimed if job.id == jobs[1])
        settle_some(owner, worker, [again], Action.RETRIED)
        make_due(owner, again.id)
        know(ring, *[lane_of(KIND, key) for key in "ab"])

        nothing_is_written(owner, database, worker, ring)
