"""How one enqueue differs from what its kind says, refused before any SQL where it makes no sense.

The values are checked one by one and with each other; no row is looked at.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec

from relevo.model.checks import check_name, check_positive, check_type, refuse
from relevo.model.job import KeyMode
from relevo.model.kind import check_max_attempts, check_priority
from relevo.model.text import clean_text

MAX_HEADERS_BYTES: Final = 8 * 1024
MAX_KEY: Final = 512
"""Characters."""

MAX_DURATION: Final = timedelta(days=36525)


@dataclass(frozen=True, slots=True)
class Options:
    """How one enqueue differs from what its kind says.

    Attributes:
        tenant_id: Whose job; needed where the application serves several tenants.
        aggregate_id: What the job is about: a cycle, an order, a loan.
        key: Refuses a second job of the same kind and tenant with this key.
        key_mode: How long it does so.
        key_for: With `KeyMode.ALWAYS`, when the key is free again.
        available_at: Not before this time, by the database's clock.
        delay: Not before so long after now, or after `available_at`.
        priority: From 0 (first) to 3 (last).
        max_attempts: How many starts count, from 1.
        queue: Another queue than the kind's.
        actor: Who asked for it, shown with the job.
        lane_key: Jobs of the kind and tenant that share it queue up in one lane, which may
            have limits or an order of its own: an account, a customer.
        headers: What travels with the job, such as ``traceparent``; not part of the payload.

    Raises:
        InvalidOption: A value is of another type, or makes no sense.
    """

    tenant_id: UUID | None = None
    aggregate_id: str | None = None
    key: str | None = None
    key_mode: KeyMode = KeyMode.ALWAYS
    key_for: timedelta | None = None
    available_at: datetime | None = None
    delay: timedelta = timedelta(0)
    priority: int | None = None
    max_attempts: int | None = None
    queue: str | None = None
    actor: str | None = None
    lane_key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse values that the table would refuse later."""
        if self.tenant_id is not None:
            check_type("tenant_id", self.tenant_id, UUID)
        if self.priority is not None:
            check_priority(self.priority)
        if self.max_attempts is not None:
            check_max_attempts(self.max_attempts)
        if self.queue is not None:
            check_name("queue", self.queue)
        self._check_key()
        check_key(self.lane_key, "lane_key")
        self._check_times()
        for option in ("aggregate_id", "actor"):
            check_text(option, getattr(self, option))
        _check_headers(self.headers)

    def _check_key(self) -> None:
        check_key(self.key)
        check_type("key_mode", self.key_mode, KeyMode)
        if self.key_for is not None:
            check_positive("key_for", self.key_for)
            _check_duration("key_for", self.key_for)
            if self.key_mode is not KeyMode.ALWAYS:
                refuse(
                    "key_for", str(self.key_for), "only a key of KeyMode.ALWAYS expires", "drop it"
                )

    def _check_times(self) -> None:
        if self.available_at is not None:
            _check_moment("available_at", self.available_at)
        check_type("delay", self.delay, timedelta)
        if self.delay < timedelta(0):
            refuse("delay", str(self.delay), "it is negative", "pass zero or more")
        _check_duration("delay", self.delay)


_NAMES: Final = tuple(each.name for each in fields(Options))


def check_names(names: Iterable[str]) -> None:
    """Refuse an option that does not exist."""
    for name in names:
        if name not in _NAMES:
            refuse("option", name, "there is none of that name", f"pass one of {', '.join(_NAMES)}")


def check_key(key: str | None, option: str = "key") -> None:
    """Refuse a key that the table could not hold."""
    check_text(option, key)
    if key is not None and not 0 < len(key) <= MAX_KEY:
        refuse(option, key[:40], f"it has 1 to {MAX_KEY} characters", "shorten it")


def check_text(option: str, text: str | None) -> None:
    """Refuse what is no text, or has a character that PostgreSQL does not have."""
    if text is None:
        return
    check_type(option, text, str)
    if clean_text(text) != text:
        refuse(option, text[:40], "PostgreSQL cannot hold one of its characters", "remove it")


def _check_moment(option: str, value: datetime) -> None:
    check_type(option, value, datetime)
    if value.tzinfo is None:
        refuse(option, value, "it has no time zone", "pass an aware datetime")


def _check_duration(option: str, value: timedelta) -> None:
    if value > MAX_DURATION:
        refuse(option, str(value), "it is longer than a hundred years", "pass a shorter time")


def _check_headers(headers: Mapping[str, str]) -> None:
    if not isinstance(headers, Mapping):
        refuse("headers", type(headers).__name__, "they are a mapping", "pass a dict of texts")
    parts: list[object] = [*headers, *headers.values()]
    for part in parts:
        if not isinstance(part, str):
            refuse("headers", type(part).__name__, "names and values are text", "pass text")
        else:
            check_text("headers", part)
    if len(msgspec.json.encode(headers)) > MAX_HEADERS_BYTES:
        refuse("headers", "…", f"they have over {MAX_HEADERS_BYTES} bytes", "send fewer")
