"""Whatever a frozen worker brings is counted as late, under whose number it may come."""

from collections.abc import Callable

import pytest

from faults.campaigns.late import find_late
from faults.evidence.records import History
from faults.tale import Tale, named, running


def taken_over() -> Tale:
    """A job was taken from the first worker, and the second runs it."""
    tale = a_waiting_one()
    tale.claim(1, worker=2)
    tale.note("start", job_id=1, attempt=2)
    return tale


def a_waiting_one() -> Tale:
    """A job was taken from the first worker, and nobody runs it yet."""
    tale = Tale()
    tale.session(2)
    running(tale)
    tale.note("start", job_id=1, attempt=1)
    tale.end(1)
    tale.go_back(1, "lost")
    return tale


def answer(tale: Tale, attempt: int) -> None:
    tale.note("end", job_id=1, attempt=attempt)


def test_an_answer_that_comes_too_late_and_is_refused_is_counted_as_an_answer() -> None:
    tale = taken_over()
    answer(tale, 1)
    answer(tale, 2)
    tale.finish(1)
    tale.effect(1)

    found = find_late(tale.history())

    assert (found.answers, found.handed_back, found.accepted) == (1, 0, [])


def test_an_end_before_the_rescue_is_accepted_and_counted_apart() -> None:
    tale = Tale()
    running(tale)
    tale.end(1)
    tale.finish(1)

    found = find_late(tale.history())

    assert (found.handed_back, found.accepted) == (1, [])


def over_the_start_of_another() -> Tale:
    """Fenced by nothing, it ends attempt 2."""
    tale = taken_over()
    answer(tale, 1)
    tale.finish(1, program="relevo settle w1")
    return tale


def by_a_handler() -> Tale:
    """The same, out of a handler's transaction."""
    tale = taken_over()
    tale.finish(1, program="relevo handlers w1")
    return tale


def while_it_waits() -> Tale:
    """Nobody runs it, and it is completed."""
    tale = a_waiting_one()
    answer(tale, 1)
    tale.change(1, state="completed", finished_at=tale.now, program="relevo settle w1")
    return tale


def back_while_it_waits() -> Tale:
    """Nobody runs it, and it is put off as if a start had failed."""
    tale = a_waiting_one()
    answer(tale, 1)
    tale.change(1, available_at=tale.now * 2, program="relevo settle w1")
    return tale


def over_a_later_start_of_its_own() -> Tale:
    """The worker has a new session and the job again, and ends it with the former answer."""
    tale = a_waiting_one()
    tale.session(3, "w1")
    tale.claim(1, worker=3)
    tale.note("start", job_id=1, attempt=2)
    answer(tale, 1)
    tale.finish(1, program="relevo settle w1")
    return tale


def with_its_own_number() -> Tale:
    """The number of starts was set back, too."""
    tale = taken_over()
    answer(tale, 1)
    tale.finish(1, attempt=1)
    return tale


@pytest.mark.parametrize(
    "tell",
    [
        over_the_start_of_another,
        by_a_handler,
        while_it_waits,
        back_while_it_waits,
        over_a_later_start_of_its_own,
        with_its_own_number,
    ],
)
def test_a_late_end_is_counted_whatever_start_it_is_written_over(tell: Callable[[], Tale]) -> None:
    history: History = tell().history()

    (late,) = find_late(history).accepted

    assert late == history.events[-1]


def test_an_effect_of_a_start_that_was_taken_back_is_late() -> None:
    tale = taken_over()
    answer(tale, 2)
    tale.finish(1)
    tale.effect(1, attempt=1)

    found = find_late(tale.history())

    assert found.accepted == [tale.effects[-1]]
    assert "I5" in named(tale.history())
