"""How long statements wait for locks, as the server sees it."""

import threading
import time
from typing import Self

import psycopg

EVERY = 0.01

# Since when each of them waits is the server's own word, so a wait is measured short by no more
# than the time from the last look to its end.
WAITING = """
SELECT a.application_name, extract(epoch FROM clock_timestamp() - l.waitstart)::float8
FROM pg_locks AS l
JOIN pg_stat_activity AS a
    ON a.pid = l.pid
WHERE NOT l.granted
  AND l.waitstart IS NOT NULL
  AND a.datname = current_database()
"""


class Stalls:
    """Looks who waits, all the time that it is entered.

    Attributes:
        claims: The longest wait of a claim, in seconds.
        others: The longest of an enqueue, an end, a heartbeat or whatever else flows.
        gap: The longest time between two looks.
        looks: How many there were.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, name="stalls")
        self.claims = self.others = self.gap = 0.0
        self.looks = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as owner:
            looked_at = time.monotonic()
            while not self._stop.wait(EVERY):
                for program, seconds in owner.execute(WAITING).fetchall():
                    if program.startswith("relevo claim "):
                        self.claims = max(self.claims, seconds or 0.0)
                    elif program.startswith(("relevo ", "enqueuer ")):
                        self.others = max(self.others, seconds or 0.0)
                self.looks += 1
                now = time.monotonic()
                self.gap, looked_at = max(self.gap, now - looked_at), now
