"""Threads for handlers that are plain functions.

They are daemons: a handler that never returns cannot keep the process from ending,
its job has been handed back by then.
"""

import queue
import threading
from collections.abc import Callable


class ThreadPool:
    """At most `size` threads, started when needed, each running one call at a time."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)

    def submit(self, call: Callable[[], None]) -> None:
        """Run a call, which handles its own errors, on a free thread.

        Raises:
            RuntimeError: The system starts no thread at the moment; the call is forgotten.
        """
        if not self._idle.acquire(blocking=False) and len(self._threads) < self._size:
            name = f"relevo-handler-{len(self._threads) + 1}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        # Only now: a call that no thread comes for would be run much later, or never.
        self._calls.put(call)

    def close(self) -> None:
        """Let idle threads end; a busy one ends after its call."""
        for _ in self._threads:
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            self._idle.release()
