"""F-030: parent and child share one socket after a fork.

Mechanism: the handlers' pools notice a fork in the child, which begins with pools of its own
and never touches or closes what it inherited; a worker's threads stay the parent's.
"""

import subprocess
import sys
from pathlib import Path

from workers import make_effects, query

PROGRAM = Path(__file__).parent / "forking_worker.py"


def test_f030_a_fork_opens_its_own_connections_and_the_parents_still_work(database: str) -> None:
    make_effects(database)

    ran = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", str(PROGRAM), database],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "same connections\n"
    assert "WARNING" not in ran.stderr
    assert query(database, "SELECT state, attempt, count(*) FROM relevo.jobs GROUP BY 1, 2") == [
        ("completed", 1, 4)
    ]
    backends = dict(query(database, "SELECT note, pid FROM public.effects WHERE note <> 'note'"))
    assert sorted(backends) == ["before", "child", "parent"]
    assert backends["child"] not in (backends["before"], backends["parent"])
