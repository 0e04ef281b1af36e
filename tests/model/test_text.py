"""Errors of handlers become text that a row can hold, whatever they are."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from relevo.model.text import MAX_ERROR_BYTES, clean_text, describe_error, fit_error, trace_error


@given(st.text(st.characters()))
@example("half \ud800 pair, \0 and 𝄞")
def test_cleaned_text_fits_postgresql_and_loses_nothing_else(text: str) -> None:
    cleaned = clean_text(text)

    cleaned.encode()
    assert "\0" not in cleaned
    assert len(cleaned) == len(text)
    assert all(
        kept == given or (kept == "\ufffd" and (given == "\0" or "\ud800" <= given <= "\udfff"))
        for kept, given in zip(cleaned, text, strict=True)
    )


@given(st.text(st.characters(), max_size=400), st.integers(100, 300))
def test_a_fitted_error_has_at_most_so_many_bytes_and_says_when_it_was_cut(
    text: str, limit: int
) -> None:
    fitted = fit_error(text, limit)

    assert len(fitted.encode()) <= limit
    assert fitted == clean_text(text) or fitted.endswith(
        f"[truncated, {len(text)} characters in all]"
    )


def test_an_error_is_its_type_and_message() -> None:
    assert describe_error(ValueError("no such order")) == "ValueError: no such order"
    assert describe_error(ValueError()) == "ValueError"


class BrokenError(Exception):
    def __str__(self) -> str:
        msg = "cannot even say so"
        raise RuntimeError(msg)


def test_an_error_whose_message_cannot_be_read_is_described_all_the_same() -> None:
    assert "RuntimeError" in describe_error(BrokenError())
    assert trace_error(BrokenError()).startswith("BrokenError")


class NoTextError(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]  # noqa: PLE0307 -- a broken class is the test


@pytest.mark.parametrize("error", [NoTextError(), ExceptionGroup("many", [ValueError("x")] * 99)])
def test_no_exception_escapes_the_description(error: BaseException) -> None:
    assert describe_error(error)
    assert len(trace_error(error).encode()) <= MAX_ERROR_BYTES


def test_a_trace_keeps_the_line_first_and_the_innermost_frames() -> None:
    try:
        int("x" * 20_000)
    except ValueError as error:
        text = trace_error(error)

    assert text.startswith("ValueError: ")
    assert len(text.encode()) <= MAX_ERROR_BYTES


def deep(level: int) -> None:
    if level == 0:
        msg = "at the bottom"
        raise LookupError(msg)
    deep(level - 1)


def test_a_deep_trace_is_cut_to_its_innermost_frames() -> None:
    try:
        deep(200)
    except LookupError as error:
        text = trace_error(error)

    assert text.startswith("LookupError: at the bottom\n")
    assert "raise LookupError" in text
    assert len(text.encode()) <= MAX_ERROR_BYTES
