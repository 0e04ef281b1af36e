"""Log lines of a worker, on stderr, for people or for machines."""

import logging
import sys
from textwrap import indent
from typing import Final

from relevo.cli.printing import clean
from relevo.telemetry.logs import FIELDS, JsonFormatter

FORMATS: Final = ("text", "json")


class TextFormatter(logging.Formatter):
    """One line for a person: time, level, text, and the job it is about."""

    default_msec_format = "%s.%03d"

    def format(self, record: logging.LogRecord) -> str:
        """Write one record."""
        about = " ".join(
            f"{name}={value}" for name in FIELDS if (value := record.__dict__.get(name)) is not None
        )
        # One line, whatever an error of a handler says: nobody forges a line of the log.
        text = clean(record.getMessage()).replace("\n", "\\x0a")
        head = f"{self.formatTime(record)} {record.levelname:<7} {text}"
        line = f"{head} [{clean(about)}]" if about else head
        if record.exc_info:
            line = f"{line}\n{indent(clean(self.formatException(record.exc_info)), '    ')}"
        return line


def log_to_stderr(written: str) -> None:
    """Send the log lines of this process to stderr.

    Args:
        written: One of `FORMATS`.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if written == "json" else TextFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # A pool says on every retry what the worker's own loops say once.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
