"""Where a measurement leaves its things, and how they go again, also after a kill.

The scratch schema carries a comment that says whose it is and from which id on its jobs are.
It goes last, so that a run that was killed is cleaned up by the next one. Nothing is measured
here.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import sql

from relevo.bench.errors import BenchRunning, ScratchTaken
from relevo.bench.own import KIND, QUEUE
from relevo.bench.raw import SCHEMA
from relevo.db.connect import with_patience
from relevo.db.drivers import run
from relevo.db.dsn import WORKER_ROLE, with_session
from relevo.engine.jobs.measured import erase, take_job_id
from relevo.model.ids import DEFAULT_TENANT

MARK: Final = "scratch of relevo bench, jobs from "

_LOCK: Final = "SELECT pg_try_advisory_lock(hashtextextended('relevo bench', 0))"
_FIND: Final = """
SELECT coalesce(obj_description(n.oid, 'pg_namespace'), '')
FROM pg_catalog.pg_namespace AS n
WHERE n.nspname = %s
"""

_Connection = psycopg.Connection[tuple[Any, ...]]


@contextmanager
def scratch(dsn: str, leaving: Callable[[], None]) -> Generator[None, None, None]:
    """Give a measurement its scratch schema; afterwards remove that and all of its jobs.

    Args:
        dsn: The database, as somebody who may create a schema and work as `relevo_worker`.
        leaving: Called before things are removed, so that signals can be held off.

    Raises:
        BenchRunning: Another measurement works here.
        ScratchTaken: The schema exists and is somebody else's.
    """
    with _connect(dsn) as lock:
        if not _value(lock, _LOCK):
            raise BenchRunning
        _clean_up(dsn)
        first = _begin(dsn)
        try:
            with _connect(dsn) as connection, connection.transaction():
                schema = sql.Identifier(SCHEMA)
                connection.execute(sql.SQL("CREATE SCHEMA {}").format(schema))
                comment = sql.SQL("COMMENT ON SCHEMA {} IS {}")
                connection.execute(comment.format(schema, sql.Literal(f"{MARK}{first}")))
            yield
        finally:
            leaving()
            _clean_up(dsn)


def _begin(dsn: str) -> int:
    with _connect(dsn, WORKER_ROLE) as worker:
        return run(worker, take_job_id())


def _clean_up(dsn: str) -> None:
    """Remove what a measurement has left, the schema last."""
    with _connect(dsn) as connection:
        comment = _value(connection, _FIND, SCHEMA)
        if comment is None:
            return
        if not comment.startswith(MARK):
            raise ScratchTaken(schema=SCHEMA)
        with _connect(dsn, WORKER_ROLE) as worker:
            run(worker, erase(DEFAULT_TENANT, QUEUE, KIND, int(comment.removeprefix(MARK))))
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(SCHEMA)))


def _connect(dsn: str, role: str | None = None) -> _Connection:
    named = with_session(dsn, role=role, application_name="relevo bench")
    return psycopg.connect(with_patience(named), autocommit=True)


def _value(connection: _Connection, query: str, *params: object) -> Any:
    row = connection.execute(query.encode(), params or None).fetchone()
    return None if row is None else row[0]
