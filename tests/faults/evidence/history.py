"""Read the evidence of a run: one snapshot of the database, and the witnesses' files."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from sys import intern
from typing import Any, TypeVar
from uuid import UUID

import psycopg

from faults.evidence.records import (
    Archiving,
    Attempt,
    CycleChange,
    Effect,
    Event,
    History,
    Job,
    LimitChange,
    Note,
    Pause,
    Session,
    Snapshot,
)
from faults.evidence.witness import read_notes

__all__ = ["History", "read_history"]

R = TypeVar("R", Event, Effect, LimitChange, Archiving, CycleChange)

TABLES = {
    Event: "events",
    Effect: "effects",
    LimitChange: "limits",
    Archiving: "archiving",
    CycleChange: "cycles",
}

SHARED: dict[Any, Any] = {}
"""One object for equal values: a history of millions of rows has few tenants and lanes."""

SNAPSHOTS: dict[str, Snapshot] = {}

NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

ATTEMPTS = "SELECT job_id, attempt, outcome, worker, tenant_id FROM relevo.attempts"

JOBS = "SELECT id, state, attempt, tenant_id, false FROM relevo.jobs"
ARCHIVED = "SELECT id, outcome, attempt, tenant_id, true FROM relevo.archive"

PAUSES = "SELECT scope, name, (extract(epoch FROM paused_until) * 1000000)::bigint FROM {}"
PAUSED_QUEUES = "(SELECT 'queue' AS scope, * FROM relevo.queues WHERE paused_until > now()) AS q"

SESSIONS = """
SELECT s.id,
       min(s.name),
       min(s.queues),
       min(s.kinds),
       (extract(epoch FROM min(s.at)) * 1000000)::bigint,
       (extract(epoch FROM (array_agg(s.expires_at ORDER BY s.seq DESC))[1]) * 1000000)::bigint,
       (extract(epoch FROM max(s.at) FILTER (WHERE s.op = 'delete')) * 1000000)::bigint,
       max(s.seq) FILTER (WHERE s.op = 'delete'),
       coalesce(array_agg(DISTINCT s.program) FILTER (WHERE s.expires_at < s.before), '{}')
FROM (
    SELECT
        e.*,
        lag(e.expires_at) OVER (PARTITION BY e.id ORDER BY e.seq) AS before
    FROM evidence.sessions AS e
) AS s
GROUP BY s.id
ORDER BY s.id
"""


def read_history(dsn: str, witnesses: Sequence[Path] = ()) -> History:
    """Read everything at one moment; it changes nothing and may be called in mid-run.

    Args:
        dsn: Of the owner.
        witnesses: The witnesses' files.
    """
    # The witnesses first: whatever they say is in the database when it is read after them.
    notes = read_notes(witnesses)
    with psycopg.connect(dsn) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return _read(connection, notes)


def _read(connection: psycopg.Connection, notes: tuple[Note, ...]) -> History:
    def rows(query: str) -> list[tuple[Any, ...]]:
        return connection.execute(query.encode()).fetchall()

    def exists(table: str) -> bool:
        return rows(f"SELECT to_regclass('{table}') IS NOT NULL") == [(True,)]

    ((read_at,),) = rows(NOW)
    jobs = f"{JOBS} UNION ALL {ARCHIVED}" if exists("relevo.archive") else JOBS
    pauses = "relevo.pauses" if exists("relevo.pauses") else PAUSED_QUEUES
    return History(
        events=tuple(_numbered(_records(Event, rows))),
        effects=tuple(_records(Effect, rows)),
        attempts=tuple(Attempt(*row) for row in rows(ATTEMPTS)),
        jobs=tuple(Job(*row) for row in rows(jobs)),
        notes=notes,
        sessions=tuple(
            Session(id_, name, tuple(queues), tuple(kinds), *times, tuple(shortened_by))
            for id_, name, queues, kinds, *times, shortened_by in rows(SESSIONS)
        ),
        limits=tuple(_records(LimitChange, rows)),
        pauses=tuple(Pause(*row) for row in rows(PAUSES.format(pauses))),
        archiving=tuple(_records(Archiving, rows)),
        cycles=tuple(_records(CycleChange, rows)),
        read_at=read_at,
    )


def _records(record: type[R], rows: Any) -> Iterator[R]:
    """Read a table of the evidence, in the order of its numbers, into the record like it."""
    names = [field.name for field in fields(record) if field.name != "version"]
    times = {name for name in names if name == "at" or name.endswith("_at")}
    columns = ", ".join(_column(name, is_time=name in times) for name in names)
    query = f"SELECT {columns} FROM evidence.{TABLES[record]} ORDER BY seq"  # noqa: S608 -- own names
    for row in rows(query):
        yield record(**{name: _read_value(name, v) for name, v in zip(names, row, strict=True)})


def _column(name: str, *, is_time: bool) -> str:
    if is_time:
        return f"(extract(epoch FROM {name}) * 1000000)::bigint"
    return {"xact": "xact::text::bigint", "snapshot": "snapshot::text"}.get(name, name)


def _read_value(name: str, value: Any) -> Any:
    if name == "snapshot":
        return _snapshot(value)
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, UUID):
        return SHARED.setdefault(value, value)
    return intern(value) if isinstance(value, str) else value


def _snapshot(text: str) -> Snapshot:
    if text not in SNAPSHOTS:
        xmin, xmax, under_way = text.split(":")
        numbers = frozenset(map(int, under_way.split(","))) if under_way else frozenset()
        SNAPSHOTS[text] = (int(xmin), int(xmax), numbers)
    return SNAPSHOTS[text]


def _numbered(events: Iterable[Event]) -> Iterator[Event]:
    """Give each change its place among those of its job: the row's lock puts them in order."""
    versions: Counter[int] = Counter()
    for event in events:
        versions[event.job_id] += 1
        yield replace(event, version=versions[event.job_id])
