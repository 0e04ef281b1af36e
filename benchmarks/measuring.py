"""What the benchmarks share: a server of their own, many rows, and what the server counts.

Buffers and CPU of one backend hardly move with the machine's other load; wall-clock does.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from relevo.db.dsn import ENGINE_SETTINGS, WORKER_ROLE, with_session
from relevo.db.embedded import Embedded
from relevo.db.migrate import ENGINE, migrate

Connection: TypeAlias = psycopg.Connection[tuple[object, ...]]

DATA: Final = Path("/var/tmp")  # noqa: S108 -- a directory below it is made for each run
QUEUE: Final = "bench"

SETTINGS: Final = {
    "shared_buffers": "2GB",
    "max_wal_size": "8GB",
    "shared_preload_libraries": "pg_stat_statements",
    "autovacuum_naptime": "5s",
    "synchronous_commit": "off",
}

_STEP: Final = 1_000_000


@contextmanager
def a_server(data: Path, settings: Mapping[str, str] = SETTINGS) -> Iterator[Embedded]:
    """Run a server whose data are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="relevo-bench-", dir=data) as folder:
        # As root the server runs as somebody else, who has to get there.
        Path(folder).chmod(0o755)
        with Embedded(Path(folder) / "pg", settings=settings) as embedded:
            yield embedded


def a_database(server: str, name: str) -> str:
    """Make a migrated database anew, and answer its owner's DSN."""
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        )
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    dsn = make_conninfo(server, dbname=name)
    migrate(dsn, [ENGINE])
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute("CREATE EXTENSION pg_stat_statements")
        owner.execute("CREATE EXTENSION pageinspect")
    return dsn


def as_worker(dsn: str) -> str:
    """Answer the DSN of a session as the engine's loops have it."""
    return with_session(dsn, role=WORKER_ROLE, settings=ENGINE_SETTINGS)


def number(connection: Connection, query: str, params: Sequence[object] = ()) -> float:
    """Answer the only value of a query as a number."""
    row = connection.execute(query.encode(), params or None).fetchone()
    assert row is not None
    return float(str(row[0] or 0))


def some_tenants(owner: Connection, count: int) -> list[UUID]:
    """Make tenants whose ids are in order, and answer these."""
    ids = [UUID(int=place << 64) for place in range(1, count + 1)]
    with owner.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO relevo.tenants (id, slug, name) VALUES (%s, %s, %s)",
            [(tenant, f"t{place}", f"t{place}") for place, tenant in enumerate(ids, 1)],
        )
    return ids


def insert_in_steps(owner: Connection, statement: str, rows: int, **params: object) -> None:
    """Run an `INSERT … SELECT` over the numbers from 1 to `rows`, a million a commit.

    Args:
        owner: A connection that does not commit by itself.
        statement: It takes `%(first)s` and `%(last)s`.
        rows: How many.
        **params: Its other parameters.
    """
    for first in range(1, rows + 1, _STEP):
        last = min(first + _STEP - 1, rows)
        owner.execute(statement.encode(), {"first": first, "last": last, **params})
        owner.commit()


def vacuum(owner: Connection) -> None:
    """Have the server know its rows, as it does after a while."""
    owner.commit()
    owner.autocommit = True
    owner.execute("VACUUM ANALYZE relevo.jobs")
    owner.autocommit = False


def cpu_of(pid: int) -> float:
    """Answer the CPU seconds of one process so far, to the nanosecond."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9


class Statements:
    """What the server counts of each statement, from the last `reset` on.

    Args:
        owner: A connection that commits by itself.
    """

    def __init__(self, owner: Connection) -> None:
        self._owner = owner

    def reset(self) -> None:
        """Forget what was counted."""
        self._owner.execute("SELECT pg_stat_statements_reset()")

    def calls(self, containing: str = "relevo.") -> int:
        """Answer how often statements with such a text were run."""
        return int(self._sum("calls", containing))

    def buffers(self, containing: str = "relevo.", *, but: str | None = None) -> int:
        """Answer how many buffers they touched, leaving out those with another text."""
        touched = self._sum("shared_blks_hit + shared_blks_read", containing)
        return int(touched - (self.buffers(but) if but else 0))

    def wal(self, containing: str = "relevo.") -> int:
        """Answer how many bytes of WAL they wrote."""
        return int(self._sum("wal_bytes", containing))

    def seconds(self, containing: str = "relevo.") -> float:
        """Answer for how long the server ran them."""
        return self._sum("total_exec_time", containing) / 1000

    def _sum(self, what: str, containing: str) -> float:
        # Those of this database; the name in front of a statement is not kept.
        return number(
            self._owner,
            f"SELECT sum({what}) FROM pg_stat_statements AS s"  # noqa: S608 -- the columns above
            " JOIN pg_database AS d ON d.oid = s.dbid AND d.datname = current_database()"
            " WHERE s.query LIKE '%%' || %s || '%%' AND s.query NOT LIKE '%%pg_stat_statements%%'",
            [containing],
        )
