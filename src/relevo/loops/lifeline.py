"""What ties a worker process to the parent that started it.

A line from the parent: a word on it asks for a graceful stop, and its end says that the
parent has gone, by whatever it was. Then the worker stops by itself, as a process without
a parent would run on unseen.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable
from typing import Final, Self

from relevo.loops.settings import EXIT_HUNG

_LOG: Final = logging.getLogger("relevo.worker")

VARIABLE: Final = "RELEVO_LIFELINE"
"""How a parent tells a child its end of the line and its name; not for people."""

STOP: Final = b"s"
READY: Final = b"r"


class Lifeline:
    """The end that a child holds.

    Args:
        line: The child's end.
        name: What the parent calls this process.
    """

    def __init__(self, line: socket.socket, name: str) -> None:
        self.name = name
        self._line = line
        self._lock = threading.Lock()
        self._stop: Callable[[], None] | None = None
        self._bound = 0.0

    @classmethod
    def take(cls) -> Self | None:
        """Take the line that this process was given, and watch it; None where there is no parent.

        It is taken out of the environment: a process that a handler starts is no worker.

        Raises:
            OSError: There is no such line.
        """
        number, colon, name = os.environ.pop(VARIABLE, "").partition(":")
        if not colon or not number.isdecimal():
            return None
        os.set_inheritable(int(number), False)  # noqa: FBT003 -- its own signature
        lifeline = cls(socket.socket(fileno=int(number)), name)
        threading.Thread(target=lifeline._watch, name="relevo-lifeline", daemon=True).start()
        return lifeline

    def attach(self, stop: Callable[[], None], bound: float) -> None:
        """From now on ask for a stop instead of ending the process.

        Args:
            stop: Asks for a graceful stop; called from another thread, perhaps twice.
            bound: How many seconds the stop may take once the parent has gone.
        """
        with self._lock:
            self._stop, self._bound = stop, bound

    def say_ready(self) -> None:
        """Tell the parent that this process serves."""
        try:
            self._line.sendall(READY)
        except OSError:
            # It has gone, and whoever watches the line knows.
            _LOG.debug("nobody hears that this process serves")

    def _watch(self) -> None:
        while self._hear():
            self._ask()
        _LOG.warning("the parent process has gone, so this worker stops")
        self._ask()
        # Its handlers may be stuck; nobody is left to end it but itself.
        threading.Event().wait(self._bound)
        _LOG.critical("the stop takes too long, the process ends")
        os._exit(EXIT_HUNG)

    def _hear(self) -> bool:
        """Wait for a word; answer False where the parent has gone."""
        try:
            return bool(self._line.recv(64))
        except OSError:
            return False

    def _ask(self) -> None:
        with self._lock:
            if self._stop is None:
                # Nothing has begun, so there is nothing to end well.
                os._exit(0)
        self._stop()
