"""What processes cost, as the kernel counts it; and the processes that drivers run in."""

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from harness.contenders import Contender
from peers.board import Board

SOURCES: Final = Path(__file__).parents[2] / "src"
_TICK: Final = os.sysconf("SC_CLK_TCK")
_MEGABYTE: Final = 1024


class DriverFailed(Exception):
    """A driver's process ended, or did not answer in time; the text is its last line."""


def cpu_of(pids: Iterable[int]) -> float:
    """Answer the seconds that processes have computed so far; those that are gone count nothing."""
    total = 0.0
    for pid in pids:
        try:
            # The CPU clock of another process, by Linux's numbering: nanoseconds, not ticks.
            total += time.clock_gettime((~pid << 3) | 2)
        except OSError:
            continue
    return total


def reaped_cpu_of(pid: int) -> float:
    """Answer the seconds that children of a process have computed which have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[13]) + int(fields[14])) / _TICK


def family_of(pid: int) -> list[int]:
    """Answer a process and everything that it has started."""
    found = [pid]
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text(encoding="ascii").split():
                found += family_of(int(child))
    except OSError:
        pass
    return found


def peak_memory_of(pids: Iterable[int]) -> float:
    """Answer the most memory that processes have held, in MB."""
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return total / _MEGABYTE


class Drivers:
    """Starts the processes of one contender's driver.

    Args:
        contender: Whose.
        python: What they run on.
        folder: Where they leave their logs.
    """

    def __init__(self, contender: Contender, python: Path, folder: Path) -> None:
        self._contender = contender
        self._python = python
        self._log = folder / f"{contender.name}.log"

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start one; its stdin and stdout are pipes."""
        environment = {**os.environ, "PYTHONPATH": str(SOURCES), **self._contender.variables}
        with self._log.open("w", encoding="utf-8") as log:
            return subprocess.Popen(  # noqa: S603 -- our own driver
                [str(self._python), str(self._contender.driver), *words],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
                start_new_session=True,
            )

    def install(self, dsn: str, patience: float) -> None:
        """Make the contender's schema.

        Raises:
            DriverFailed: It did not.
        """
        process = self.start("install", dsn)
        try:
            code = process.wait(patience)
        except subprocess.TimeoutExpired:
            code = None
        end(process)
        if code != 0:
            raise DriverFailed(self.why())

    def why(self) -> str:
        """Answer the last thing that a driver said on stderr."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "it ended, or did not answer in time, and said nothing"


class Producer:
    """A process that adds jobs as it is told."""

    def __init__(self, drivers: Drivers, dsn: str, patience: float) -> None:
        self._drivers = drivers
        self._patience = patience
        self._process = drivers.start("produce", dsn)
        self.about: Mapping[str, Any] = self._answer(patience)

    def tell(self, verb: str, numbers: range, patience: float = 0, **more: float) -> Any:
        """Have jobs of these numbers added; answer what the driver says of it.

        Raises:
            DriverFailed: It ended, or took longer than `patience` seconds more than it may.
        """
        assert self._process.stdin is not None
        told = {"verb": verb, "first": numbers.start, "count": len(numbers), **more}
        try:
            self._process.stdin.write(json.dumps(told) + "\n")
        except OSError as error:
            raise DriverFailed(self._drivers.why()) from error
        return self._answer(self._patience + patience)

    def close(self) -> None:
        """End it."""
        end(self._process)

    def _answer(self, patience: float) -> Any:
        assert self._process.stdout is not None
        # One line is one answer, so nothing of it waits in a buffer when there is none.
        readable, _, _ = select.select([self._process.stdout], [], [], patience)
        line = self._process.stdout.readline() if readable else ""
        if not line:
            self.close()
            raise DriverFailed(self._drivers.why())
        return json.loads(line)


class Worker:
    """A process that runs jobs, and the board that it writes on."""

    def __init__(self, drivers: Drivers, dsn: str, path: Path, jobs: int) -> None:
        self._drivers = drivers
        self.board = Board(path, jobs)
        self._process = drivers.start("work", dsn, str(path))

    @property
    def pids(self) -> list[int]:
        """The process and everything that it has started."""
        return family_of(self._process.pid)

    def check(self) -> None:
        """Refuse a worker that has ended."""
        if self._process.poll() is not None:
            raise DriverFailed(self._drivers.why())

    def close(self) -> None:
        """Kill it, as a crash would."""
        end(self._process)


def end(process: "subprocess.Popen[str]") -> None:
    """Kill a process that we started, with all that it started: the session is its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
