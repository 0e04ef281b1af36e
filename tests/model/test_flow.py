"""When a worker would rather look by itself than be told of each job."""

from relevo.model.pace import OVER, QUIET_LOOKS, TOLD_TOO_OFTEN, Flow

MANY = int(TOLD_TOO_OFTEN * OVER) + 1


def steady() -> Flow:
    flow = Flow()
    flow.end_look(1.0, 1, 0)
    flow.end_look(1.0 + OVER, 1, MANY)
    return flow


def test_whoever_is_told_of_many_jobs_in_a_moment_looks_by_itself() -> None:
    assert steady().is_steady


def test_the_first_look_says_nothing_of_a_flow() -> None:
    """Red when what was announced before it counts as if it had come at once."""
    flow = Flow()
    flow.end_look(1.0, 1, 10_000)

    assert not flow.is_steady


def test_jobs_that_come_now_and_then_are_told() -> None:
    flow = Flow()
    for number in range(100):
        flow.end_look(1.0 + number * 0.05, 1, number)

    assert not flow.is_steady


def test_many_announcements_over_a_long_rest_are_no_flow() -> None:
    flow = Flow()
    flow.end_look(1.0, 1, 0)
    flow.end_look(11.0, 1, MANY)

    assert not flow.is_steady


def test_a_flow_goes_on_though_nothing_is_announced_in_it() -> None:
    """Nobody tells whoever looks by itself; red when that ends the flow."""
    flow = steady()
    for number in range(1000):
        flow.end_look(2.0 + number, 1, MANY)

    assert flow.is_steady


def test_so_many_looks_in_a_row_that_find_nothing_end_a_flow() -> None:
    flow = steady()
    for number in range(QUIET_LOOKS - 1):
        flow.end_look(2.0 + number / 100, 0, MANY)
    flow.end_look(3.0, 1, MANY)
    for number in range(QUIET_LOOKS - 1):
        flow.end_look(4.0 + number / 100, 0, MANY)
    before = flow.is_steady
    flow.end_look(5.0, 0, MANY)

    assert before
    assert not flow.is_steady


def test_after_a_flow_what_was_announced_before_does_not_count_again() -> None:
    flow = steady()
    for number in range(QUIET_LOOKS):
        flow.end_look(2.0 + number / 100, 0, MANY)
    flow.end_look(2.0 + OVER * 3, 0, MANY)

    assert not flow.is_steady
