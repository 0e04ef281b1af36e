"""Log lines of a worker, on stderr, for people or for machines."""

import logging
import sys
from textwrap import indent
from typing import Final

from relevo.cli.printing import clean
from relevo.telemetry.logs import FIELDS, JsonFormatter

FORMATS: Final = ("text", "json")


class TextFormatter(logging.Formatter):
    """One line for a person: time, level, text, and the job it is about.

    Args:
        process: Whose line it is, where several processes write to one place.
    """

    default_msec_format = "%s.%03d"

    def __init__(self, process: str | None = None) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """Write one record."""
        about = " ".join(
            f"{name}={value}" for name in FIELDS if (value := record.__dict__.get(name)) is not None
        )
        # One line, whatever an error of a handler says: nobody forges a line of the log.
        text = clean(record.getMessage()).replace("\n", "\\x0a")
        said_by = f"{self._process}: " if self._process is not None else ""
        head = f"{self.formatTime(record)} {record.levelname:<7} {said_by}{text}"
        line = f"{head} [{clean(about)}]" if about else head
        if record.exc_info:
            line = f"{line}\n{indent(clean(self.formatException(record.exc_info)), '    ')}"
        return line


def log_to_stderr(written: str, process: str | None = None) -> None:
    """Send the log lines of this process to stderr.

    Args:
        written: One of `FORMATS`.
        process: What every line says that it comes from, where several processes share stderr.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(process) if written == "json" else TextFormatter(process))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # A pool says on every retry what the worker's own loops say once.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
