"""R14 small: payloads at random; RELEVO_TEST_SCALE=25 is its full size."""

from pathlib import Path

import pytest

from faults.campaigns.everyday import measure_and_check
from faults.campaigns.fuzz import judge_inserted, measure_payloads
from workers import scaled


def test_payloads_arrive_as_they_were_and_no_worker_dies_of_one(tmp_path: Path) -> None:
    examples = scaled(400, 10_000)

    measured = measure_and_check(lambda *run: measure_payloads(examples, *run), tmp_path)

    assert (measured.counts["unequal"], measured.counts["dead_workers"]) == (0, 0)
    assert measured.counts["accepted"] + measured.counts["accepted_by_sql"] > examples / 2
    # One that takes anything for each, and one that takes a number where it is one.
    assert measured.counts["compared_by_sql"] >= measured.counts["accepted_by_sql"]


@pytest.mark.parametrize(
    ("kind", "payload", "received", "state", "why"),
    [
        ("fuzz.any", {"value": [1]}, {"value": [1]}, "completed", ""),
        ("fuzz.any", {"value": [1]}, {"value": [2]}, "completed", "arrived as {'value': [2]}"),
        ("fuzz.any", {"value": True}, {"value": 1}, "completed", "arrived as {'value': 1}"),
        ("fuzz.any", {"value": [1]}, {"value": [1]}, "failed", "arrived and is failed"),
        ("fuzz.any", {"value": "a"}, None, "failed", "never reached its handler"),
        ("fuzz.by_sql", {"number": 3, "value": 3}, None, "failed", "never reached its handler"),
        ("fuzz.by_sql", {"number": "a", "value": "a"}, None, "failed", ""),
        ("fuzz.typed", [], None, "failed", ""),
        ("fuzz.typed", {}, None, "completed", "reached no handler and is completed"),
    ],
)
def test_what_comes_by_sql_is_held_against_its_row(
    kind: str, payload: object, received: object, state: str, why: str
) -> None:
    assert judge_inserted(kind, payload, received, state) == why
