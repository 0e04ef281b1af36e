"""What a worker writes to stderr is one line for each record, whoever chose the words."""

import logging

import pytest

from relevo.cli.logs import TextFormatter
from relevo.telemetry.logs import JsonFormatter


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()], ids=["text", "json"])
def test_an_error_forges_no_line_of_the_log(formatter: logging.Formatter) -> None:
    error = "x\n2026-01-01 CRITICAL all is lost\r\x1b[31m"
    record = logging.LogRecord("relevo", logging.WARNING, "", 1, "failed: %s", (error,), None)

    written = formatter.format(record)

    assert len(written.splitlines()) == 1
    assert "\x1b" not in written


def test_the_lines_of_a_trace_are_set_in() -> None:
    error = ValueError("x\n2026-01-01 CRITICAL all is lost")
    trouble = (ValueError, error, None)
    record = logging.LogRecord("relevo", logging.ERROR, "", 1, "failed", (), trouble)

    _, *trace = TextFormatter().format(record).splitlines()

    assert trace
    assert all(line.startswith("    ") for line in trace)
