"""F-024's ratio, as a command: PYTHONPATH=tests python tests/field/measure_f024.py [SECONDS].

32 writers enqueue in transactions of one row, in turns beside a worker that listens and beside
one that only polls; both keep up. The figure is the throughput of the first by the second.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from own_server import an_own_server

from relevo import Context, Relevo, WorkerSettings

WRITERS = 32
TURNS = 3

app = Relevo()


@app.job("test.work")
async def work(ctx: Context) -> None:
    """Do nothing."""


def enqueue_for(dsn: str, seconds: float) -> float:
    """Answer how many a second all writers together commit."""
    counts = [0] * WRITERS
    start = threading.Barrier(WRITERS)

    def write(place: int) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            start.wait()
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                work.enqueue(connection)
                counts[place] += 1

    threads = [threading.Thread(target=write, args=(place,)) for place in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds


@contextmanager
def a_worker(dsn: str, listen_dsn: str) -> Iterator[None]:
    """A worker in a process of its own; it ends with its input."""
    command = [sys.executable, __file__, "work", dsn, listen_dsn]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        process.communicate(timeout=60)


def serve(dsn: str, listen_dsn: str) -> None:
    settings = WorkerSettings(dsn, listen_dsn=listen_dsn, concurrency=200, name="measured")
    worker = app.worker(settings)
    worker.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    worker.ask_to_stop()
    worker.wait(30)


def main() -> None:
    if sys.argv[1:2] == ["work"]:
        serve(*sys.argv[2:])
        return
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    rates: dict[bool, list[float]] = {True: [], False: []}
    with an_own_server(is_durable=True) as server:
        for _ in range(TURNS):
            for is_listening, rate in rates.items():
                with a_worker(server.dsn, server.dsn if is_listening else ""):
                    rate.append(enqueue_for(server.dsn, seconds))
    told, silent = (sorted(each)[TURNS // 2] for each in (rates[True], rates[False]))
    sys.stdout.write(f"with {told:.0f}/s, without {silent:.0f}/s, ratio {told / silent:.2f}\n")


if __name__ == "__main__":
    main()
