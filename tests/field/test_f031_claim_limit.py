"""F-031: a claim with LIMIT 1 returns and locks more than one row.

Mechanism: the picks are a MATERIALIZED CTE and the update takes their places as one array,
so no plan can run the limited part twice. Red when the limited SELECT stands inside `IN (…)`.
"""

import psycopg
import pytest

from factories import a_worker, claim_some, some_jobs, value

pytestmark = pytest.mark.core

PLANS = ("hashjoin", "mergejoin", "hashagg", "material", "sort")


@pytest.mark.parametrize("cache", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("also_off", [(), ("indexscan",), ("tidscan",), ("nestloop",)], ids=str)
def test_f031_a_claim_of_one_takes_one_whatever_the_planner_may_use(
    connection: psycopg.Connection, cache: str, also_off: tuple[str, ...]
) -> None:
    worker = a_worker(connection)
    some_jobs(connection, 5)
    connection.execute(f"SET LOCAL plan_cache_mode = {cache}".encode())
    for plan in (*PLANS, *also_off):
        connection.execute(f"SET LOCAL enable_{plan} = off".encode())

    taken = claim_some(connection, worker, 1)

    assert len(taken) == 1
    assert value(connection, "SELECT count(*) FROM relevo.jobs WHERE state = 'running'") == 1
    locked = "SELECT count(*) FROM relevo.jobs WHERE xmax <> 0 OR state = 'running'"
    assert value(connection, locked) == 1
