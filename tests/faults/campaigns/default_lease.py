"""F-005: the jobs of a killed worker run elsewhere in time, with the settings that are shipped.

Two `relevo worker` processes as people start them, one of which holds twenty jobs when it is
killed. The other takes all of them over.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg

from faults.campaigns.ground import await_that
from faults.measured import Measured
from faults.sizes import Size, numbers
from relevo.db.embedded import Embedded
from relevo.db.migrate import ENGINE, Line, migrate

LINES = (ENGINE, Line("evaluations", "relevo_apps.evaluations.migrations"))
"""What the command wants to be there."""

LOG = "worker.log"
JOBS = 20
PROMISED = 90.0
"""Seconds from the kill until the last job runs again, with a lease of 30 seconds."""

ENQUEUE = """
INSERT INTO relevo.jobs (tenant_id, queue, kind, payload)
SELECT '00000000-0000-0000-0000-000000000001', 'default', 'load.hang', '{"seconds": 600}'
FROM generate_series(1, %s)
"""
RUNNING = """
SELECT count(*)
FROM relevo.jobs AS j
JOIN relevo.workers AS w ON w.id = j.worker
WHERE j.state = 'running'
  AND w.name LIKE '%%:' || %s
"""
SESSIONS = "SELECT count(*) FROM relevo.workers"
RESTARTED = "SELECT extract(epoch FROM max(started_at))::float8 FROM relevo.jobs WHERE attempt = 2"

APP = '''"""Jobs that wait until they are cut off."""

import asyncio

from relevo import Context, Relevo

app = Relevo()


@app.job("load.hang")
async def hang(ctx: Context, seconds: float) -> None:
    """Wait."""
    await asyncio.sleep(seconds)
'''


def measure_takeover(directory: Path, dsn: str, options: Sequence[str] = ()) -> float:
    """Kill a worker that holds twenty jobs; answer the seconds until all run elsewhere.

    Args:
        directory: Where the application of the workers is written.
        dsn: A migrated database.
        options: What the workers are told beside where the jobs are; nothing is as shipped.
    """
    (directory / "hanging.py").write_text(APP)
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute(ENQUEUE, [JOBS])
        with a_worker(directory, dsn, options) as victim:
            _await_running(owner, victim, directory)
            with a_worker(directory, dsn, options) as heir:
                await_that(lambda: owner.execute(SESSIONS).fetchone() == (2,), "both sessions")
                killed_at = time.time()
                victim.kill()
                victim.wait()
                _await_running(owner, heir, directory)
                row = owner.execute(RESTARTED).fetchone()
                assert row is not None
                return float(row[0]) - killed_at


def _await_running(
    owner: psycopg.Connection, worker: subprocess.Popen[bytes], directory: Path
) -> None:
    def all_run() -> bool:
        assert worker.poll() is None, f"a worker ended, see {directory / LOG}"
        return owner.execute(RUNNING, [str(worker.pid)]).fetchone() == (JOBS,)

    await_that(all_run, "the jobs in its hands")


@contextmanager
def a_worker(
    directory: Path, dsn: str, options: Sequence[str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `relevo worker` as a person does; it is killed in the end."""
    relevo = str(Path(sys.executable).parent / "relevo")
    words = [relevo, "worker", "--app", "hanging:app", "--dsn", dsn]
    with (
        (directory / LOG).open("ab") as log,
        subprocess.Popen(
            [*words, *options],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": f"{directory}:{os.environ.get('PYTHONPATH', '')}"},
            stderr=log,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def measure(size: Size, seed: int, directory: Path) -> Measured:
    """Measure once, on an embedded server as it is shipped; there is nothing to choose."""
    assert numbers("F005", size)["jobs"] == JOBS
    # A short path: the socket's address has about a hundred bytes.
    with tempfile.TemporaryDirectory(prefix="relevo-f005-") as root:
        Path(root).chmod(0o755)
        with Embedded(Path(root) / "pg") as server:
            migrate(server.dsn(), LINES)
            seconds = measure_takeover(directory, server.dsn())
    late = f"{JOBS} jobs ran again after {seconds:.1f} s, {PROMISED:g} s are promised"
    return Measured(
        {"jobs": JOBS, "seconds_to_last_start": round(seconds, 2)},
        problems=[late] if seconds > PROMISED else [],
    )
