"""Time how fast a producer adds jobs. The standard library only.

Drivers of other queues import this in environments where relevo's dependencies are missing.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Producer(Protocol):
    """Whoever adds jobs; each call has committed when it returns."""

    async def enqueue(self, number: int) -> None:
        """Add one job."""
        ...

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        """Add a job for each number, by the best way there is for many."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """What adding jobs took.

    Attributes:
        jobs: How many were added.
        seconds: How long it took.
        cpu: How long this process computed meanwhile, in seconds.
    """

    jobs: int
    seconds: float
    cpu: float

    @property
    def rate(self) -> float:
        """Jobs a second."""
        return self.jobs / self.seconds


async def add_singly(producer: Producer, numbers: range, limit: float) -> Pace:
    """Add jobs one call after the other, for at most `limit` seconds."""
    return await _add(producer, numbers, 1, limit)


async def add_in_bulk(producer: Producer, numbers: range, chunk: int, limit: float) -> Pace:
    """Add jobs by so many a call, for at most `limit` seconds."""
    return await _add(producer, numbers, chunk, limit)


async def add_spaced(producer: Producer, numbers: range, gap: float) -> dict[int, float]:
    """Add one job every `gap` seconds; answer when each call returned, by the monotonic clock."""
    returned = {}
    begun = time.monotonic()
    for place, number in enumerate(numbers):
        # A little off the beat, so that no poll of the other side keeps step with it.
        due = begun + (place + place * 0.618 % 1 / 2) * gap
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        await producer.enqueue(number)
        returned[number] = time.monotonic()
    return returned


def percentile(values: Sequence[float], percent: float) -> float:
    """Answer the smallest value that so many percent of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-percent * len(ordered) // 100) - 1)]


async def _add(producer: Producer, numbers: range, chunk: int, limit: float) -> Pace:
    done, cpu, begun = 0, time.process_time(), time.monotonic()
    while done < len(numbers) and time.monotonic() - begun < limit:
        part = numbers[done : done + chunk]
        await (producer.enqueue(part[0]) if chunk == 1 else producer.enqueue_many(part))
        done += len(part)
    return Pace(done, time.monotonic() - begun, time.process_time() - cpu)
