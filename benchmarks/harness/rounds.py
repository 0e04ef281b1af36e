"""Measure one contender once: in a new database, one thing after the other."""

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
from harness.contenders import Contender
from harness.processes import DriverFailed, Drivers, Producer, Worker, cpu_of, peak_memory_of
from harness.servers import Server

from relevo.bench.pace import percentile

PATIENCE: Final = 60.0
"""So long a driver may take for anything that is not measured."""

LOOK: Final = 0.003
WARM: Final = 10
"""So many spaced jobs come first and do not count."""

RESTS: Final = 4
"""Before a watch a worker rests so many times longer than before jobs are added to it."""

MICRO: Final = 1e6
PERCENT: Final = 100

Note = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured; what is 0 is left out.

    Attributes:
        jobs: Added in bulk, and drained.
        chunk: So many a call.
        single: Added one by one.
        spaced: Added to an idle worker.
        gap: Seconds between two of those.
        rest: Seconds that a worker is left alone before it counts as idle.
        idle: Seconds that an idle worker is watched.
        limit: Seconds after which adding or draining is cut short.
    """

    jobs: int
    chunk: int
    single: int
    spaced: int
    gap: float
    rest: float
    idle: float
    limit: float


class Visit:
    """One contender in one round.

    Args:
        server: Where.
        contender: Who.
        python: What its driver runs on.
        folder: For logs and boards.
        sizes: How much.
        note: Told every figure as soon as it is known.
    """

    def __init__(
        self,
        server: Server,
        contender: Contender,
        python: Path,
        *,
        folder: Path,
        sizes: Sizes,
        note: Note,
    ) -> None:
        self._server = server
        self._database = f"relevo_bench_{contender.name}".replace("-", "_")
        self._drivers = Drivers(contender, python, folder)
        self._board = folder / "board"
        self._sizes = sizes
        self._note = note
        self._dsn = ""
        self._measure = "install"

    def run(self) -> None:
        """Measure everything; what fails is noted, and ends the visit."""
        sizes = self._sizes
        try:
            with self._producer() as producer:
                self._note({"measure": "install", **producer.about})
                self._measure = "enqueue"
                added = self._enqueue(producer)
                self._measure = "drain"
                is_cut = bool(added and self._drain(added, producer.about["left"]))
                if sizes.spaced and not is_cut:
                    self._start_spaced(producer)
            if sizes.spaced and is_cut:
                # What is left undone would be in the way.
                with self._producer() as producer:
                    self._start_spaced(producer)
            if sizes.idle:
                self._watch_idle()
        except DriverFailed as error:
            self._note({"measure": self._measure, "error": str(error)})
        finally:
            self._server.drop(self._database)

    @contextmanager
    def _producer(self) -> Generator[Producer, None, None]:
        """Make the contender's schema in a new database, and start what adds jobs there."""
        self._measure = "install"
        self._dsn = self._server.create(self._database)
        self._drivers.install(self._dsn, PATIENCE)
        self._server.settle()
        producer = Producer(self._drivers, self._dsn, PATIENCE)
        try:
            yield producer
        finally:
            producer.close()

    def _enqueue(self, producer: Producer) -> int:
        sizes, added = self._sizes, 0
        for measure, count in (("single", sizes.single), ("bulk", sizes.jobs)):
            if not count:
                continue
            before = self._server.count(self._database)
            pace = producer.tell(
                measure,
                range(added, added + count),
                sizes.limit,
                chunk=sizes.chunk,
                limit=sizes.limit,
            )
            after, jobs = self._server.count(self._database), pace["jobs"]
            figures = {
                "jobs": jobs,
                "rate": jobs / pace["seconds"],
                "client_us": MICRO * pace["cpu"] / jobs,
                "wal": (after.wal - before.wal) / jobs,
            }
            if before.cpu is not None and after.cpu is not None:
                figures["server_us"] = MICRO * (after.cpu - before.cpu) / jobs
                figures["cpu_us"] = figures["client_us"] + figures["server_us"]
            self._note({"measure": measure, **figures})
            added += jobs
        return added

    def _drain(self, jobs: int, left: str) -> int:
        """Have one worker run all jobs; answer how many were left when the time was over."""
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute("ANALYZE")
            users, before = self._server.users(self._database), self._server.count(self._database)
            worker = self._work()
            try:
                self._wait(worker, lambda: worker.board.runs > 0, PATIENCE)
                cpu, server_cpu = cpu_of(worker.pids), self._server.cpu()
                remaining = self._wait_for_end(worker, connection, jobs, left)
                seconds = time.monotonic() - worker.board.first
                done = max(1, jobs - remaining)
                figures = {
                    "jobs": done,
                    "undone": remaining,
                    "runs": worker.board.runs,
                    "rate": done / seconds,
                    "worker_us": MICRO * (cpu_of(worker.pids) - cpu) / done,
                    "rss_mb": peak_memory_of(worker.pids),
                }
                after_cpu = self._server.cpu()
            finally:
                worker.close()
            self._server.wait_for_users(self._database, users)
            after = self._server.count(self._database)
            figures["wal"] = (after.wal - before.wal) / done
            figures["commits"] = (after.commits - before.commits) / done
            if server_cpu is not None and after_cpu is not None:
                figures["server_us"] = MICRO * (after_cpu - server_cpu) / done
                figures["cpu_us"] = figures["worker_us"] + figures["server_us"]
            self._note({"measure": "drain", **figures})
        return remaining

    def _wait_for_end(
        self, worker: Worker, connection: psycopg.Connection[tuple[Any, ...]], jobs: int, left: str
    ) -> int:
        """Wait until everything is done for good, or the time is over; answer what is left."""
        until = worker.board.first + self._sizes.limit
        while time.monotonic() < until:
            worker.check()
            # The question costs something too, so it is not asked before it may be answered.
            if worker.board.runs >= jobs and not _count(connection, left):
                return 0
            time.sleep(LOOK)
        return _count(connection, left)

    def _start_spaced(self, producer: Producer) -> None:
        """Add jobs to a worker that idles, and see how soon each starts."""
        self._measure = "latency"
        sizes, worker = self._sizes, self._work()
        try:
            time.sleep(sizes.rest)
            begun = sizes.single + sizes.jobs
            numbers = range(begun, begun + WARM + sizes.spaced)
            patience = sizes.gap * len(numbers)
            returned = producer.tell("spaced", numbers, patience, gap=sizes.gap)
            board = worker.board
            self._wait(worker, lambda: all(map(board.started, numbers)), PATIENCE)
        finally:
            worker.close()
        # A handler may start before the producer has the answer to its commit.
        waits = [
            1000 * max(0.0, board.started(number) - at)
            for number, at in zip(numbers, returned, strict=True)
        ][WARM:]
        percents = {f"p{percent}": percentile(waits, percent) for percent in (50, 95, 99)}
        self._note({"measure": "latency", "jobs": len(waits), **percents})

    def _watch_idle(self) -> None:
        """See what a worker costs that has nothing to do, when all else has come to rest."""
        self._measure = "idle"
        self._server.wait_for_users(self._database, 0)
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            # Autovacuum would do it in the middle of the watch, and count for the worker.
            connection.execute("VACUUM ANALYZE")
        worker = self._work()
        try:
            # Sessions that idle hand in what they have counted up to ten seconds later.
            time.sleep(self._sizes.rest * RESTS)
            before, cpu = self._server.count(self._database), cpu_of(worker.pids)
            begun = time.monotonic()
            time.sleep(self._sizes.idle)
            worker.check()
            seconds, after = time.monotonic() - begun, self._server.count(self._database)
            figures = {
                "seconds": seconds,
                "worker_percent": PERCENT * (cpu_of(worker.pids) - cpu) / seconds,
                "commits": (after.commits - before.commits) / seconds,
                "wal": (after.wal - before.wal) / seconds,
                "rss_mb": peak_memory_of(worker.pids),
            }
        finally:
            worker.close()
        if before.cpu is not None and after.cpu is not None:
            figures["server_percent"] = PERCENT * (after.cpu - before.cpu) / seconds
        self._note({"measure": "idle", **figures})

    def _work(self) -> Worker:
        """Start a worker, and wait until it looks for jobs."""
        sizes = self._sizes
        jobs = sizes.single + sizes.jobs + WARM + sizes.spaced
        worker = Worker(self._drivers, self._dsn, self._board, jobs)
        try:
            self._wait(worker, lambda: worker.board.is_ready, PATIENCE)
        except BaseException:
            worker.close()
            raise
        return worker

    @staticmethod
    def _wait(worker: Worker, condition: Callable[[], bool], patience: float) -> None:
        until = time.monotonic() + patience
        while not condition():
            worker.check()
            if time.monotonic() > until:
                raise DriverFailed(f"waited {patience:.0f} s for the worker in vain")
            time.sleep(LOOK)


def _count(connection: psycopg.Connection[tuple[Any, ...]], query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])
