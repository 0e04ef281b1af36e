"""Cycles leave evidence of every whole and of every half."""

import threading
from pathlib import Path

import psycopg
import pytest

from apps.cycle_factory import ACTOR, TENANT, a_draft, activation, an_organisation
from factories import a_worker, claim_some, settle_some, value
from faults.checker import check, report
from faults.evidence import Witness, install, read_history, sample_cycles
from relevo.db.drivers import run
from relevo.model.settlement import Action
from relevo_apps.evaluations import service
from relevo_apps.evaluations.model.cycles import Cycle

NOTIFICATION = "cycle.dispatched"
QUIET = {"quiescent": False}


@pytest.fixture
def draft(database: str, connection: psycopg.Connection) -> Cycle:
    an_organisation(connection, 12)
    connection.commit()
    # Found by the evidence, not made under it.
    cycle = a_draft(connection, "2024")
    connection.commit()
    install(database)
    return cycle


def test_a_cycle_leaves_a_history_without_a_violation(
    database: str, connection: psycopg.Connection, draft: Cycle, tmp_path: Path
) -> None:
    """Activated, recalled with one letter sent and one on its way, and activated again."""
    witness = Witness(tmp_path / "sampler", is_synced=False)
    done = threading.Event()

    def sample() -> None:
        with psycopg.connect(database, autocommit=True) as looking:
            while not done.is_set():
                sample_cycles(looking, witness, TENANT)

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        second = a_draft(connection, "2025")
        connection.commit()
        for cycle in (draft, second):
            run(connection, service.preflight(TENANT, cycle.id, actor=ACTOR))
            connection.commit()
            run(connection, activation(cycle))
            connection.commit()
        connection.execute("UPDATE relevo.jobs SET available_at = now()")
        worker = a_worker(connection, kinds=(NOTIFICATION,), queues=("mail", "default"))
        queue = value(connection, "SELECT min(queue) FROM relevo.jobs")
        connection.commit()
        claimed = claim_some(connection, worker, 2, queue=queue, kinds=(NOTIFICATION,))
        settle_some(connection, worker, claimed[:1])
        connection.commit()
        run(connection, service.recall(TENANT, draft.id, actor=ACTOR))
        connection.commit()
        run(connection, activation(draft))
        connection.commit()
        settle_some(connection, worker, claimed[1:], Action.RETRIED)
        connection.commit()
    finally:
        done.set()
        sampler.join()

    history = read_history(database, [witness.path])

    found = check(history, **QUIET)
    assert not found, report(found)
    assert len({note.fields["state"] for note in history.notes}) == 2
    assert len([one for one in history.cycles if one.what == "cycle"]) > 6


def test_an_activation_in_two_transactions_is_named(
    database: str, connection: psycopg.Connection, draft: Cycle
) -> None:
    connection.execute(
        "UPDATE evaluations.evaluations SET state = 'active' WHERE relation = 'self'"
    )
    connection.commit()
    run(connection, activation(draft))
    connection.commit()

    found = check(read_history(database), **QUIET)

    assert {violation.invariant for violation in found} == {"I13"}


def test_a_notification_after_the_activation_is_named(
    database: str, connection: psycopg.Connection, draft: Cycle
) -> None:
    run(connection, activation(draft))
    connection.commit()
    connection.execute("DELETE FROM relevo.jobs")
    connection.execute(
        "INSERT INTO relevo.jobs (tenant_id, kind, aggregate_id, payload, available_at)"
        " SELECT DISTINCT tenant_id, 'cycle.dispatched', cycle_id::text,"
        "        jsonb_build_object('evaluator_id', evaluator_id), now()"
        " FROM evaluations.evaluations"
    )
    connection.commit()

    found = check(read_history(database), allow={"I1"}, **QUIET)

    assert {violation.invariant for violation in found} == {"I13"}


def test_half_a_recall_is_named(
    database: str, connection: psycopg.Connection, draft: Cycle
) -> None:
    run(connection, activation(draft))
    connection.commit()
    connection.execute(
        "UPDATE evaluations.cycles SET state = 'draft', activated_at = NULL, activated_by = NULL,"
        " hold_until = NULL"
    )
    connection.commit()

    found = check(read_history(database), **QUIET)

    assert {violation.invariant for violation in found} == {"I13"}
    assert len(found) == 2
