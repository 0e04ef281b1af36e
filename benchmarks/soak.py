"""Does a steady flow stay as it began: memory, claims, dead rows, and nothing lost?

Two worker processes serve a mixed flow of several tenants (quick, failing, slow, keyed,
ordered and limited jobs) for an hour, or as long as said. A line a minute, then a verdict a
statement; exit code 1 when one does not hold.
"""

import argparse
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import UUID

import psycopg
from measuring import DATA, Connection, a_database, a_server, number, some_tenants
from soak_jobs import LANES, PARTS, Part
from soak_watch import PROBE, Probe, Sample, look, slope

TICK: Final = 0.25
TENANTS: Final = 8
GRACE: Final = 120.0

LEAK: Final = 5.0
"""MiB an hour by which a worker process may grow after its first minutes."""

SLOWER: Final = 2.0
"""How many times the p95 of the first minutes that of the last may be."""

MORE_BUFFERS: Final = 1.25
DEAD_A_JOB: Final = 2
BACKLOG: Final = 5.0
"""At most so many seconds of the flow may wait at a time."""

RAN_OUT_OF_ORDER: Final = """
SELECT count(*)
FROM (
    SELECT
        j.started_at,
        lag(j.finished_at) OVER (
            PARTITION BY j.tenant_id, j.lane
            ORDER BY j.available_at, j.id
        ) AS before
    FROM relevo.jobs AS j
    WHERE j.kind = 'soak.ordered'
) AS o
WHERE o.started_at < o.before
"""


@dataclass(frozen=True)
class Plan:
    """How long, how much, and what follows from it."""

    seconds: float
    rate: float

    @property
    def window(self) -> float:
        """The first and the last part that are compared: ten minutes of an hour or more."""
        return min(600.0, self.seconds / 4)

    @property
    def every(self) -> float:
        """Seconds between two looks."""
        return max(0.5, self.seconds / 720)

    @property
    def naptime(self) -> int:
        """Seconds between two of autovacuum's looks; shorter in a short soak."""
        return round(min(15, max(1, self.seconds / 240)))

    @property
    def threshold(self) -> int:
        """Dead rows before a vacuum: the table's own setting, less in a short soak."""
        return round(min(20_000, max(1000, self.seconds * 20_000 / 3600)))

    @property
    def most_dead(self) -> float:
        """As many dead rows as there can be while vacuum does its work."""
        return self.threshold + DEAD_A_JOB * self.rate * (self.naptime + 10)


@dataclass
class Producer:
    """Enqueues the mixed flow, and keeps account of what was created."""

    dsn: str
    tenants: Sequence[UUID]
    rate: float
    created: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    behind: float = 0.0

    def run(self, stop: threading.Event) -> None:
        """Go on until told to stop."""
        chance = random.Random(1)  # noqa: S311 -- the same flow each time
        owed = dict.fromkeys((part.name for part in PARTS), 0.0)
        with psycopg.connect(self.dsn) as connection:
            due = time.monotonic()
            while not stop.is_set():
                for part in PARTS:
                    owed[part.name] += self.rate * part.share * TICK
                    count = int(owed[part.name])
                    owed[part.name] -= count
                    if count:
                        self._enqueue(connection, part, count, chance)
                due += TICK
                self.behind = max(self.behind, time.monotonic() - due)
                stop.wait(max(0.0, due - time.monotonic()))

    def _enqueue(
        self, connection: Connection, part: Part, count: int, chance: random.Random
    ) -> None:
        kind = part.kind.with_options(tenant_id=chance.choice(self.tenants))
        payloads = [{"i": place, **(part.arguments or {})} for place in range(count)]
        keys = [f"key {chance.randrange(part.keys)}" for _ in range(count)] if part.keys else None
        if kind.kind.ordered:
            answers = kind.enqueue_many(connection, payloads, lane_keys=keys)
        else:
            answers = kind.enqueue_many(connection, payloads, keys=keys)
        connection.commit()
        created = sum(answer.created for answer in answers)
        self.created[part.name] += created
        self.refused += count - created


@dataclass
class Verdicts:
    """What holds and what does not."""

    failed: int = 0

    def check(self, statement: str, *, holds: bool) -> None:
        """Print one."""
        self.failed += not holds
        print(f"{'ok  ' if holds else 'FAIL'} {statement}", flush=True)

    def counts(self, owner: Connection, created: Counter[str], probed: int) -> None:
        """Whether every job that was created has ended as its kind says."""
        for part in PARTS:
            made = created[part.name]
            if part.is_pruned:
                left = number(owner, "SELECT count(DISTINCT job_id) FROM public.effects")
                rows = number(owner, "SELECT count(*) FROM public.effects")
                self.check(
                    f"{part.name}: {made} created, {left:.0f} effects, none twice",
                    holds=left == rows == made,
                )
                continue
            ended = number(
                owner,
                "SELECT count(*) FROM relevo.jobs WHERE kind = %s AND state = %s AND attempt = %s",
                [part.name, part.state, part.attempts],
            )
            failures = number(
                owner,
                "SELECT count(*) FROM relevo.attempts AS a JOIN relevo.jobs AS j"
                " ON (j.tenant_id, j.id) = (a.tenant_id, a.job_id) WHERE j.kind = %s",
                [part.name],
            )
            unsuccessful = part.attempts - (part.state == "completed")
            self.check(
                f"{part.name}: {made} created, {ended:.0f} {part.state} at start {part.attempts},"
                f" {failures:.0f} attempts without success",
                holds=ended == made and failures == made * unsuccessful,
            )
        done = number(
            owner,
            "SELECT count(*) FROM relevo.jobs WHERE kind = %s AND state = 'completed'",
            [PROBE],
        )
        self.check(f"the probe's {done:.0f} jobs are completed", holds=done > 0 and probed >= done)
        live = number(owner, "SELECT count(*) FROM relevo.jobs WHERE live")
        self.check(f"{live:.0f} jobs are left", holds=live == 0)
        late = number(owner, RAN_OUT_OF_ORDER)
        self.check(
            f"{late:.0f} ordered jobs started before the one ahead had ended", holds=not late
        )

    def bounds(self, plan: Plan, samples: Sequence[Sample]) -> None:
        """Whether dead rows have not piled up."""
        dead = max(sample.dead for sample in samples)
        self.check(
            f"dead rows: at most {dead} at a time (bound {plan.most_dead:.0f}: vacuum from"
            f" {plan.threshold} on, looked for every {plan.naptime} s)",
            holds=dead <= plan.most_dead,
        )

    def drift(self, plan: Plan, samples: Sequence[Sample], probe: Probe) -> None:
        """Whether the flow was kept up with, and the end is as the beginning was."""
        due = max(sample.due for sample in samples)
        self.check(
            f"backlog: at most {due} due jobs waited (bound {plan.rate * BACKLOG:.0f})",
            holds=due <= plan.rate * BACKLOG,
        )
        settled = [sample for sample in samples if sample.at >= plan.window]
        for place in range(len(samples[0].memory)):
            growth = 3600 * slope([(sample.at, sample.memory[place]) for sample in settled])
            last = settled[-1].memory[place]
            self.check(
                f"worker {place + 1}: {last:.0f} MiB, grows by {growth:+.2f} MiB an hour"
                f" (bound {LEAK})",
                holds=growth <= LEAK,
            )
        end = samples[-1].at
        first, last = probe.p95(0, plan.window), probe.p95(end - plan.window, end)
        self.check(
            f"claim p95: {first:.2f} ms in the first {plan.window / 60:.1f} minutes,"
            f" {last:.2f} ms in the last ({last / first:.2f} x, bound {SLOWER})",
            holds=last <= SLOWER * first,
        )
        # Not from the very first: on an empty table every index is a single page.
        begin = buffers_a_job([each for each in settled if each.at <= 2 * plan.window])
        finish = buffers_a_job([each for each in samples if each.at >= end - plan.window])
        self.check(
            f"claim buffers a job: {begin:.2f}, then {finish:.2f}"
            f" ({finish / begin:.2f} x, bound {MORE_BUFFERS})",
            holds=finish <= MORE_BUFFERS * begin,
        )


def buffers_a_job(samples: Sequence[Sample]) -> float:
    """Answer what a claimed job cost between the first and the last of some looks."""
    first, last = samples[0], samples[-1]
    return (last.buffers - first.buffers) / max(1, last.claimed - first.claimed)


@contextmanager
def workers(dsn: str, concurrency: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run one worker process for each application."""
    script = str(Path(__file__).with_name("soak_jobs.py"))
    started = [
        subprocess.Popen([sys.executable, script, name, dsn, name, str(concurrency)])  # noqa: S603 -- ourselves
        for name in ("flow", LANES)
    ]
    try:
        yield started
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
            process.wait()


def watch(
    owner: Connection,
    plan: Plan,
    processes: Sequence[int],
    *,
    threads: Sequence[Future[None]],
    producer: Producer,
    probe: Probe,
) -> list[Sample]:
    """Look again and again until the time is over; a line a minute, or ten in all."""
    samples, say_at = [look(owner, 0.0, processes)], 0.0
    while (at := time.monotonic() - probe.begun_at) < plan.seconds:
        for thread in threads:
            if thread.done():
                thread.result()
        sample = look(owner, at, processes)
        samples.append(sample)
        if at >= say_at:
            say_at = at + max(plan.seconds / 60, min(60.0, plan.seconds / 10))
            recent = [each for each in samples if each.at >= at - 60]
            memory = " ".join(f"{each:6.1f}" for each in sample.memory)
            print(
                f"{at / 60:6.1f} min  created {producer.created.total():8}  due {sample.due:6}"
                f"  dead {sample.dead:7}  table {sample.size / 2**20:7.0f} MiB  rss {memory}"
                f"  claim p95 {probe.p95(at - 60, at):6.2f} ms,"
                f" {buffers_a_job(recent):5.2f} buffers a job",
                flush=True,
            )
        time.sleep(plan.every)
    return samples


def wait_for_the_last(owner: Connection) -> float:
    """Wait until nothing is live, within the grace; answer how long it took."""
    begun = time.monotonic()
    while number(owner, "SELECT count(*) FROM relevo.jobs WHERE live"):
        if time.monotonic() - begun > GRACE:
            break
        time.sleep(0.2)
    return time.monotonic() - begun


def soak(owner: Connection, dsn: str, plan: Plan, *, concurrency: int, counts_only: bool) -> int:
    """Run the flow, then judge it; answer how many statements do not hold."""
    owner.execute(
        f"ALTER TABLE relevo.jobs SET (autovacuum_vacuum_threshold = {plan.threshold})".encode()
    )
    owner.execute("CREATE TABLE public.effects (job_id bigint NOT NULL)")
    owner.execute("GRANT INSERT ON public.effects TO relevo_worker")
    tenants = some_tenants(owner, TENANTS)
    stop, verdicts = threading.Event(), Verdicts()
    producer = Producer(dsn, tenants, plan.rate)
    with ThreadPoolExecutor(2) as pool, workers(dsn, concurrency) as processes:
        probe = Probe(dsn, tenants[0], time.monotonic())
        threads = [
            pool.submit(producer.run, stop),
            pool.submit(probe.run, stop, plan.seconds + 2 * GRACE),
        ]
        try:
            pids = [process.pid for process in processes]
            samples = watch(owner, plan, pids, threads=threads, producer=producer, probe=probe)
        finally:
            stop.set()
        for thread in threads:
            thread.result()
        took = wait_for_the_last(owner)
        for process in processes:
            process.terminate()
        codes = [process.wait(GRACE) for process in processes]
    print(
        f"{producer.created.total()} jobs created, {producer.refused} refused by their keys;"
        f" the last ended {took:.1f} s after the last was enqueued;"
        f" the producer was at most {producer.behind:.1f} s behind"
    )
    verdicts.check(f"both workers ended well: {codes}", holds=codes == [0, 0])
    verdicts.counts(owner, producer.created, len(probe.times))
    verdicts.bounds(plan, samples)
    if not counts_only:
        verdicts.drift(plan, samples, probe)
    return verdicts.failed


def main() -> None:
    """Run one soak on a server of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=200.0, help="jobs enqueued a second")
    parser.add_argument("--concurrency", type=int, default=32, help="slots of each worker")
    parser.add_argument("--data", type=Path, default=DATA, help="where the server's data go")
    parser.add_argument(
        "--counts-only", action="store_true", help="judge counts and dead rows, nothing by its time"
    )
    options = parser.parse_args()
    plan = Plan(options.minutes * 60, options.rate)
    settings = {
        "shared_preload_libraries": "pg_stat_statements",
        "shared_buffers": "512MB",
        "max_wal_size": "4GB",
        "autovacuum_naptime": f"{plan.naptime}s",
    }
    with a_server(options.data, settings) as server:
        dsn = a_database(server.dsn(), "soak")
        with psycopg.connect(dsn, autocommit=True) as owner:
            failed = soak(
                owner,
                dsn,
                plan,
                concurrency=options.concurrency,
                counts_only=options.counts_only,
            )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
