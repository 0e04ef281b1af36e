"""Processes that play scenarios: one server, a database for each, the engine that a path names."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from faults.mutants.act import prepare
from relevo.db.embedded import Embedded

TESTS = Path(__file__).parents[2]
TEMPLATE = "mutants_template"
BOUND = 120.0

SETTINGS = {
    "autovacuum": "off",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "log_min_messages": "fatal",
}


@dataclass(frozen=True, slots=True)
class Found:
    """What one scenario showed.

    Attributes:
        scenario: Which one.
        found: The invariants that were broken.
        violations: The stories, to be read by a person.
        error: What was raised, if the scenario broke down.
        source: Where the engine was imported from.
    """

    scenario: str
    found: tuple[str, ...]
    violations: tuple[str, ...]
    error: str
    source: str


class Players:
    """Processes that play scenarios, and the databases that they do it in."""

    def __init__(self, server: str, directory: Path) -> None:
        self._server, self._directory = server, directory
        self._numbers = count(1)
        self._create(TEMPLATE)
        prepare(self._dsn(TEMPLATE))

    def play(self, source: Path, names: Sequence[str], *, is_empty: bool = False) -> list[Found]:
        """Play scenarios one after the other with one source.

        Args:
            source: What is imported.
            names: The scenarios.
            is_empty: Whether the source has to migrate the databases itself.
        """
        databases = [f"mutants_{next(self._numbers)}" for _ in names]
        for database in databases:
            self._create(database, None if is_empty else TEMPLATE)
        words = [f"{name}={self._dsn(one)}" for name, one in zip(names, databases, strict=True)]
        process = subprocess.run(
            [sys.executable, "-m", "faults.mutants.act", str(self._directory), *words],
            env={**os.environ, "PYTHONPATH": f"{source}:{TESTS}"},
            capture_output=True,
            text=True,
            timeout=BOUND * len(names),
            check=False,
        )
        for database in databases:
            self._admin("DROP DATABASE {} WITH (FORCE)", database)
        if process.returncode:
            raise RuntimeError(process.stderr)
        return [_read(line) for line in process.stdout.splitlines()]

    def _create(self, database: str, template: str | None = None) -> None:
        if template is None:
            self._admin("CREATE DATABASE {}", database)
        else:
            self._admin("CREATE DATABASE {} TEMPLATE {}", database, template)

    def _admin(self, statement: str, *names: str) -> None:
        with psycopg.connect(self._server, autocommit=True) as admin:
            admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def _dsn(self, database: str) -> str:
        return make_conninfo(self._server, dbname=database)


def _read(line: str) -> Found:
    told = json.loads(line)
    return Found(
        told["scenario"],
        tuple(told["found"]),
        tuple(told["violations"]),
        told["error"],
        told["source"],
    )


@contextmanager
def a_server() -> Iterator[str]:
    """Run a server that forgets everything in the end; answer its superuser's DSN."""
    memory = Path("/dev/shm")  # noqa: S108 -- a folder of our own is made in it
    place = str(memory) if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="relevo-mutants-", dir=place) as root:
        Path(root).chmod(0o755)
        with Embedded(Path(root) / "pg", settings=SETTINGS) as embedded:
            yield embedded.dsn()
