"""Keep the worker's session alive, on a thread and a connection of its own.

Neither a handler that blocks nor the engine's loop can keep it from beating. It never
ends a session: the deletion of its row does, and then a new one begins under a new id.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from math import inf
from typing import Final

import psycopg

from relevo.db.connect import answering, with_patience
from relevo.db.drivers import run
from relevo.db.pooler import fit
from relevo.engine.jobs import session
from relevo.loops.settings import WorkerSettings
from relevo.loops.supervise import Pulse
from relevo.loops.waits import Waits
from relevo.version import VERSION

_LOG: Final = logging.getLogger("relevo.worker")

RECONNECT_AFTER: Final = 0.5
RECONNECT_AT_MOST: Final = 2.0

LAST_BEAT: Final = 10.0
"""So many seconds a stop waits for the beat under way; the watch of the engine is more patient."""

LEAST_WAIT: Final = 1.0
"""An answer may take so many seconds though the lease is shorter than twice that."""


class Heartbeat:
    """The session of one worker process.

    Args:
        settings: The worker's settings.
        dsn: Where to connect, role and settings included.
        kinds: The kinds that the worker serves.
        opened: Called when a session begins.
        ended: Called with the id of a session that has ended under the worker.

    Attributes:
        failed_at: When a beat last failed, by this process's monotonic clock.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        dsn: str,
        kinds: Sequence[str],
        opened: Callable[[], None],
        ended: Callable[[int], None],
    ) -> None:
        self._settings = settings
        self._dsn = with_patience(dsn)
        self._kinds = kinds
        self._opened = opened
        self._ended = ended
        self._lease = settings.lease.total_seconds()
        self._connection: psycopg.Connection | None = None
        self._stop = threading.Event()
        self._proved_at = 0.0
        self.failed_at = -inf
        self.worker: int | None = None
        self.pulse = Pulse("heartbeat", limit=self._lease * 2 + 15)
        self._thread = threading.Thread(target=self._run, name="relevo-heartbeat", daemon=True)

    def start(self) -> None:
        """Open a session and keep it."""
        self._thread.start()

    def is_proved(self) -> bool:
        """Whether the lease can still be relied on, counted from when its renewal was sent."""
        return self.worker is not None and time.monotonic() - self._proved_at < self._lease

    def is_alive(self) -> bool:
        """Whether the thread runs and goes on."""
        return self._thread.is_alive() and not self.pulse.is_silent()

    def stop(self) -> int | None:
        """Stop renewing; answer the session that is now to be closed."""
        self._stop.set()
        # A beat under way may wait for its answer; it is the last one in any case.
        self._thread.join(min(self._lease, LAST_BEAT))
        return self.worker

    def _run(self) -> None:
        # Always within a lease: for so long others leave the jobs alone after an outage of all.
        waits = Waits(
            min(RECONNECT_AFTER, self._lease / 3), min(RECONNECT_AT_MOST, self._lease * 0.75)
        )
        while not self._stop.is_set():
            self.pulse.beat()
            wait = self._lease / 3
            try:
                self._beat()
                waits.begin_anew()
            except Exception as error:  # noqa: BLE001 -- whatever it was, the lease has to be renewed
                _LOG.warning("heartbeat waits for the database: %s", " ".join(str(error).split()))
                self.failed_at = time.monotonic()
                self._drop()
                wait = waits.next()
            self._stop.wait(wait)
        self._drop()

    def _beat(self) -> None:
        if self._connection is None:
            self._connection = psycopg.connect(self._dsn, autocommit=True)
            with answering(self._connection, max(LEAST_WAIT, self._lease / 2)):
                fit(self._connection)
        sent_at = time.monotonic()
        with answering(self._connection, max(LEAST_WAIT, self._lease / 2)):
            self._renew(self._connection)
        self._proved_at = sent_at

    def _renew(self, connection: psycopg.Connection) -> None:
        if self.worker is not None and not run(connection, session.renew(self.worker, self._lease)):
            ended, self.worker = self.worker, None
            _LOG.warning("session %s has ended, its jobs belong to others now", ended)
            self._ended(ended)
        if self.worker is None:
            self.worker = run(
                connection,
                session.open_session(
                    self._settings.name,
                    queues=self._settings.queues,
                    kinds=self._kinds,
                    concurrency=self._settings.concurrency,
                    version=VERSION,
                    lease=self._lease,
                ),
            )
            # The number that `jobs show` has for each start, beside the name that people know.
            _LOG.info("session %s begins for worker %s", self.worker, self._settings.name)
            self._opened()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
