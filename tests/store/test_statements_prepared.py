"""Every statement that ships fits the migrated schema and answers what the code reads."""

import re
import types
import typing
from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime
from importlib.resources import files
from importlib.resources.abc import Traversable
from uuid import UUID

import psycopg
import pytest

from relevo.db.statements import Statement, parse_statements
from relevo.model.job import Attempt, ClaimedJob, Job
from relevo.store.archive import Month, Setting
from relevo.store.jobs import claim, limited, walk
from relevo.store.jobs.read import Waiting
from relevo.store.limits import LimitRow
from relevo.store.pauses import Pause
from relevo.store.tenants import Tenant
from relevo.store.watch import EndedRow, HeadRow, LiveRow, PauseRow, SessionRow, UseRow
from relevo.store.workers import WorkerRow

pytestmark = [
    pytest.mark.core,
    pytest.mark.direct("it prepares each statement by hand, and asks the same session about it"),
]

# What PostgreSQL's types are in Python, by OID.
TYPES = {
    16: bool,
    20: int,
    21: int,
    23: int,
    25: str,
    701: float,
    1184: datetime,
    1009: list[str],
    2950: UUID,
}

# Statements whose rows become a dataclass field by field, in this order.
READ_AS = {
    ("relevo/store/jobs/claim.sql", "claim_jobs"): ClaimedJob,
    ("relevo/store/jobs/claim.sql", "claim_lanes"): ClaimedJob,
    ("relevo/store/jobs/limited.sql", "claim_limited"): ClaimedJob,
    ("relevo/store/limits.sql", "list_limits"): LimitRow,
    ("relevo/store/jobs/read.sql", "list_jobs"): Job,
    ("relevo/store/jobs/read.sql", "list_waiting"): Waiting,
    ("relevo/store/jobs/read.sql", "show_job"): Job,
    ("relevo/store/attempts.sql", "list_attempts"): Attempt,
    ("relevo/store/archive.sql", "list_archived_attempts"): Attempt,
    ("relevo/store/archive.sql", "list_months"): Month,
    ("relevo/store/archive.sql", "read_archive"): Setting,
    ("relevo/store/archive.sql", "switch_archive"): Setting,
    ("relevo/store/workers.sql", "list_workers"): WorkerRow,
    ("relevo/store/watch.sql", "watch_live"): LiveRow,
    ("relevo/store/watch.sql", "watch_heads"): HeadRow,
    ("relevo/store/watch.sql", "watch_ended"): EndedRow,
    ("relevo/store/watch.sql", "watch_workers"): SessionRow,
    ("relevo/store/watch.sql", "watch_pauses"): PauseRow,
    ("relevo/store/watch.sql", "watch_limits"): UseRow,
    ("relevo/store/pauses.sql", "list_pauses"): Pause,
    ("relevo/store/tenants.sql", "list_tenants"): Tenant,
}

# Statements whose rows are taken apart by hand: the types of the columns that the code unpacks.
UNPACKED = {
    ("relevo/store/limits.sql", "read_isolation"): [str],
    ("relevo/store/jobs/walk.sql", "find_due_queues"): [str],
    ("relevo/store/jobs/walk.sql", "skip_lanes"): [UUID, UUID],
    ("relevo/store/jobs/walk.sql", "find_lanes"): [UUID, UUID, str, int, datetime, int],
    ("relevo/store/jobs/lanes.sql", "move_to_lanes"): [int],
    ("relevo/store/limits.sql", "look_at_limits"): [bool, float],
    ("relevo/store/limits.sql", "find_limit"): [int, int, float, str],
    ("relevo/store/limits.sql", "insert_limit"): [int],
    ("relevo/store/limits.sql", "list_declared"): [str, str, str],
    ("relevo/store/limits.sql", "prune_permits"): [int],
    ("relevo/store/jobs/enqueue.sql", "insert_job"): [int, bool],
    ("relevo/store/jobs/enqueue.sql", "insert_jobs"): [int, int],
    ("relevo/store/jobs/enqueue.sql", "find_key_holders"): [str, int],
    ("relevo/store/jobs/settle.sql", "complete_jobs"): [UUID, int],
    ("relevo/store/jobs/settle.sql", "settle_jobs"): [UUID, int, str],
    ("relevo/store/jobs/recover.sql", "rescue_jobs"): [UUID, int, str, str, str],
    ("relevo/store/jobs/recover.sql", "postpone_unserved_jobs"): [str, int],
    ("relevo/store/jobs/recover.sql", "release_unknown_jobs"): [int],
    ("relevo/store/jobs/again.sql", "lock_job"): [str, int, str, bool],
    ("relevo/store/jobs/again.sql", "requeue_jobs"): [int, str],
    ("relevo/store/jobs/again.sql", "cancel_jobs"): [int, int],
    ("relevo/store/jobs/prune.sql", "prune_jobs"): [UUID, datetime, bool],
    ("relevo/store/jobs/read.sql", "count_jobs"): [str, str, int],
    ("relevo/store/jobs/enqueue.sql", "release_expired_keys"): [int],
    ("relevo/store/workers.sql", "insert_worker"): [int],
    ("relevo/store/workers.sql", "delete_expired_workers"): [int, str],
    ("relevo/store/workers.sql", "lock_ended_workers"): [int],
    ("relevo/store/workers.sql", "mark_worker_idle"): [],
    ("relevo/store/workers.sql", "mark_worker_stopping"): [],
    ("relevo/store/workers.sql", "expire_worker"): [],
    ("relevo/store/workers.sql", "renew_worker"): [int, datetime],
    ("relevo/store/workers.sql", "read_clock"): [float, float, float],
    ("relevo/store/pauses.sql", "pause"): [datetime],
    ("relevo/store/pauses.sql", "resume"): [bool],
    ("relevo/store/tenants.sql", "find_tenant"): [UUID, str],
    ("relevo/store/tenants.sql", "insert_tenant"): [UUID],
    ("relevo/store/tenants.sql", "list_tenants"): [UUID, str, str, datetime],
}

SHOWN = ("relevo/store/jobs/read.sql", "show_job")
ARCHIVED = ("relevo/store/archive.sql", "show_archived_job")

# JSON crosses the driver as text, so the column is text where the field may be anything.
AS_TEXT = {"payload", "result"}


def sql_files(folder: Traversable, path: str) -> Iterator[tuple[str, str]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from sql_files(entry, f"{path}/{entry.name}")
        elif entry.name.endswith(".sql"):
            text = entry.read_text(encoding="utf-8")
            # Migrations and scripts are whole files; only named statements are prepared.
            if "-- name: " in text:
                yield f"{path}/{entry.name}", text


SHIPPED: dict[tuple[str, str], Statement] = {
    (path, name): statement
    for package in ("relevo", "relevo_apps")
    for path, text in sql_files(files(package), package)
    for name, statement in parse_statements(text).items()
}


def prepare(connection: psycopg.Connection, statement: Statement) -> list[tuple[str, int]]:
    """Prepare a statement; answers name and type of each column that it will answer."""
    pgconn = connection.pgconn
    result = pgconn.prepare(b"s", statement.numbered.encode())
    assert not result.error_message, result.error_message.decode()
    described = pgconn.describe_prepared(b"s")
    assert described.nparams == len(statement.parameters)
    return [
        (described.fname(place).decode(), described.ftype(place))
        for place in range(described.nfields)
    ]


def plain(hint: object) -> object:
    """The type without `| None`, an enum as the text that it is read from."""
    if isinstance(hint, types.UnionType):
        hint = next(part for part in typing.get_args(hint) if part is not types.NoneType)
    return str if isinstance(hint, type) and issubclass(hint, str) else hint


def test_the_statements_of_the_engine_and_of_the_applications_are_found() -> None:
    homes = {path for path, _ in SHIPPED}

    assert "relevo/store/jobs/claim.sql" in homes
    assert "relevo/db/identity.sql" in homes
    assert any(path.startswith("relevo_apps/evaluations/store/") for path in homes)
    assert len(SHIPPED) > 60


@pytest.mark.parametrize("home", sorted({path for path, _ in SHIPPED}))
def test_every_statement_of_a_file_is_understood_by_the_migrated_schema(
    connection: psycopg.Connection, home: str
) -> None:
    statements = {name: stated for (path, name), stated in SHIPPED.items() if path == home}

    refused = {}
    for name, statement in statements.items():
        try:
            with connection.transaction():
                prepare(connection, statement)
                connection.execute("DEALLOCATE s")
        except AssertionError as error:
            refused[name] = str(error)

    assert not refused


@pytest.mark.parametrize(
    ("home", "name"), sorted(READ_AS), ids=lambda part: part.rpartition("/")[2]
)
def test_the_columns_that_become_a_value_have_its_fields_names_and_types(
    connection: psycopg.Connection, home: str, name: str
) -> None:
    reader = READ_AS[home, name]
    hints = typing.get_type_hints(reader)
    wanted = [
        (field.name, str if field.name in AS_TEXT else plain(hints[field.name]))
        for field in fields(reader)
    ]

    columns = prepare(connection, SHIPPED[home, name])

    assert [(column, TYPES[oid]) for column, oid in columns] == wanted


@pytest.mark.parametrize(
    ("home", "name"), sorted(UNPACKED), ids=lambda part: part.rpartition("/")[2]
)
def test_the_columns_that_are_unpacked_have_the_types_that_the_code_expects(
    connection: psycopg.Connection, home: str, name: str
) -> None:
    columns = prepare(connection, SHIPPED[home, name])

    assert [TYPES[oid] for _, oid in columns] == UNPACKED[home, name]


def test_an_archived_job_is_read_as_a_job_and_the_time_when_it_was_archived(
    connection: psycopg.Connection,
) -> None:
    columns = {
        name: prepare(connection, SHIPPED[home, name])
        for home, name in (SHOWN, ARCHIVED)
        if connection.execute("DEALLOCATE ALL")
    }

    assert columns["show_archived_job"] == [*columns["show_job"], ("archived_at", 1184)]


def test_no_statement_of_the_store_that_answers_several_columns_is_left_out(
    connection: psycopg.Connection,
) -> None:
    several = set()
    for key, statement in SHIPPED.items():
        if key[0].startswith("relevo/store/"):
            if len(prepare(connection, statement)) > 1:
                several.add(key)
            connection.execute("DEALLOCATE s")

    assert several <= READ_AS.keys() | UNPACKED.keys() | {ARCHIVED}


def test_every_claim_writes_and_answers_the_same() -> None:
    """Three statements take jobs; what is written twice drifts apart unseen."""
    said = {
        statement.name: re.findall(
            r"UPDATE relevo\.jobs AS j\nSET (state = 'running'.*?)WHERE.*RETURNING(.*?)\Z",
            # Under limits a start and its permits have one time.
            statement.sql.replace("(SELECT moment.at FROM moment),\n", "clock_timestamp(),\n"),
            re.DOTALL,
        )
        for module in (claim, limited)
        for statement in module.STATEMENTS.values()
    }
    assert said.keys() == {"claim_jobs", "claim_lanes", "claim_limited"}
    assert len({str(parts) for parts in said.values()}) == 1, said


def test_every_walk_from_a_cursor_goes_the_same_way() -> None:
    """Where a claim stopped short is asked of another statement, whose walk has to be the same."""
    walks = {
        # Under limits the walk learns the kind of each lane on the way.
        statement.name: [
            line
            for line in statement.sql.partition("walk AS (")[2].partition("\n)")[0].splitlines()
            if not re.search(r"AS kind,|n\.kind,|known_kinds", line)
        ]
        for statement in (*claim.STATEMENTS.values(), *walk.STATEMENTS.values())
        if "walk AS (" in statement.sql and "after_lane" in statement.parameters
    }
    assert walks.keys() == {"claim_jobs", "find_lanes", "skip_lanes"}
    assert walks["claim_jobs"] == walks["skip_lanes"] == walks["find_lanes"]
