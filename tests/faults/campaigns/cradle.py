"""Bear worker processes by forking: all that they import is there, so a birth is cheap.

It obeys lines of JSON on its standard input, and everything that it bore ends with it. It
has one thread and no connection, so that a child begins with nothing of others in its hands.
"""

import ctypes
import json
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from faults.campaigns.kinds import load_app
from faults.evidence import Witness
from relevo import WorkerSettings

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Fork for each line, or wait for the end of a child; answer each with one line."""
    children: set[int] = set()
    try:
        for line in sys.stdin:
            order = json.loads(line)
            if order["do"] == "bear":
                answer = _bear(order)
                children.add(answer)
            else:
                answer = os.waitstatus_to_exitcode(os.waitpid(order["pid"], 0)[1])
                children.discard(order["pid"])
            sys.stdout.write(f"{answer}\n")
            sys.stdout.flush()
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)


def _bear(order: dict[str, Any]) -> int:
    parent = os.getpid()
    if pid := os.fork():
        return pid
    # From here on the child; whatever happens it must not come back to the loop above.
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        nothing = os.open(os.devnull, os.O_RDWR)
        for source, target in ((nothing, 0), (nothing, 1), (log, 2)):
            os.dup2(source, target)
        if os.getppid() == parent:
            serve(order)
        os._exit(0)
    except BaseException:  # noqa: BLE001 -- told to the log, and the child ends
        sys.excepthook(*sys.exc_info())
        os._exit(1)


def serve(order: dict[str, Any]) -> None:
    """Serve until asked to stop, or killed."""
    app = load_app(Witness(Path(order["witness"]), is_synced=False)).app
    settings = WorkerSettings(
        order["dsn"],
        name=order["name"],
        lease=timedelta(seconds=order["lease"]),
        concurrency=order["concurrency"],
        connections=4,
        poll=timedelta(seconds=0.5),
        grace=timedelta(seconds=5),
    )
    worker = app.worker(settings)
    signal.signal(signal.SIGTERM, lambda *_: worker.ask_to_stop())
    worker.start()
    worker.wait()


if __name__ == "__main__":
    main()
