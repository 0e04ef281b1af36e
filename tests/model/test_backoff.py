"""How long a failed job waits: the presets as tables, the rule as properties."""

from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relevo import DELIVERY, STANDARD, Backoff
from relevo.model.backoff import DEFAULT_MAX_ATTEMPTS
from relevo.model.errors import InvalidBackoff

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def test_a_delivery_waits_20_40_80_160_and_300_seconds() -> None:
    waits = [DELIVERY.delay(start) for start in range(1, DEFAULT_MAX_ATTEMPTS)]

    assert waits == [seconds * SECOND for seconds in (20, 40, 80, 160, 300)]


def test_standard_work_waits_2_4_8_16_and_32_minutes() -> None:
    waits = [STANDARD.delay(start) for start in range(1, DEFAULT_MAX_ATTEMPTS)]

    assert waits == [minutes * MINUTE for minutes in (2, 4, 8, 16, 32)]


def test_both_presets_retry_five_times_without_jitter() -> None:
    assert DEFAULT_MAX_ATTEMPTS == 6
    assert DELIVERY.jitter == STANDARD.jitter == 0


@pytest.mark.parametrize("preset", [DELIVERY, STANDARD])
@given(failures=st.integers(1, 10**9))
def test_a_preset_never_waits_longer_than_its_cap(preset: Backoff, failures: int) -> None:
    assert timedelta(0) < preset.delay(failures) <= preset.cap


@st.composite
def backoffs(draw: st.DrawFn, jitter: float | None = None) -> Backoff:
    cap = draw(st.timedeltas(timedelta(microseconds=1), timedelta(days=3650)))
    base = draw(st.timedeltas(timedelta(microseconds=1), cap))
    factor = draw(st.floats(1, 1e300, allow_nan=False, allow_infinity=False))
    share = draw(st.floats(0, 1, exclude_max=True)) if jitter is None else jitter
    return Backoff(base, factor, cap, share)


@given(rule=backoffs(jitter=0.0), failures=st.integers(1, 10**6))
def test_without_jitter_waits_never_shrink_and_end_at_the_cap(rule: Backoff, failures: int) -> None:
    first, second = rule.delay(failures), rule.delay(failures + 1)

    assert timedelta(0) < first <= second <= rule.cap
    assert rule.delay(1) == rule.base


@given(rule=backoffs(), failures=st.integers(1, 10**6), seed=st.integers())
def test_jitter_takes_off_at_most_its_share_and_never_all(
    rule: Backoff, failures: int, seed: int
) -> None:
    plain = rule.delay(failures)

    wait = rule.delay(failures, Random(seed))  # noqa: S311 -- a seed makes the test repeatable

    assert timedelta(0) < wait <= plain
    assert wait >= plain * (1 - rule.jitter) - timedelta(microseconds=1)


@pytest.mark.parametrize(
    "values",
    [
        {"base": timedelta(0)},
        {"base": -SECOND},
        {"base": timedelta(hours=1), "cap": MINUTE},
        {"base": SECOND, "factor": 0.5},
        {"base": SECOND, "factor": float("nan")},
        {"base": SECOND, "factor": float("inf")},
        {"base": SECOND, "jitter": 1.0},
        {"base": SECOND, "jitter": -0.1},
        {"base": SECOND, "jitter": float("nan")},
    ],
    ids=str,
)
def test_a_rule_that_would_never_wait_or_never_end_is_refused(values: dict) -> None:
    with pytest.raises(InvalidBackoff):
        Backoff(**values)
