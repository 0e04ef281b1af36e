"""A value of another type is refused where it is passed, with what to write instead."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from relevo import (
    Backoff,
    Cancel,
    Context,
    Fail,
    InvalidOption,
    Limit,
    Outage,
    Relevo,
    Retention,
    Retry,
    Snooze,
)
from relevo.model.checks import check_type

SECOND = timedelta(seconds=1)


def declare(**rules: Any) -> None:
    @Relevo().job("test.work", **rules)
    def handler(ctx: Context) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (Limit, {"most": "3"}),
        (Limit, {"most": True}),
        (Limit, {"most": 3, "within": "1s"}),
        (Backoff, {"base": SECOND, "factor": "2"}),
        (Backoff, {"base": SECOND, "jitter": True}),
        (Retention, {"completed": 7}),
        (Retry, {"in_": "later"}),
        (Retry, {"reason": ValueError("x")}),
        (Snooze, {"in_": None}),
        (Fail, {"reason": None}),
        (Cancel, {"reason": 5}),
        (Outage, {"reason": "down", "in_": "later"}),
        (declare, {"retry": 5}),
        (declare, {"retention": SECOND}),
        (declare, {"priority": "1"}),
        (declare, {"limits": [3]}),
        (declare, {"ordered": "no"}),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value),
)
def test_a_value_of_another_type_is_refused(
    make: Callable[..., object], values: dict[str, object]
) -> None:
    option = list(values)[-1]

    with pytest.raises(InvalidOption, match=f"{option} cannot be .*: it takes .*; pass "):
        make(**values)


@pytest.mark.parametrize(
    ("make", "option", "others"),
    [
        (Limit, "within", {"most": 3}),
        (Backoff, "base", {}),
        (Backoff, "cap", {"base": SECOND}),
        (Retention, "failed", {}),
        (Retry, "in_", {}),
        (Snooze, "in_", {}),
        (Outage, "in_", {"reason": "down"}),
        (declare, "timeout", {}),
    ],
)
def test_seconds_for_a_time_are_refused_with_how_to_write_them(
    make: Callable[..., object], option: str, others: dict[str, object]
) -> None:
    with pytest.raises(InvalidOption) as refused:
        make(**others, **{option: 5})

    assert str(refused.value) == (
        f"{option} cannot be 5: it takes timedelta, not int; pass timedelta(seconds=5)"
    )


def test_one_limit_is_refused_where_several_are_taken() -> None:
    with pytest.raises(InvalidOption, match="put it in a list"):
        declare(limits=Limit(3))


def test_true_is_no_number_and_a_whole_number_is_a_float() -> None:
    check_type("factor", 2, float)

    for wanted in (int, float, timedelta):
        with pytest.raises(InvalidOption, match="not bool; pass a "):
            check_type("factor", True, wanted)  # noqa: FBT003 -- the value is the point


def test_a_long_text_is_not_repeated_whole() -> None:
    with pytest.raises(InvalidOption) as refused:
        check_type("delay", "x" * 1000, timedelta)

    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("most", "remedy"), [(-1, "pass 0 to let nothing start"), (10_001, "pass a smaller number")]
)
def test_a_limit_out_of_range_is_told_which_way_to_go(most: int, remedy: str) -> None:
    with pytest.raises(InvalidOption, match=remedy):
        Limit(most)
