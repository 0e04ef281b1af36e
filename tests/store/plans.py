"""Read what EXPLAIN says of a statement that was prepared while its table was empty."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
from psycopg import sql

from relevo.db.dsn import ENGINE_SETTINGS, WORKER_ROLE, with_session
from relevo.db.statements import Statement

Node = Mapping[str, Any]


def as_engine(dsn: str) -> str:
    """The DSN of a session as the engine's loops have it."""
    return with_session(dsn, role=WORKER_ROLE, settings=ENGINE_SETTINGS)


class Prepared:
    """A statement prepared on the server, by PREPARE, so that EXPLAIN can show its plan."""

    def __init__(self, connection: psycopg.Connection, statement: Statement) -> None:
        self._connection = connection
        self._statement = statement
        connection.execute(f"PREPARE {statement.name} AS {statement.numbered}".encode())

    def execute(self, params: Mapping[str, object], *, explain: bool = False) -> Node | None:
        values = self._statement.positional(params)
        call = sql.SQL("EXECUTE {}").format(sql.Identifier(self._statement.name))
        if values:
            call += sql.SQL(" ({})").format(sql.SQL(", ").join(map(sql.Literal, values)))
        if not explain:
            self._connection.execute(call)
            return None
        found = self._connection.execute(sql.SQL("EXPLAIN (FORMAT JSON) ") + call).fetchone()[0]
        return (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]


def nodes(plan: Node) -> Iterator[Node]:
    """The plan's nodes, the top first."""
    yield plan
    for inner in plan.get("Plans", []):
        yield from nodes(inner)


def scans(plan: Node, relation: str) -> list[tuple[str, str | None]]:
    """How a table is read: the kind of scan and the index."""
    return sorted(
        {
            (node["Node Type"], node.get("Index Name"))
            for node in nodes(plan)
            if node.get("Relation Name") == relation and "Scan" in node["Node Type"]
        },
        key=str,
    )
