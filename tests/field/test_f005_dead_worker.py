"""F-005: with shipped defaults SIGKILL a worker; its jobs run again elsewhere within 90 s.

Mechanism: a third of the lease between heartbeats, and a rescuer in every other worker that
looks as often. The lease of 30 seconds is a tenth here, the bound three tenths, since what a
busy machine adds does not shrink with the lease; the rest is as shipped. With all of it as
shipped it is measured by `python -m faults nightly F005`.
"""

from pathlib import Path

from faults.campaigns.default_lease import LINES, PROMISED, measure_takeover
from relevo.db.migrate import migrate


def test_f005_the_jobs_of_a_killed_worker_run_elsewhere_in_time(
    empty_database: str, tmp_path: Path
) -> None:
    migrate(empty_database, LINES)

    seconds = measure_takeover(tmp_path, empty_database, ["--lease", "3s"])

    assert 0 < seconds < PROMISED * 3 / 10
