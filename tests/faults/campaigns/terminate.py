"""R2: backends of the engine terminated under load, as an operator or a fail-over does it."""

from collections import defaultdict
from pathlib import Path

import psycopg

from faults.campaigns.ground import Ground, a_ground, a_server
from faults.campaigns.load import PROGRAM
from faults.campaigns.verdict import Verdict
from faults.measured import Measured
from faults.sizes import Size, numbers

WORKERS = 3
BACKLOG = 200
JOBS_OF_A_CUT = 60
CUTS_OF_A_ROUND = 250

BACKENDS = """
SELECT pid, application_name
FROM pg_stat_activity
WHERE datname = current_database()
  AND (application_name LIKE 'relevo %%' OR application_name = %s)
ORDER BY pid
"""
CUT = "SELECT pg_terminate_backend(%s, 10000)"
"""It waits for the end of the backend, and answers false where there was none to be ended."""


def measure(size: Size, seed: int, directory: Path) -> Measured:
    """Cut as many backends as the size says."""
    return measure_cuts(numbers("R2", size)["cuts"], seed, directory)


def measure_cuts(cuts: int, seed: int, directory: Path) -> Measured:
    """Cut so many backends of all purposes alike."""
    verdict = Verdict()
    with a_server(is_durable=False) as server:
        for number, begin in enumerate(range(0, cuts, CUTS_OF_A_ROUND)):
            share = min(CUTS_OF_A_ROUND, cuts - begin)
            with a_ground(server, directory / str(number), seed + number) as ground:
                _cut_some(ground, share, verdict)
    return verdict.measured()


def _cut_some(ground: Ground, cuts: int, verdict: Verdict) -> None:
    jobs = cuts * JOBS_OF_A_CUT
    ground.begin(WORKERS, backlog=BACKLOG, jobs=jobs)
    with psycopg.connect(ground.dsn, autocommit=True) as operator:
        for number in range(cuts):
            ground.run_until(jobs * number // (cuts + 1))
            ground.pause(0.05)
            while (purpose := _cut_one(ground, operator)) is None:
                verdict.counts["gone_before_the_cut"] += 1
            verdict.counts["cuts"] += 1
            verdict.counts[f"cuts_of_{purpose}"] += 1
    ground.finish()
    verdict.judge(ground)


def _cut_one(ground: Ground, operator: psycopg.Connection) -> str | None:
    """Cut one backend; answer what it was for, or None where it had ended by itself."""
    found: dict[str, list[int]] = defaultdict(list)
    for pid, program in operator.execute(BACKENDS, [PROGRAM]):
        found["enqueuer" if program == PROGRAM else program.split()[1]].append(pid)
    purpose = ground.random.choice(sorted(found))
    return purpose if is_cut(operator, ground.random.choice(found[purpose])) else None


def is_cut(operator: psycopg.Connection, pid: int) -> bool:
    """Cut a backend, and answer whether there was one that ended of it."""
    return operator.execute(CUT, [pid]).fetchone() == (True,)
