"""Activate a large cycle beside a raw SQL script of the same writes, in the same run.

Each round activates the same prepared cycle twice, in two fresh clones of one database:
once through the service, once by the script. Read the ratio of a round, not the seconds:
what the machine does meanwhile meets both alike.
"""

import argparse
import io
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from relevo import DEFAULT_TENANT, Operation, perform, set_tenant, wake
from relevo.db.dsn import WEB_ROLE, with_session
from relevo.db.embedded import Embedded
from relevo.db.migrate import ENGINE, Line, migrate
from relevo_apps.evaluations import service
from relevo_apps.evaluations.generator import generate_organisation
from relevo_apps.evaluations.importer import read_people
from relevo_apps.evaluations.model.cycles import Dispatch, Relation

SCRIPT = Path(__file__).with_name("activation.sql").read_text(encoding="utf-8")
LINES = [ENGINE, Line("evaluations", "relevo_apps.evaluations.migrations")]
RULES = (Relation.SELF, Relation.MANAGER, Relation.UPWARD, Relation.PEER)


@dataclass
class Prepared:
    """A database with one draft in it, to be cloned."""

    dsn: str
    cycle_id: UUID
    evaluations: int
    evaluators: int


def connect(dsn: str) -> psycopg.Connection[tuple[object, ...]]:
    """Open a session as the application's role, with its tenant set in the transaction."""
    connection = psycopg.connect(with_session(dsn, role=WEB_ROLE))
    perform(connection, set_tenant(DEFAULT_TENANT))
    return connection


def prepare(dsn: str, people: int, evaluations: int) -> Prepared:
    """Import an organisation and make a draft with about so many evaluations."""
    migrate(dsn, LINES)
    organisation = generate_organisation(people, seed=7)
    file = read_people(io.BytesIO(organisation.csv().encode()))
    with connect(dsn) as connection:
        perform(connection, service.import_people(DEFAULT_TENANT, file))
        cycle = perform(
            connection,
            service.create_cycle(DEFAULT_TENANT, "bench", actor="bench", rules=RULES),
        )
        perform(connection, service.add_participants(DEFAULT_TENANT, cycle.id, None, actor="bench"))
        generated = perform(
            connection, service.generate_evaluations(DEFAULT_TENANT, cycle.id, actor="bench")
        )
        ids = [person.external_id for person in organisation.people]
        chosen = random.Random(7)  # noqa: S311 -- repeatable pairs, no secret
        wanted = evaluations - generated.total
        pairs: set[tuple[str, str]] = set()
        while len(pairs) < wanted:
            one, other = chosen.choice(ids), chosen.choice(ids)
            if one != other:
                pairs.add((one, other))
        if pairs:
            perform(
                connection,
                service.add_peers(DEFAULT_TENANT, cycle.id, sorted(pairs), actor="bench"),
            )
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute("VACUUM ANALYZE")
        counts = owner.execute(
            "SELECT count(*), count(DISTINCT evaluator_id) FROM evaluations.evaluations"
        ).fetchone()
    assert counts is not None
    return Prepared(dsn, cycle.id, counts[0], counts[1])


def through_service(connection: psycopg.Connection[tuple[object, ...]], cycle_id: UUID) -> None:
    """Activate as the command does."""
    operation: Operation[object] = service.activate(
        DEFAULT_TENANT, cycle_id, actor="bench", dispatch=Dispatch(), wake=wake
    )
    perform(connection, operation)


def by_script(connection: psycopg.Connection[tuple[object, ...]], cycle_id: UUID) -> None:
    """Write the same rows without relevo."""
    for statement in SCRIPT.split(";\n"):
        if statement.strip():
            connection.execute(
                statement.encode(), {"tenant_id": DEFAULT_TENANT, "cycle_id": cycle_id}
            )


def measure(
    server: str,
    prepared: Prepared,
    activate: Callable[[psycopg.Connection[tuple[object, ...]], UUID], None],
) -> float:
    """Clone the prepared database, activate in the clone, and answer the seconds."""
    template = psycopg.conninfo.conninfo_to_dict(prepared.dsn)["dbname"]
    name = f"{template}_run"
    with psycopg.connect(server, autocommit=True) as admin:
        clone = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        admin.execute(clone.format(sql.Identifier(name), sql.Identifier(str(template))))
        admin.execute("CHECKPOINT")
    try:
        with connect(make_conninfo(server, dbname=name)) as connection:
            begun = time.perf_counter()
            activate(connection, prepared.cycle_id)
            connection.commit()
            seconds = time.perf_counter() - begun
            jobs = connection.execute(
                "SELECT count(*) FROM relevo.jobs WHERE kind = 'cycle.dispatched'"
            ).fetchone()
            assert jobs == (prepared.evaluators,), jobs
    finally:
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
    return seconds


def main() -> None:
    """Print one line a round, then the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=10_000)
    parser.add_argument("--evaluations", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="relevo-bench-") as folder:
        Path(folder).chmod(0o755)
        settings = {"shared_buffers": "512MB", "max_wal_size": "4GB"}
        with Embedded(Path(folder) / "pg", settings=settings) as embedded:
            server = embedded.dsn()
            with psycopg.connect(server, autocommit=True) as admin:
                admin.execute("CREATE DATABASE bench")
            prepared = prepare(embedded.dsn("bench"), options.people, options.evaluations)
            print(
                f"{options.people} people, {prepared.evaluations} evaluations, "
                f"{prepared.evaluators} notifications, one transaction each"
            )
            ratios, ours, raws = [], [], []
            for number in range(1, options.rounds + 1):
                order = [through_service, by_script]
                if number % 2 == 0:
                    order.reverse()
                seconds = {run: measure(server, prepared, run) for run in order}
                ours.append(seconds[through_service])
                raws.append(seconds[by_script])
                ratios.append(ours[-1] / raws[-1])
                print(
                    f"round {number}: relevo {ours[-1]:.2f} s, raw {raws[-1]:.2f} s, "
                    f"ratio {ratios[-1]:.2f}"
                )
            our, raw, ratio = (statistics.median(each) for each in (ours, raws, ratios))
            print(f"median: relevo {our:.2f} s, raw {raw:.2f} s, ratio {ratio:.2f} (goal: 1.5)")


if __name__ == "__main__":
    main()
