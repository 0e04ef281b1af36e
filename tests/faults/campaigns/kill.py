"""R1: workers killed under load, each at a random moment; another one takes its place."""

from pathlib import Path

from faults.campaigns.ground import Ground, a_ground, a_server
from faults.campaigns.verdict import Verdict
from faults.measured import Measured
from faults.sizes import Size, numbers

WORKERS = 3
BACKLOG = 400
JOBS_OF_A_ROUND = 20_000
"""A history is held in memory."""


def measure(size: Size, seed: int, directory: Path) -> Measured:
    """Kill as many workers as the size says."""
    given = numbers("R1", size)
    return measure_kills(given["kills"], given["jobs"], seed, directory)


def measure_kills(kills: int, jobs: int, seed: int, directory: Path) -> Measured:
    """Kill so many workers while they run so many jobs."""
    rounds = -(-jobs // JOBS_OF_A_ROUND)
    verdict = Verdict()
    with a_server(is_durable=False) as server:
        for number in range(rounds):
            share = kills * (number + 1) // rounds - kills * number // rounds
            with a_ground(server, directory / str(number), seed + number) as ground:
                _kill(ground, share, jobs // rounds, verdict)
    return verdict.measured()


def _kill(ground: Ground, kills: int, jobs: int, verdict: Verdict) -> None:
    nursery = ground.nursery
    ground.begin(WORKERS, backlog=BACKLOG, jobs=jobs)
    for number in range(kills):
        ground.run_until(jobs * number // (kills + 1))
        ground.pause(0.05)
        nursery.kill(ground.random.choice(nursery.alive))
        nursery.bear()
        verdict.counts["kills"] += 1
    ground.finish()
    verdict.judge(ground)
