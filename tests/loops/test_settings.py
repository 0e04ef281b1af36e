"""What a worker is told is refused where it could not work with it."""

from datetime import timedelta

import pytest

from relevo import InvalidOption, WorkerSettings


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"lease": timedelta(milliseconds=99)}, "pass a tenth of a second or more"),
        ({"lease": timedelta(0)}, "it must be above zero"),
        ({"lease": 30}, r"pass timedelta\(seconds=30\)"),
        ({"poll": 1}, r"pass timedelta\(seconds=1\)"),
        ({"poll": timedelta(0)}, "it must be above zero"),
        ({"grace": 0.5}, r"pass timedelta\(seconds=0\.5\)"),
        ({"queues": ()}, "name a queue"),
        ({"queues": "default"}, "put it in a list"),
        ({"queues": ("No Spaces",)}, "choose another name"),
        ({"concurrency": True}, "pass a whole number from 1"),
        ({"connections": "8"}, "pass a whole number from 1"),
    ],
    ids=str,
)
def test_settings_that_could_not_work_are_refused(changes: dict, said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        WorkerSettings("", **changes)


def test_the_shortest_lease_is_a_tenth_of_a_second() -> None:
    lease = timedelta(milliseconds=100)

    assert WorkerSettings("", lease=lease).lease == lease
