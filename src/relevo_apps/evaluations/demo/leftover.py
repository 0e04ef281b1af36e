"""Know a process again by its pid: a number alone may be somebody else's by now."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

_ENDS_WITHIN: Final = 45.0
_LOOK_EVERY: Final = 0.05
_STARTED: Final = 19
"""Where in /proc/PID/stat the start stands, counted after the name of the program."""


def record(pid: int, file: Path) -> None:
    """Write down which process this is.

    Args:
        pid: A process of ours that runs.
        file: Where to.
    """
    file.write_text(f"{pid} {_birth(pid)}\n", encoding="ascii")


def end(file: Path) -> None:
    """End the recorded process if it still is that process; wait until it has gone.

    Args:
        file: What `record` wrote; nothing happens where it is missing.
    """
    try:
        number, _blank, birth = file.read_text(encoding="ascii").strip().partition(" ")
        pid = int(number)
    except (OSError, ValueError):
        return
    wanted = signal.SIGTERM
    until = time.monotonic() + _ENDS_WITHIN
    while birth and _birth(pid) == birth:
        os.kill(pid, wanted)
        while _birth(pid) == birth and time.monotonic() < until:
            time.sleep(_LOOK_EVERY)
        wanted, until = signal.SIGKILL, time.monotonic() + _ENDS_WITHIN


def _birth(pid: int) -> str:
    """Answer when the process started, in the words of its system; empty where there is none."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            return ""
        return "" if fields[0] == "Z" else fields[_STARTED]
    ended = subprocess.run(  # noqa: S603 -- a number is all that it is given
        ["ps", "-o", "lstart=", "-p", str(pid)],  # noqa: S607 -- the system's own
        capture_output=True,
        text=True,
        check=False,
    )
    return "-".join(ended.stdout.split())
