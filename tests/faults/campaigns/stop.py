"""R7: workers frozen until others have taken their jobs, and thawed with stale work in hand."""

import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psycopg

from faults.campaigns.ground import Ground, a_ground, a_server, await_that
from faults.campaigns.nursery import Born
from faults.campaigns.verdict import Verdict
from faults.checker.fencing import BY_HANDLERS, BY_SETTLER
from faults.checker.story import Story, is_end, is_loss, tell
from faults.evidence import Effect, Event, History
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
    found = Late.find(history)
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


@dataclass(frozen=True, slots=True)
class Late:
    """What came for a start that others had taken back.

    Attributes:
        answers: Handlers that came to their end although their start had been taken back.
        handed_back: Ends that were written when the session had ended and nobody had taken
            the job back yet: its row still named the session, so they are accepted.
        accepted: Ends and effects that were written when somebody had: there must be none.
    """

    answers: int
    handed_back: int
    accepted: list[Event | Effect]

    @classmethod
    def find(cls, history: History) -> Self:
        """Compare everything with when each start was taken back, and each session ended."""
        story = Story(history)
        taken = {
            (event.job_id, event.attempt): event
            for before, event in story.steps
            if is_loss(before, event)
        }
        ends = [event for event in history.events if is_end(event)]
        answers = [
            note
            for note in history.notes
            if note.what == "end"
            and (loss := taken.get((note.job_id or 0, note.attempt or 0))) is not None
            and loss.at < note.at
        ]
        accepted: list[Event | Effect] = [
            one
            for one in (*ends, *history.effects)
            if (loss := taken.get((one.job_id, one.attempt))) is not None and loss.seq < one.seq
        ]
        return cls(len(answers), sum(_is_handed_back(story, end) for end in ends), accepted)


def _is_handed_back(story: Story, end: Event) -> bool:
    session = story.sessions.get(end.old_worker or 0)
    is_own = end.program.startswith((BY_SETTLER, BY_HANDLERS))
    return is_own and session is not None and (session.end_seq or end.seq) < end.seq
