"""Log lines with the job they belong to; never a payload, never a secret.

The fields travel as `extra`, so that any formatter can show them; `JsonFormatter`
writes one JSON object a line, with control characters escaped by JSON itself.
"""

import json
import logging
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

FIELDS: Final = ("tenant_id", "job_id", "kind", "attempt", "queue")
"""The fields that relevo's lines may carry, in the order they are written."""


class _JobLogger(logging.LoggerAdapter[logging.Logger]):
    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **kwargs.get("extra", {})}
        return msg, kwargs


def job_logger(
    tenant_id: UUID, job_id: int, kind: str, attempt: int
) -> logging.LoggerAdapter[logging.Logger]:
    """Answer a logger whose lines carry the given job."""
    fields = {"tenant_id": str(tenant_id), "job_id": job_id, "kind": kind, "attempt": attempt}
    return _JobLogger(logging.getLogger("relevo.job"), fields)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, text, and the fields of the job.

    Args:
        process: Whose line it is, where several processes write to one place.
    """

    def __init__(self, process: str | None = None) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """Write one record."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "text": record.getMessage(),
        }
        if self._process is not None:
            line["process"] = self._process
        for name in FIELDS:
            value = record.__dict__.get(name)
            if value is not None:
                line[name] = value
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)
