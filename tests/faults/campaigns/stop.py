"""R7: workers frozen until others have taken their jobs, and thawed with stale work in hand."""

import signal
import time
from pathlib import Path

import psycopg

from faults.campaigns.ground import Ground, a_ground, a_server, await_that
from faults.campaigns.late import find_late
from faults.campaigns.nursery import Born
from faults.campaigns.verdict import Verdict
from faults.checker.story import tell
from faults.measured import Measured
from faults.sizes import Size, numbers

WORKERS = 4
FROZEN = 2
"""So many are frozen at once; the others take over."""

PATIENCE = 2.0
BACKLOG = 200
FREEZES_OF_A_ROUND = 40

SESSION = "SELECT max(id) FROM relevo.workers WHERE name = %s"
HOLDS = "SELECT EXISTS (SELECT FROM relevo.jobs WHERE live AND worker = %s)"
IS_THERE = "SELECT EXISTS (SELECT FROM relevo.workers WHERE id = %s)"


def measure(size: Size, seed: int, directory: Path) -> Measured:
    """Freeze as many workers as the size says."""
    return measure_freezes(numbers("R7", size)["freezes"], seed, directory)


def measure_freezes(freezes: int, seed: int, directory: Path) -> Measured:
    """Freeze so many workers, each until its session has ended."""
    verdict = Verdict()
    with a_server(is_durable=False) as server:
        for number, begin in enumerate(range(0, freezes, FREEZES_OF_A_ROUND)):
            share = min(FREEZES_OF_A_ROUND, freezes - begin)
            with a_ground(server, directory / str(number), seed + number) as ground:
                _freeze_some(ground, share, verdict)
    return verdict.measured()


def _freeze_some(ground: Ground, freezes: int, verdict: Verdict) -> None:
    ground.begin(WORKERS, backlog=BACKLOG)
    ground.run_until(BACKLOG // 2)
    with psycopg.connect(ground.dsn, autocommit=True) as owner:
        while freezes:
            some = ground.random.sample(ground.nursery.alive, min(FROZEN, freezes))
            _freeze(ground, owner, some)
            freezes -= len(some)
            verdict.counts["freezes"] += len(some)
    history = verdict.judge(ground)
    found = find_late(history)
    verdict.counts["late_answers"] += found.answers
    verdict.counts["handed_back_before_the_rescue"] += found.handed_back
    verdict.counts["late_completions_accepted"] += len(found.accepted)
    if found.accepted:
        story = "\n".join(tell(*found.accepted))
        verdict.problems.append(f"late completions were accepted:\n{story}")


def _freeze(ground: Ground, owner: psycopg.Connection, some: list[Born]) -> None:
    """Freeze workers at random moments, and thaw them when others may have their jobs."""
    frozen: list[tuple[Born, int]] = []
    for born in some:
        session = await_that(
            lambda born=born: owner.execute(SESSION, [born.name]).fetchone()[0], "a session"
        )
        ground.run_until(ground.finished() + 20)
        ground.pause(0.05)
        born.send(signal.SIGSTOP)
        frozen.append((born, session))
    for born, session in frozen:
        await_that(
            lambda session=session: owner.execute(IS_THERE, [session]).fetchone() == (False,),
            "the end of a frozen worker's session",
        )
        # What its open transactions have locked is not taken back before it is thawed.
        until = time.monotonic() + PATIENCE
        while owner.execute(HOLDS, [session]).fetchone() == (True,) and time.monotonic() < until:
            ground.pause(0.02)
        ground.pause(0.2)
        born.send(signal.SIGCONT)
