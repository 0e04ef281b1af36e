"""Play scenarios with the engine that this process imports, and print what the checker finds.

`python -m faults.mutants.act DIRECTORY NAME=DSN …`, one line of JSON for each. It is a process
of its own, so that the engine it imports is the one that its path names: a mutant, or not.
"""

import json
import sys
import traceback
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

import relevo
from faults.checker import check
from faults.evidence import install, read_history
from faults.mutants.scenarios import SCENARIOS
from faults.mutants.stage import Stage
from relevo.db.migrate import ENGINE, Line, migrate

LINES = (ENGINE, Line("evaluations", "relevo_apps.evaluations.migrations"))


def prepare(dsn: str) -> None:
    """Migrate an empty database and install the evidence."""
    migrate(dsn, LINES)
    install(dsn)


def act(name: str, dsn: str, directory: Path) -> dict[str, object]:
    """Play one scenario; answer the violations, and what was raised if it broke down."""
    with psycopg.connect(dsn) as owner:
        is_empty = owner.execute("SELECT to_regnamespace('relevo') IS NULL").fetchone() == (True,)
    if is_empty:
        prepare(dsn)
    place = directory / str(conninfo_to_dict(dsn)["dbname"])
    stage = Stage(dsn, place)
    error = ""
    try:
        SCENARIOS[name](stage)
    except Exception:  # noqa: BLE001 -- a mutant may break anything; the evidence is read all the same
        error = traceback.format_exc()
    finally:
        stage.close()
    violations = check(read_history(dsn, [stage.path]))
    return {
        "scenario": name,
        "found": sorted({one.invariant for one in violations}),
        "violations": [str(one) for one in violations],
        "error": error,
        "source": str(Path(relevo.__file__).parents[1]),
    }


def main() -> None:
    """Play what the command line names."""
    directory = Path(sys.argv[1])
    for word in sys.argv[2:]:
        name, _, dsn = word.partition("=")
        sys.stdout.write(json.dumps(act(name, dsn, directory)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
