"""Measure the two sides in this process, in rounds that visit both.

Each side's worker has a thread and a loop of its own, the producer has the caller's. The order
of the sides turns from round to round.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from relevo.bench.errors import BenchStalled
from relevo.bench.own import QUEUE, OwnQueue
from relevo.bench.pace import Producer, add_in_bulk, add_singly, add_spaced, percentile
from relevo.bench.raw import RawQueue

CHUNK: Final = 1000
LIMIT: Final = 5.0
"""Jobs are added for at most so many seconds at a time, however far the database is."""

STALL: Final = 20.0
LOOK: Final = 0.002
GAP: Final = 0.03
WARM: Final = 5
"""So many spaced jobs come first and do not count."""


class Side(Producer, Protocol):
    """What is measured: a producer, a worker, and what is left to do."""

    async def open(self) -> None:
        """Open the producer's connection."""
        ...

    async def close(self) -> None:
        """Close it."""
        ...

    async def unfinished(self) -> int:
        """Answer how many jobs are not done yet."""
        ...

    async def work(self, ran: Callable[[int], None], ready: Callable[[], None]) -> None:
        """Run jobs until cancelled."""
        ...


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured.

    Attributes:
        jobs: Added in bulk, and drained.
        single: Added one by one before.
        spaced: Added to an idle worker, for the time until they start.
        rounds: How often both sides are visited.
    """

    jobs: int
    single: int
    spaced: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Figures:
    """What one side did in one round: jobs a second, and milliseconds from commit to start."""

    bulk: float
    single: float
    drain: float
    start: float
    start_p99: float


class Runs:
    """Which jobs have run; a worker's handlers report here."""

    def __init__(self) -> None:
        self.started: dict[int, float] = {}
        self.first = 0.0

    def ran(self, number: int) -> None:
        """Note that a job starts."""
        now = time.monotonic()
        if not self.started:
            self.first = now
        self.started[number] = now


async def measure_rounds(
    raw: RawQueue, own: OwnQueue, sizes: Sizes, report: Callable[[int], None]
) -> Mapping[str, Mapping[int, Figures]]:
    """Measure both sides in every round.

    Args:
        raw: The raw loop; its schema exists.
        own: relevo.
        sizes: How much.
        report: Told after each side of each round how many of them are done.

    Returns:
        The figures of each side, by round.
    """
    await raw.install()
    sides: dict[str, Side] = {"raw": raw, "relevo": own}
    found: dict[str, dict[int, Figures]] = {name: {} for name in sides}
    done = 0
    for number in range(sizes.rounds):
        for name in sorted(sides, reverse=number % 2 == 1):
            found[name][number] = await _measure(sides[name], sizes)
            done += 1
            report(done)
    return found


async def _measure(side: Side, sizes: Sizes) -> Figures:
    await side.open()
    try:
        single = await add_singly(side, range(sizes.single), LIMIT)
        bulk = await add_in_bulk(side, range(sizes.single, sizes.single + sizes.jobs), CHUNK, LIMIT)
        runs = Runs()
        working = _Working(side, runs)
        await working.start()
        try:
            drained = await _drain(side, runs, working, single.jobs + bulk.jobs)
            waits = await _wait_times(side, runs, working, sizes)
        finally:
            await working.stop()
    finally:
        await side.close()
    return Figures(bulk.rate, single.rate, drained, percentile(waits, 50), percentile(waits, 99))


async def _drain(side: Side, runs: Runs, working: "_Working", jobs: int) -> float:
    await _wait_for(jobs, runs, working)
    until = time.monotonic() + STALL
    while await side.unfinished():
        if time.monotonic() > until:
            raise BenchStalled(queue=QUEUE, seconds=STALL)
        await asyncio.sleep(LOOK)
    return jobs / (time.monotonic() - runs.first)


async def _wait_times(side: Side, runs: Runs, working: "_Working", sizes: Sizes) -> list[float]:
    """Add jobs to a worker that idles; answer how many milliseconds each waited for its start."""
    await asyncio.sleep(1.0)
    begun, ran = sizes.single + sizes.jobs, len(runs.started)
    numbers = range(begun, begun + WARM + sizes.spaced)
    committed = await add_spaced(side, numbers, GAP)
    await _wait_for(ran + len(numbers), runs, working)
    # A handler may start before the answer to the commit has come back.
    return [max(0.0, runs.started[each] - committed[each]) * 1000 for each in numbers[WARM:]]


async def _wait_for(jobs: int, runs: Runs, working: "_Working") -> None:
    seen, until = -1, 0.0
    while len(runs.started) < jobs:
        working.check()
        if len(runs.started) != seen:
            seen, until = len(runs.started), time.monotonic() + STALL
        elif time.monotonic() > until:
            raise BenchStalled(queue=QUEUE, seconds=STALL)
        await asyncio.sleep(LOOK)


class _Working:
    """A side's worker, on a thread and a loop of its own."""

    def __init__(self, side: Side, runs: Runs) -> None:
        self._side = side
        self._runs = runs
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="relevo-bench", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None

    async def start(self) -> None:
        """Start it, and wait until it looks for jobs."""
        self._thread.start()
        await asyncio.to_thread(self._ready.wait)
        self.check()

    def check(self) -> None:
        """Raise what made the worker fail."""
        if self._failure is not None:
            raise self._failure

    async def stop(self) -> None:
        """Stop it, and wait until it has."""
        if self._loop is not None and self._task is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._task.cancel)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # noqa: BLE001 -- check() raises it where somebody looks
            self._failure = error
        finally:
            self._ready.set()

    async def _work(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        await self._side.work(self._runs.ran, self._ready.set)
