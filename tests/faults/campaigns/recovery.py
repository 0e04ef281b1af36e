"""R8: how long a lost job waits for its next start, and a server that is back for its first end.

Both are as fast as the settings make them: a lease of 3 seconds stands for the 30 of the
default, with which some of the kills are measured as well. The times are from the witnesses'
and the database's clocks, which are one here.
"""

import time
from pathlib import Path

import psycopg

from faults.campaigns import server
from faults.campaigns.ground import Ground, a_ground, a_server, await_that
from faults.campaigns.nursery import Born
from faults.campaigns.verdict import Verdict
from faults.evidence import History
from faults.evidence.witness import read_notes
from faults.measured import Measured
from faults.sizes import Size, numbers

WORKERS = 2
LEASE = 3.0
SHIPPED = 30.0
BEYOND_LEASE = 2.0
TO_COMPLETION = 5.0
"""What is promised, in seconds, of the slowest of a hundred."""

KILLS_OF_A_ROUND = 50
STOPS_OF_A_ROUND = 20
BACKLOG = 60
HUNG = 4
"""So many jobs are in the hands of whoever is killed."""

ARE_HELD = """
SELECT count(*) = {hung}
FROM relevo.jobs
WHERE state = 'running'
  AND kind = 'load.hang'
  AND worker = (SELECT max(id) FROM relevo.workers WHERE name = %s)
"""


def measure(size: Size, seed: int, directory: Path) -> Measured:
    """Measure as often as the size says."""
    given = numbers("R8", size)
    return measure_recovery(
        given["kills"], given["stops"], seed, directory, shipped=given["shipped"]
    )


def measure_recovery(
    kills: int, stops: int, seed: int, directory: Path, *, shipped: int = 0, slack: float = 1.0
) -> Measured:
    """Measure so many kills of workers and stops of the server.

    Args:
        kills: Of workers with jobs in their hands.
        stops: Of the server, each time at once.
        seed: Of the moments.
        directory: Where witnesses are kept.
        shipped: How many kills more, with the lease that a worker has by default.
        slack: How many times the promise may be exceeded before it is a problem.
    """
    verdict = Verdict()
    starts, late_starts, completions = [], [], []
    with a_server(is_durable=True) as durable:
        for number, begin in enumerate(range(0, kills, KILLS_OF_A_ROUND)):
            place = directory / f"kills{number}"
            with a_ground(durable, place, seed + number, lease=LEASE) as ground:
                share = min(KILLS_OF_A_ROUND, kills - begin)
                starts += _kill_some(ground, share, verdict)
        if shipped:
            place = directory / "shipped"
            with a_ground(durable, place, seed + 2_000_000, lease=SHIPPED) as ground:
                _await_trust(ground.dsn)
                late_starts = _kill_some(ground, shipped, verdict)
        for number, begin in enumerate(range(0, stops, STOPS_OF_A_ROUND)):
            place = directory / f"stops{number}"
            with a_ground(durable, place, seed + 1_000_000 + number, lease=LEASE) as ground:
                share = min(STOPS_OF_A_ROUND, stops - begin)
                completions += _stop_some(ground, share, verdict)
    for what, seconds, promised in (
        ("to_next_start", starts, LEASE + BEYOND_LEASE),
        ("to_next_start_shipped", late_starts, SHIPPED + BEYOND_LEASE),
        ("to_first_completion", completions, TO_COMPLETION),
    ):
        verdict.counts.update(_summary(what, seconds))
        if (slowest := percentile(seconds, 0.99)) > promised * slack:
            verdict.problems.append(
                f"{what}: p99 is {slowest:.2f} s, {promised:g} s are promised, times {slack:g}"
            )
    return verdict.measured()


def percentile(seconds: list[float], share: float) -> float:
    """Answer the time that this share did not exceed; 0 where nothing was measured."""
    return sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * share))] if seconds else 0.0


def _summary(what: str, seconds: list[float]) -> dict[str, float]:
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    found = {f"{what}_{name}": round(percentile(seconds, at), 3) for name, at in shares.items()}
    return {f"{what}_measured": len(seconds), **found}


def _kill_some(ground: Ground, kills: int, verdict: Verdict) -> list[float]:
    ground.nursery.bear()
    killed_at: dict[str, int] = {}
    with psycopg.connect(ground.dsn, autocommit=True) as owner:
        for _ in range(kills):
            # The jobs go to whoever is alone, and the one that comes takes them over.
            (victim,) = ground.nursery.alive
            ground.load.enqueue(HUNG, "load.hang")
            _await_held(owner, victim)
            ground.nursery.bear()
            _await_session(owner, ground.nursery.alive[-1])
            ground.pause(1.0)
            killed_at[victim.name] = time.time_ns() // 1000
            ground.nursery.kill(victim)
            verdict.counts["kills"] += 1
            await_that(lambda: owner.execute(NONE_LIVE).fetchone() == (True,), "the lost jobs")
    return _to_next_start(verdict.judge(ground), killed_at)


def _await_trust(dsn: str) -> None:
    """Wait until the server is up for a lease: before, a rescuer takes silence for no proof."""
    up = "SELECT clock_timestamp() - pg_postmaster_start_time() > make_interval(secs => %s)"
    with psycopg.connect(dsn, autocommit=True) as owner:
        await_that(lambda: owner.execute(up, [SHIPPED]).fetchone() == (True,), "trust in silence")


NONE_LIVE = "SELECT NOT EXISTS (SELECT FROM relevo.jobs WHERE live)"


def _await_held(owner: psycopg.Connection, victim: Born) -> None:
    held = ARE_HELD.format(hung=HUNG).encode()
    await_that(lambda: owner.execute(held, [victim.name]).fetchone() == (True,), "jobs in hand")
    await_that(
        lambda: sum(note.what == "start" for note in read_notes([victim.witness])) >= HUNG,
        "their handlers' starts",
    )


def _await_session(owner: psycopg.Connection, born: Born) -> None:
    query = "SELECT EXISTS (SELECT FROM relevo.workers WHERE name = %s)"
    await_that(lambda: owner.execute(query, [born.name]).fetchone() == (True,), "a session")


def _to_next_start(history: History, killed_at: dict[str, int]) -> list[float]:
    """Answer the seconds from the kill of the one that held a job to the job's next start."""
    holders: dict[int, str] = {}
    found = []
    for note in sorted(history.notes, key=lambda note: note.at):
        if note.what != "start" or note.job_id is None:
            continue
        if (holder := holders.get(note.job_id)) in killed_at:
            found.append((note.at - killed_at[holder]) / 1e6)
        holders[note.job_id] = note.source.removesuffix(".witness")
    return found


def _stop_some(ground: Ground, stops: int, verdict: Verdict) -> list[float]:
    ground.begin(WORKERS, backlog=BACKLOG)
    back_at = []
    for _ in range(stops):
        ground.run_until(ground.finished() + BACKLOG)
        server.stop(ground)
        back_at.append(time.time_ns() // 1000)
        verdict.counts["stops"] += 1
        await_that(lambda: ground.finished() > 0, "the server's answer")
    ground.run_until(ground.finished() + BACKLOG)
    history = verdict.judge(ground)
    completed = [event.at for event in history.events if event.state == "completed"]
    return [(min(at for at in completed if at > back) - back) / 1e6 for back in back_at]
