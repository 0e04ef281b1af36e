"""What a pause or a limit can be about."""

from enum import StrEnum


class Scope(StrEnum):
    """What a pause or a limit is about.

    `LANE` is for limits only: each lane of a kind, that is, its jobs with one lane key.
    """

    QUEUE = "queue"
    KIND = "kind"
    TENANT = "tenant"
    LANE = "lane"
