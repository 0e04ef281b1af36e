"""F-024's ratio, as a command: PYTHONPATH=tests python tests/field/measure_f024.py [SECONDS].

32 writers enqueue in transactions of one row, in turns with a worker that wants to be told
of each and with one that does not; the figure is the throughput of the first by the second.
"""

import sys
import threading
import time

import psycopg
from own_server import an_own_server

from factories import a_worker
from relevo import Context, Relevo

WRITERS = 32
TURNS = 3

app = Relevo()


@app.job("test.work")
async def work(ctx: Context) -> None:
    """Nothing; nobody runs it here."""


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


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    rates: dict[bool, list[float]] = {True: [], False: []}
    with (
        an_own_server(is_durable=True) as server,
        psycopg.connect(server.dsn, autocommit=True) as owner,
    ):
        a_worker(owner, kinds=("test.work",), lease=3600)
        for _ in range(TURNS):
            for idle, rate in rates.items():
                owner.execute("UPDATE relevo.workers SET idle = %s", [idle])
                rate.append(enqueue_for(server.dsn, seconds))
    told, silent = (sorted(each)[TURNS // 2] for each in (rates[True], rates[False]))
    sys.stdout.write(f"with {told:.0f}/s, without {silent:.0f}/s, ratio {told / silent:.2f}\n")


if __name__ == "__main__":
    main()
