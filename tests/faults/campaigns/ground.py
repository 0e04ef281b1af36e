"""The ground of a campaign: a server of its own, a database for each round, and the verdict."""

import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from uuid import UUID, uuid5

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from faults.campaigns.load import Load
from faults.campaigns.nursery import Nursery, a_nursery
from faults.evidence import History, install, read_history
from relevo import DEFAULT_TENANT
from relevo.db.embedded import Embedded
from relevo.db.embedded.launch import is_gone
from relevo.db.embedded.postmaster import read_address
from relevo.db.migrate import ENGINE, migrate

BOUND = 120.0
SETTINGS = {
    "autovacuum_naptime": "5s",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "log_min_messages": "fatal",
}
FAST = {"fsync": "off", "full_page_writes": "off"}

UNBOUNDED = 10**9

LIVE = "SELECT count(*) FROM relevo.jobs WHERE live"

# Not those that run in an order, which their times give.
MAKE_DUE = """
UPDATE relevo.jobs
SET available_at = now()
WHERE state = 'available'
  AND available_at > now() + interval '1 second'
  AND kind <> 'mixed.ordered'
"""

T = TypeVar("T")


class Server:
    """A PostgreSQL that a campaign may do anything to.

    Args:
        embedded: The server, started.
        port: Where it listens on the loopback as well, with a password; 0 where it does not.
    """

    PASSWORD = "open to the loopback alone"  # noqa: S105 -- of a server that ends with the campaign

    def __init__(self, embedded: Embedded, port: int = 0) -> None:
        self._embedded = embedded
        self.port = port
        if port:
            self._do(sql.SQL("ALTER ROLE postgres PASSWORD {}").format(self.PASSWORD))
        migrate(self.create("template_faults"), [ENGINE])
        install(self.dsn("template_faults"))

    def dsn(self, database: str = "postgres") -> str:
        """Answer the address of a database."""
        return make_conninfo(self._embedded.dsn(), dbname=database)

    def create(self, name: str, template: str = "template1") -> str:
        """Make a database; answer its address."""
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        self._do(statement.format(sql.Identifier(name), sql.Identifier(template)))
        return self.dsn(name)

    def drop(self, name: str) -> None:
        """Drop a database and put out whoever is in it."""
        self._do(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def _do(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(statement)

    def stop_at_once(self) -> None:
        """What `pg_ctl stop -m immediate` does; it returns when nothing of the server lives."""
        address = read_address(self._embedded._layout)
        assert address is not None, "there is no server to stop"
        os.kill(address.pid, signal.SIGQUIT)
        await_that(lambda: is_gone(self._embedded._layout), "the server's end")

    def start(self) -> None:
        """Start it again; it recovers from its log."""
        self._embedded.start()


@contextmanager
def a_server(
    *,
    is_durable: bool,
    is_on_network: bool = False,
    place: str | None = None,
    more: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Run a server; a durable one keeps what it acknowledged through any end.

    Args:
        is_durable: Whether it waits for the disk.
        is_on_network: Whether it listens on the loopback as well.
        place: Where its directory is made; by default where it is quick or lasts.
        more: Settings besides those of every campaign.
    """
    memory = Path("/dev/shm")  # noqa: S108 -- a file system in memory, the directory has a random name
    if place is None and not is_durable and os.access(memory, os.W_OK):
        place = str(memory)
    settings = {**SETTINGS, **({} if is_durable else FAST), **(more or {})}
    port = _free_port() if is_on_network else 0
    if port:
        settings = {**settings, "listen_addresses": "127.0.0.1", "port": str(port)}
    with tempfile.TemporaryDirectory(prefix="relevo-faults-", dir=place) as root:
        Path(root).chmod(0o755)
        with Embedded(Path(root) / "pg", settings=settings) as embedded:
            yield Server(embedded, port)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        return int(somebody.getsockname()[1])


class Ground:
    """One round: a database, workers, an enqueuer, and chance from a seed.

    Attributes:
        random: What every fault is drawn from; the enqueuer has its own.
        nursery: The workers.
        directory: Where the evidence is kept.
        load: The enqueuer.
        problems: What was not as it should be, in words.
    """

    def __init__(
        self,
        server: Server,
        dsn: str,
        nursery: Nursery,
        directory: Path,
        seed: int,
        *,
        to_load: Callable[[str], str] = str,
    ) -> None:
        self.server, self.dsn, self.nursery, self.directory = server, dsn, nursery, directory
        self.random = Random(seed)  # noqa: S311 -- repeats a run, no secret
        tenants = [DEFAULT_TENANT, uuid5(UUID(int=seed), "other")]
        with psycopg.connect(dsn, autocommit=True) as owner:
            owner.execute("INSERT INTO relevo.tenants VALUES (%s, 'other', 'other')", tenants[1:])
        self.load = Load(to_load(dsn), directory, tenants, Random(seed))  # noqa: S311 -- the same
        self.problems: list[str] = []

    def begin(self, workers: int, *, backlog: int, jobs: int = UNBOUNDED) -> None:
        """Bear workers, and keep so many jobs waiting until so many were enqueued."""
        self.nursery.bear(workers)
        self.load.start(backlog, jobs)

    def finished(self) -> int:
        """How many jobs have ended, at least; none where the server does not say."""
        enqueued = self.load.enqueued
        with (
            suppress(psycopg.OperationalError),
            psycopg.connect(self.dsn, connect_timeout=5) as owner,
        ):
            return enqueued - int(owner.execute(LIVE).fetchall()[0][0])
        return 0

    def run_until(self, finished: int) -> None:
        """Let it run until so many jobs have ended."""
        await_that(
            lambda: self.finished() >= finished or self.load.failure is not None,
            f"the end of {finished} jobs",
        )
        if self.load.failure is not None:
            raise self.load.failure

    def finish(self) -> None:
        """Wait until the last job has been enqueued."""
        await_that(lambda: not self.load.is_running, "the end of the load", BOUND * 5)

    def pause(self, most: float) -> None:
        """Let chance choose the moment of the next fault."""
        time.sleep(self.random.uniform(0, most))

    def settle(self, bound: float = BOUND) -> None:
        """Wait until nothing is due any more, then let the workers go."""
        self.load.stop()
        if self.load.failure is not None:
            self.problems.append(f"the enqueuer failed: {self.load.failure!r}")
        self.problems += self.nursery.dead()
        if not self.nursery.alive:
            self.problems.append("no worker is left")
            return
        with psycopg.connect(self.dsn, autocommit=True) as owner:

            def is_over() -> bool:
                owner.execute(MAKE_DUE)
                return owner.execute(LIVE).fetchone() == (0,)

            # What never ends is told by the checker, with its evidence.
            if not _comes_true(is_over, bound):
                self.problems.append(f"not every job had ended after {bound:g} s")
        self.problems += self.nursery.stop()

    def history(self) -> History:
        """Read the evidence."""
        return read_history(self.dsn, [self.load.witness.path, *self.nursery.witnesses])


@contextmanager
def a_ground(
    server: Server,
    directory: Path,
    seed: int,
    *,
    to_worker: Callable[[str], str] = str,
    to_load: Callable[[str], str] = str,
    **rules: Any,
) -> Iterator[Ground]:
    """Lend the ground of one round; its witnesses stay in the directory.

    Args:
        server: Where its database is made.
        directory: Where its witnesses are kept.
        seed: Of all that happens by chance.
        to_worker: Answers the address by which workers reach the database.
        to_load: Answers the address by which the enqueuer does.
        **rules: For the workers.
    """
    name = f"round_{seed}"
    dsn = server.create(name, "template_faults")
    directory.mkdir(parents=True, exist_ok=True)
    with a_nursery(to_worker(dsn), directory, **rules) as nursery:
        ground = Ground(server, dsn, nursery, directory, seed, to_load=to_load)
        try:
            yield ground
        finally:
            ground.load.close()
    server.drop(name)


def await_that(condition: Callable[[], T], what: str, bound: float = BOUND) -> T:
    """Wait for a condition, looking often, and answer what it answered."""
    if answer := _comes_true(condition, bound):
        return answer
    msg = f"waited {bound:g} s in vain for {what}"
    raise AssertionError(msg)


def _comes_true(condition: Callable[[], T], bound: float) -> T | None:
    end = time.monotonic() + bound
    while not (answer := condition()):
        if time.monotonic() > end:
            return None
        time.sleep(0.02)
    return answer
