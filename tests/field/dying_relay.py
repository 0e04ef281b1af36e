"""A relay that dies between a delivery and its mark, the first time: dying_relay.py DSN."""

import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

from relevo import Context, Relevo, WorkerSettings
from workers import query, wait_until

app = Relevo()


@app.job("relay.event")
def event(ctx: Context, sink: str) -> None:
    with Path(sink).open("a", encoding="utf-8") as file:
        file.write(f"{ctx.job_id} {ctx.idempotency_key} {ctx.attempt}\n")
        file.flush()
        os.fsync(file.fileno())
    if ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    dsn, second = sys.argv[1], timedelta(seconds=1)
    worker = app.worker(WorkerSettings(dsn, lease=second, poll=second / 5, name="relay"))
    worker.start()
    done = "SELECT 1 FROM relevo.jobs WHERE state = 'completed'"
    wait_until(lambda: query(dsn, done), 50)
    worker.ask_to_stop()
    worker.wait(30)


if __name__ == "__main__":
    main()
