"""Ids that are made in Python, so that every PostgreSQL and every shard agrees."""

import hashlib
import os
import time
from typing import Final
from uuid import UUID

DEFAULT_TENANT: Final = UUID("00000000-0000-0000-0000-000000000001")
"""The tenant `default`, for those who have no tenants."""

NO_LANE: Final = UUID(int=0)
"""The lane of every job whose kind asks for no order and no limit by key."""


def lane_of(kind: str, lane_key: str | None) -> UUID:
    """Answer the lane of a kind's jobs that share a key, as `relevo.lane_of` does in SQL.

    Args:
        kind: The kind's name.
        lane_key: What the lane is named after; None is the lane of all the others.
    """
    text = f"{kind}\x1f{lane_key or ''}".encode()
    return UUID(bytes=hashlib.sha256(text).digest()[:16])


def uuid7() -> UUID:
    """Make an id that sorts by the millisecond it was made (RFC 9562, version 7)."""
    stamp = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10))
    value = (stamp & 0xFFFF_FFFF_FFFF) << 80 | random & ~(0xF << 76) & ~(0x3 << 62)
    return UUID(int=value & ~(0xF << 76) | 0x7 << 76 | 0x2 << 62)
