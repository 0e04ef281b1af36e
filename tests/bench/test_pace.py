"""How jobs are added and timed: all of them, in order, in the chunks that were asked for."""

from collections.abc import Sequence

import pytest

from relevo.bench.compare import Ratio, compare
from relevo.bench.pace import add_in_bulk, add_singly, add_spaced, percentile


class Notebook:
    """A producer that writes down what it is asked for."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    async def enqueue(self, number: int) -> None:
        self.calls.append([number])

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        self.calls.append(list(numbers))


async def test_single_jobs_are_added_one_a_call() -> None:
    book = Notebook()

    pace = await add_singly(book, range(3, 6), limit=60)

    assert book.calls == [[3], [4], [5]]
    assert pace.jobs == 3


async def test_many_jobs_are_added_in_chunks_and_the_last_may_be_shorter() -> None:
    book = Notebook()

    pace = await add_in_bulk(book, range(5), 2, limit=60)

    assert book.calls == [[0, 1], [2, 3], [4]]
    assert pace.jobs == 5


async def test_nothing_more_is_added_when_the_time_is_over() -> None:
    book = Notebook()

    pace = await add_singly(book, range(5), limit=0)

    assert (book.calls, pace.jobs) == ([], 0)


async def test_spaced_jobs_are_all_added_and_their_moments_answered() -> None:
    book = Notebook()

    returned = await add_spaced(book, range(4), gap=0.001)

    assert book.calls == [[0], [1], [2], [3]]
    assert list(returned) == [0, 1, 2, 3]
    assert sorted(returned.values()) == list(returned.values())


@pytest.mark.parametrize(
    ("percent", "value"), [(1, 1), (50, 5), (90, 9), (99, 10), (100, 10)], ids=str
)
def test_a_percentile_is_a_value_that_was_measured(percent: float, value: float) -> None:
    assert percentile([7, 1, 10, 3, 5, 2, 9, 4, 6, 8], percent) == value


def test_sides_are_compared_within_a_round() -> None:
    assert compare({1: 2.0, 2: 30.0, 3: 1.0}, {1: 1.0, 2: 10.0, 3: 2.0}) == Ratio(2.0, 0.5, 3.0)


def test_a_round_that_one_side_lacks_is_left_out() -> None:
    assert compare({1: 2.0, 2: 3.0}, {2: 1.0, 3: 1.0}) == Ratio(3.0, 3.0, 3.0)
    assert compare({1: 2.0}, {1: 0.0}) is None
    assert compare({}, {1: 1.0}) is None
