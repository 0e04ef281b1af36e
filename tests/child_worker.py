"""Serve `child_jobs` from a process of its own: child_worker.py DSN NAME [option=number …].

Options in seconds are turned into durations; SIGTERM asks for a graceful stop.
"""

import faulthandler
import logging
import os
import signal
import sys
import time
from datetime import timedelta
from typing import Any

from child_jobs import app
from relevo import WorkerSettings

DURATIONS = ("lease", "poll", "grace")


def main() -> None:
    faulthandler.enable()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    dsn, name, *words = sys.argv[1:]
    changes: dict[str, Any] = {"lease": 2.0, "concurrency": 4, "connections": 4, "grace": 5.0}
    changes["listen_dsn"] = os.environ.get("RELEVO_LISTEN_DSN")
    hangs, stuck = None, 0.0
    for word in words:
        option, number = word.split("=")
        if option == "hangs":
            hangs = float(number)
        elif option == "stuck":
            stuck = float(number)
        else:
            changes[option] = int(number) if option not in DURATIONS else float(number)
    for option in DURATIONS:
        if option in changes:
            changes[option] = timedelta(seconds=changes[option])
    worker = app.worker(WorkerSettings(dsn, name=name, **changes))
    if hangs is not None:
        worker._engine.limit = hangs
    if stuck:

        async def block(*_: object) -> None:
            # The engine's own loop stands still, as under a call that never returns.
            time.sleep(stuck)  # noqa: ASYNC251 -- blocking it is what the test is about

        worker._watch = block  # type: ignore[method-assign] -- the same
    signal.signal(signal.SIGTERM, lambda _number, _frame: worker.ask_to_stop())
    worker.start()
    while not worker.wait(1.0):
        pass


if __name__ == "__main__":
    main()
