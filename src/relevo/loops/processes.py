"""Keep some worker processes alive from one small parent: start, start again, stop.

The parent runs no job and speaks to no database. To each child it holds one end of a
line: a word on it asks for a graceful stop, and its end tells a child that the parent has
gone, however that came about. A stop travels on the line and not as a signal, because
terminals and service managers signal the children as well, and a child's second signal
ends it at once.
"""

import logging
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from relevo.loops.lifeline import READY, STOP, VARIABLE
from relevo.model.backoff import Backoff

_LOG: Final = logging.getLogger("relevo.worker")

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

RESTART: Final = Backoff(base=timedelta(seconds=0.5), factor=2, cap=timedelta(seconds=30))

STEADY: Final = 10.0
"""A child that has served for so many seconds did not die at once."""

PATIENCE: Final = 5
"""When every child has died at once so many times in a row, another try would not help."""

HOPELESS: Final = frozenset({2, 4})
"""Codes that a new start does not change: wrong arguments, and a database that is a copy."""

_KILLED: Final = 128
"""What shells add to the number of the signal that ended a process."""

_WELL: Final = frozenset(
    {0, *(-number for number in STOP_SIGNALS), *(_KILLED + number for number in STOP_SIGNALS)}
)
"""How a child may end once a stop was asked for: a signal may have met it before it served."""

_LOOK: Final = 1.0
_GOODBYE: Final = 5.0


@dataclass(frozen=True, slots=True)
class Ending:
    """How the processes ended.

    Attributes:
        code: The exit code of the whole: 0 where every child ended well.
        gave_up: Whether children could not be kept alive.
        at_once: Whether a second signal ended them in the middle of their work.
    """

    code: int
    gave_up: bool = False
    at_once: bool = False


@dataclass(slots=True)
class _Child:
    """One place among the processes, and who holds it at the moment."""

    name: str
    process: "subprocess.Popen[bytes] | None" = None
    line: socket.socket | None = None
    ready_at: float | None = None
    start_at: float = 0.0
    failures: int = 0
    was_ready: bool = False
    is_done: bool = False

    def is_failing(self, now: float, steady: float) -> bool:
        """Whether it has died at once too often, and does not do better at this moment."""
        runs = self.process is not None
        if runs and self.ready_at is not None and now - self.ready_at >= steady:
            return False
        return self.failures >= PATIENCE


class Processes:
    """Runs one command in several child processes until a stop is asked for.

    Only the main thread can run it: it takes the signals that end a process.

    Args:
        command: The program and its arguments, the same for every child.
        names: What the children are called, one each.
        until_done: Whether a child that ends well is not started again.
        on_ready: Called once, when every child has said that it serves.
        on_stop: Called when a stop was asked for.
        restart: How long a child's place stays empty after each failure in a row.
        steady: After how many seconds of serving an end is no failure in a row.
    """

    def __init__(
        self,
        command: Sequence[str],
        names: Sequence[str],
        *,
        until_done: bool,
        on_ready: Callable[[], None],
        on_stop: Callable[[], None],
        restart: Backoff = RESTART,
        steady: float = STEADY,
    ) -> None:
        self._command = list(command)
        self._children = [_Child(name) for name in names]
        self._until_done = until_done
        self._on_ready = on_ready
        self._on_stop = on_stop
        self._restart = restart
        self._steady = steady
        self._signals: list[int] = []
        self._is_ready = False
        self._stopping = False
        self._code = 0
        self._gave_up = False
        self._selector = selectors.DefaultSelector()
        self._wakings, self._waker = socket.socketpair()

    def run(self) -> Ending:
        """Start the children and keep them until all have ended; no child outlives the call."""
        with self._selector, self._awake():
            try:
                while not self._is_over():
                    self._start_due()
                    self._wait()
                    self._hear()
                    self._reap()
                    if len(self._signals) > 1:
                        return Ending(_KILLED + self._signals[1], at_once=True)
                    if self._signals and not self._stopping:
                        self._stop()
                        self._on_stop()
                return Ending(self._code, self._gave_up)
            finally:
                self._kill()

    def _is_over(self) -> bool:
        if any(child.process is not None for child in self._children):
            return False
        return self._stopping or all(child.is_done for child in self._children)

    def _wait(self) -> None:
        """Wait for a signal, a child's word or end, or the next start."""
        now = time.monotonic()
        empty = [each for each in self._children if each.process is None and not each.is_done]
        waits = [] if self._stopping else [child.start_at - now for child in empty]
        self._selector.select(max(0.0, min([*waits, _LOOK])))
        while _read(self._wakings):
            pass

    def _start_due(self) -> None:
        for child in self._children:
            due = child.process is None and not child.is_done and child.start_at <= time.monotonic()
            if due and not self._stopping and not self._signals:
                self._start(child)

    def _start(self, child: _Child) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(0)
        with theirs:
            number = theirs.fileno()
            try:
                process = subprocess.Popen(  # noqa: S603 -- the command that we are ourselves
                    self._command,
                    env={**os.environ, VARIABLE: f"{number}:{child.name}"},
                    pass_fds=(number,),
                    # Several readers of one terminal would share its keys among them.
                    stdin=subprocess.DEVNULL,
                )
            except OSError as error:
                ours.close()
                child.ready_at = None
                self._failed(child, 1, f"no start: {error}")
                return
        child.process, child.line, child.ready_at = process, ours, None
        self._selector.register(ours, selectors.EVENT_READ)
        _LOG.info("process %s started, pid %d", child.name, process.pid)

    def _hear(self) -> None:
        """Note which children say that they serve."""
        for child in self._children:
            while child.line is not None and (word := _read(child.line)) is not None:
                if READY in word:
                    child.ready_at = time.monotonic()
                    child.was_ready = True
                elif not word:
                    self._hang_up(child)
        if not self._is_ready and all(child.was_ready for child in self._children):
            self._is_ready = True
            self._on_ready()

    def _reap(self) -> None:
        for child in self._children:
            if child.process is None or (code := child.process.poll()) is None:
                continue
            child.process = None
            self._hang_up(child)
            if self._stopping or self._signals:
                _LOG.info("process %s ended with %s", child.name, _say(code))
                if code not in _WELL:
                    self._code = self._code or _as_shells_do(code)
            elif self._until_done and code == 0:
                _LOG.info("process %s ended with %s", child.name, _say(code))
                child.is_done = True
            else:
                self._failed(child, code, _say(code))

    def _failed(self, child: _Child, code: int, said: str) -> None:
        """Decide what an end that nobody asked for leads to."""
        now = time.monotonic()
        served = child.ready_at is not None and now - child.ready_at >= self._steady
        child.failures = 1 if served else child.failures + 1
        wait = self._restart.delay(child.failures).total_seconds()
        child.start_at = now + wait
        others = [each for each in self._children if not each.is_done]
        # A handler may end its process with any code; only a start's own code says something.
        hopeless = code in HOPELESS and child.ready_at is None
        if hopeless or all(each.is_failing(now, self._steady) for each in others):
            _LOG.error("process %s ended with %s, giving up", child.name, said)
            self._code, self._gave_up = _as_shells_do(code) or 1, True
            self._stop()
            return
        _LOG.warning(
            "process %s ended with %s, starting it again in %.1f s", child.name, said, wait
        )

    def _stop(self) -> None:
        """Ask every child to end in its own time."""
        self._stopping = True
        for child in self._children:
            if child.line is not None:
                try:
                    child.line.send(STOP)
                except OSError:
                    # It is ending already, and has hung up first.
                    self._hang_up(child)

    def _kill(self) -> None:
        """End at once whoever is still there."""
        left = [child.process for child in self._children if child.process is not None]
        for process in left:
            process.kill()
        for process in left:
            # One that the kernel keeps is dead all the same once it lets go.
            with suppress(subprocess.TimeoutExpired):
                process.wait(_GOODBYE)
        for child in self._children:
            self._hang_up(child)

    def _hang_up(self, child: _Child) -> None:
        if child.line is not None:
            self._selector.unregister(child.line)
            child.line.close()
            child.line = None

    @contextmanager
    def _awake(self) -> Generator[None, None, None]:
        """Let signals, and the ends of children among them, end a wait."""
        for end in (self._wakings, self._waker):
            end.settimeout(0)
        self._selector.register(self._wakings, selectors.EVENT_READ)
        earlier = signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        handlers = {
            number: signal.signal(number, lambda each, _frame: self._signals.append(each))
            for number in STOP_SIGNALS
        }
        # A handler that does nothing: an ignored signal would wake nobody.
        handlers[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(earlier)
            self._wakings.close()
            self._waker.close()


def _read(line: socket.socket) -> bytes | None:
    """Answer what was said, nothing where the other end is closed, and None where it is silent."""
    try:
        return line.recv(64)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _say(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"signal {-code}"


def _as_shells_do(code: int) -> int:
    return code if code >= 0 else _KILLED - code
