"""R12 small: steps beside the model, and what it has found; RELEVO_TEST_SCALE=20 is full size."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from factories import KIND, a_job, a_worker, claim_some, job_row, settle_some
from faults.campaigns.everyday import measure_and_check
from faults.model.machine import explore, measure_steps
from faults.model.mutants import BLUNDERS, Blunder
from faults.model.world import World, a_world
from relevo import DEFAULT_TENANT, cancel_jobs
from relevo.db.drivers import run
from relevo.engine.jobs.session import hand_back_unknown
from workers import scaled

EVERYDAY = ("a snooze spends an attempt", "a start completes whoever holds the job")


def test_the_engine_does_what_the_model_says(tmp_path: Path) -> None:
    steps = scaled(1_000, 20_000)

    measured = measure_and_check(lambda *run: measure_steps(steps, *run), tmp_path)

    assert measured.counts["starts"] > steps / 50


@pytest.fixture
def world(database: str) -> Iterator[World]:
    with a_world(database) as opened:
        yield opened


@pytest.mark.parametrize(
    "blunder",
    [one for one in BLUNDERS if one.what in EVERYDAY],
    ids=lambda one: one.what,
)
def test_the_machine_finds_what_somebody_could_break(world: World, blunder: Blunder) -> None:
    with blunder.applied():
        told = explore(world, 20_000, 12, shrinks=False)

    assert told


@pytest.mark.parametrize("blunder", BLUNDERS, ids=lambda one: one.what)
def test_each_mutant_of_the_machine_still_fits_its_statement(blunder: Blunder) -> None:
    with blunder.applied():
        assert blunder.new in blunder.statements[blunder.name].sql


# What the machine has found.


def test_a_job_that_is_to_be_kept_stays_when_its_key_expires(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    job_id = a_job(connection, key="k")
    connection.execute(
        "UPDATE relevo.jobs SET key_expires_at = now() + interval '1 hour' WHERE id = %s", [job_id]
    )

    settle_some(connection, worker, claim_some(connection, worker), keep=None)

    assert job_row(connection, job_id)["prune_at"] is None
    assert job_row(connection, job_id)["state"] == "completed"


def test_a_job_that_is_handed_back_and_ends_as_cancelled_is_pruned_one_day(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    job_id = a_job(connection, aggregate_id="m")
    claim_some(connection, worker)
    run(connection, cancel_jobs(DEFAULT_TENANT, KIND, "m"))

    run(connection, hand_back_unknown(worker, []))

    assert job_row(connection, job_id)["prune_at"] is not None
    assert job_row(connection, job_id)["state"] == "cancelled"
