"""A duration is read as people write it, or refused with how to write it."""

from datetime import timedelta

import click
import pytest

from relevo.cli.durations import Duration, write_duration


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("30", timedelta(seconds=30)),
        ("30s", timedelta(seconds=30)),
        ("500ms", timedelta(milliseconds=500)),
        ("2 M", timedelta(minutes=2)),
        ("1.5h", timedelta(minutes=90)),
    ],
)
def test_what_people_write_is_read(written: str, read: timedelta) -> None:
    assert Duration().convert(written, None, None) == read


@pytest.mark.parametrize("written", ["", "soon", "-1s", "0", "1d", "9" * 30 + "h", "9" * 400])
def test_what_is_no_duration_is_refused_and_says_how_to_write_one(written: str) -> None:
    with pytest.raises(click.BadParameter, match="write it like"):
        Duration().convert(written, None, None)


def test_zero_is_read_where_it_makes_sense() -> None:
    assert Duration(zero=True).convert("0", None, None) == timedelta(0)


def test_a_span_below_the_least_is_refused_with_the_least() -> None:
    second = Duration(least=timedelta(seconds=1))

    assert second.convert("1s", None, None) == timedelta(seconds=1)
    with pytest.raises(click.BadParameter, match="'999ms' is too short; pass 1s or more"):
        second.convert("999ms", None, None)


@pytest.mark.parametrize("span", ["90s", "2m", "1h", "500ms"])
def test_what_is_written_reads_the_same(span: str) -> None:
    assert write_duration(Duration().convert(span, None, None)) == span
