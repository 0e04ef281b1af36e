"""Serve nothing, with a heartbeat that breaks: silent_worker.py DSN HOW LIMIT.

HOW is `fails` (one beat raises), `ends` (the thread does) or `hangs` (a beat never returns),
each after the beat that opened the session. LIMIT is after how many silent seconds the heartbeat
counts as hanging. What breaks writes the moment to standard error, by the clock that every
process of the machine shares.
"""

import logging
import sys
import threading
import time
from datetime import timedelta

from relevo import Relevo, WorkerSettings
from relevo.loops.heartbeat import Heartbeat

beat = Heartbeat._beat
broken = threading.Event()


def break_once(heartbeat: Heartbeat) -> None:
    """Beat, but break where the second beat would be; after that all is well."""
    if heartbeat.worker is None or broken.is_set():
        beat(heartbeat)
        return
    broken.set()
    print(f"broken {time.monotonic()}", file=sys.stderr, flush=True)  # noqa: T201 -- the test reads it
    match sys.argv[2]:
        case "hangs":
            threading.Event().wait()
        case "ends":
            # No Exception, so nothing in the thread catches it.
            sys.exit()
        case _:
            msg = "injected into a beat"
            raise RuntimeError(msg)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    Heartbeat._beat = break_once  # type: ignore[method-assign] -- the fault of the case
    begin = Heartbeat.start

    def start(heartbeat: Heartbeat) -> None:
        heartbeat.pulse.limit = float(sys.argv[3])
        begin(heartbeat)

    Heartbeat.start = start  # type: ignore[method-assign] -- the same
    worker = Relevo().worker(
        WorkerSettings(sys.argv[1], name="silent", lease=timedelta(seconds=1.5))
    )
    worker.run()


if __name__ == "__main__":
    main()
