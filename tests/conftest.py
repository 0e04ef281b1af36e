"""A real PostgreSQL for every test: one server, one migrated template, a clone for each test.

`RELEVO_TEST_DSN` names a server (15 or newer, superuser) to use instead of the embedded one.
`RELEVO_TEST_SETTINGS` gives the embedded one more settings, such as those of a database whose
owner chose another isolation level: `default_transaction_isolation=serializable search_path=`.
`RELEVO_TEST_POOLER=1` puts PgBouncer in transaction mode before it, see `pooler`.
"""

import os
import signal
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import pooler
from relevo.db.embedded import Embedded
from relevo.db.migrate import ENGINE, Line, migrate

EVALUATIONS = Line("evaluations", "relevo_apps.evaluations.migrations")

# Durability is proved by the acceptance tests on a server of their own.
FAST = {
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "log_min_messages": "fatal",
}

OTHERS = dict(word.split("=", 1) for word in os.environ.get("RELEVO_TEST_SETTINGS", "").split())

_numbers = count(1)

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would every
# process that a test starts and then interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def admin(server: str, statement: sql.Composed) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(statement)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The DSN of a superuser on a running server."""
    if dsn := os.environ.get("RELEVO_TEST_DSN"):
        yield dsn
        return
    # A short path: the socket's address has about a hundred bytes.
    with tempfile.TemporaryDirectory(prefix="relevo-test-") as root:
        # As root the server runs as somebody else, who has to get there.
        Path(root).chmod(0o755)
        with Embedded(Path(root) / "pg", settings={**FAST, **OTHERS}) as embedded:
            yield embedded.dsn()


@pytest.fixture(scope="session")
def template(server: str) -> Iterator[str]:
    """The name of a database with every line migrated, to be cloned."""
    name = f"relevo_template_{os.getpid()}"
    admin(server, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    migrate(make_conninfo(server, dbname=name), [ENGINE, EVALUATIONS])
    yield name
    admin(server, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def pooler_before(request: pytest.FixtureRequest) -> Iterator[pooler.Pooler | None]:
    """PgBouncer before the server, where it is asked for."""
    if not pooler.WANTED:
        yield None
        return
    server = request.getfixturevalue("server")
    request.getfixturevalue("template")  # brings the roles
    pooler.make_logins(server)
    with pooler.a_pooler(server) as running:
        yield running
        request.config.stash[POOLED] = running.transactions()
    pooler.drop_logins(server)


POOLED = pytest.StashKey[int]()
"""How many transactions went through the pooler, by this process or by those that it has run."""


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where tests run in several processes, tell the first of them."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["pooled"] = session.config.stash.get(POOLED, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what one of the processes has told."""
    pooled = getattr(node, "workeroutput", {}).get("pooled", 0)
    node.config.stash[POOLED] = node.config.stash.get(POOLED, 0) + pooled


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say how much went through the pooler, so that nobody takes a run without it for one."""
    if pooler.WANTED:
        number = config.stash.get(POOLED, 0)
        terminalreporter.write_line(f"{number} transactions went through PgBouncer")


@pytest.fixture(autouse=True)
def _way(request: pytest.FixtureRequest, pooler_before: pooler.Pooler | None) -> Iterator[None]:
    """Lead what the test starts through the pooler, unless it says why not."""
    direct = request.node.get_closest_marker("direct")
    assert direct is None or direct.args, "say why it takes no pooler"
    with pooler.active(pooler_before if direct is None else None):
        yield


@pytest.fixture
def empty_database(server: str) -> Iterator[str]:
    """The DSN of a new database that nobody has migrated."""
    name = f"relevo_empty_{os.getpid()}_{next(_numbers)}"
    admin(server, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    yield make_conninfo(server, dbname=name)
    admin(server, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def database(server: str, template: str) -> Iterator[str]:
    """The DSN of a migrated database of the test's own, where commits are real."""
    name = f"relevo_test_{os.getpid()}_{next(_numbers)}"
    clone = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    admin(server, clone.format(sql.Identifier(name), sql.Identifier(template)))
    yield make_conninfo(server, dbname=name)
    admin(server, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection]:
    """An open connection of the owner to the test's database."""
    with pooler.connect(database) as opened:
        yield opened
        opened.rollback()
