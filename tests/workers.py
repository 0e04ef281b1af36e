"""Run workers: in this process, where a test can look inside, and in others, to be killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg import sql

import pooler
from relevo import Relevo, Worker, WorkerSettings
from relevo.db.dsn import WORKER_ROLE, with_session

T = TypeVar("T")

LEASE = timedelta(seconds=2)
BOUND = 20.0
"""No wait of a test is longer than so many seconds, unless it says so."""

SCALE = float(os.environ.get("RELEVO_TEST_SCALE", "1"))
"""1 is what every run does; larger numbers bring long cases to their full size."""


def scaled(everyday: int, full: int) -> int:
    """How many rounds: the everyday number, times the scale, up to the full size of the case."""
    return min(full, max(1, round(everyday * SCALE)))


def wait_until(condition: Callable[[], T], bound: float = BOUND, what: str = "") -> T:
    """Wait for a condition, looking often, and answer what it answered."""
    end = time.monotonic() + bound
    while not (answer := condition()):
        if time.monotonic() > end:
            msg = f"waited {bound} s in vain for {what or condition}"
            raise AssertionError(msg)
        time.sleep(0.02)
    return answer


def settings(dsn: str, **changes: Any) -> WorkerSettings:
    """Settings for tests: a short lease, few slots, no time for stragglers."""
    if pooler.is_pooled(dsn):
        changes = {"listen_dsn": dsn, **changes}
    given: dict[str, Any] = {
        "dsn": pooler.worker_dsn(dsn),
        "concurrency": 8,
        "lease": LEASE,
        "grace": timedelta(seconds=5),
        "connections": 4,
        "name": "test",
        **changes,
    }
    return WorkerSettings(**given)


@contextmanager
def running(app: Relevo, dsn: str, **changes: Any) -> Iterator[Worker]:
    """A worker on threads of this process; stopped well at the end."""
    worker = app.worker(settings(dsn, **changes))
    worker.start()
    try:
        yield worker
    finally:
        worker.ask_to_stop()
        assert worker.wait(BOUND), "the worker did not stop"


def drain(app: Relevo, dsn: str, **changes: Any) -> None:
    """Run everything that is due, then stop."""
    worker = app.worker(settings(dsn, drain=True, **changes))
    worker.start()
    assert worker.wait(60), "the worker did not come to an end"


def as_worker(dsn: str) -> str:
    """The DSN as a handler's connection has it."""
    return with_session(dsn, role=WORKER_ROLE)


def query(dsn: str, text: str, *params: object) -> list[tuple[Any, ...]]:
    """Rows, as they are committed at this moment."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(text.encode(), params or None)
        return cursor.fetchall() if cursor.description else []


def make_effects(dsn: str) -> None:
    """The business table that the handlers of the children write to."""
    query(
        dsn,
        "CREATE TABLE public.effects ("
        " id bigint GENERATED ALWAYS AS IDENTITY, job_id bigint, attempt integer, note text,"
        " pid integer, at timestamptz DEFAULT clock_timestamp())",
    )
    query(dsn, "GRANT ALL ON public.effects TO relevo_worker")


def effects(dsn: str, note: str = "%") -> list[tuple[int, int]]:
    """Job and attempt of every effect with such a note, oldest first."""
    return query(
        dsn, "SELECT job_id, attempt FROM public.effects WHERE note LIKE %s ORDER BY id", note
    )


def terminate(dsn: str, application_name: str) -> int:
    """Cut the backends whose name begins so; answer how many there were."""
    return query(
        dsn,
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE %s || '%%'",
        application_name,
    )[0][0]


class Child:
    """A worker process of its own, serving `child_jobs`, that a test may kill or freeze."""

    def __init__(self, dsn: str, name: str = "child", **changes: float) -> None:
        self.name = name
        self.log: list[str] = []
        words = [f"{key}={value}" for key, value in changes.items()]
        program = str(Path(__file__).parent / "child_worker.py")
        command = [sys.executable, program, pooler.worker_dsn(dsn), name]
        environment = {
            **os.environ,
            **({"RELEVO_LISTEN_DSN": dsn} if pooler.is_pooled(dsn) else {}),
        }
        self._process = subprocess.Popen(
            [*command, *words], stderr=subprocess.PIPE, text=True, env=environment
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it as the kernel would, and wait until it is gone."""
        self._process.kill()
        self._process.wait(BOUND)

    def wait(self, bound: float = BOUND) -> int:
        """Wait for its end; answers the exit code."""
        return self._process.wait(bound)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> str:
        """Kill it if it lives; answers what it logged."""
        if self.is_alive:
            self._process.kill()
        self.log.append(self._process.communicate(timeout=BOUND)[1])
        return "".join(self.log)

    def logged(self, text: str) -> bool:
        """Whether it has logged such a text by now."""
        assert self._process.stderr is not None
        number = self._process.stderr.fileno()
        os.set_blocking(number, False)
        with suppress(BlockingIOError):
            self.log.append(os.read(number, 1 << 20).decode())
        return text in "".join(self.log)


@contextmanager
def a_child(dsn: str, name: str = "child", **changes: float) -> Iterator[Child]:
    """A worker process, gone when the test is over."""
    child = Child(dsn, name, **changes)
    try:
        yield child
    finally:
        child.end()


@contextmanager
def unreachable(server: str, dsn: str) -> Iterator[None]:
    """Cut a database off: nobody new gets in, and who is in is put out."""
    name = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]
    allow = sql.SQL("ALTER DATABASE {} WITH ALLOW_CONNECTIONS {}")
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(allow.format(sql.Identifier(str(name)), sql.SQL("false")))
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )
        try:
            yield
        finally:
            admin.execute(allow.format(sql.Identifier(str(name)), sql.SQL("true")))
