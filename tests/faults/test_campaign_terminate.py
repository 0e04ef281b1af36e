"""R2 small: backends of every purpose are cut under load; RELEVO_TEST_SCALE=3 is its full size."""

from pathlib import Path

import psycopg
import pytest

from faults.campaigns.everyday import measure_and_check
from faults.campaigns.terminate import is_cut, measure_cuts
from workers import scaled


def test_backends_that_are_cut_lose_nothing_and_do_nothing_twice(tmp_path: Path) -> None:
    cuts = scaled(20, 50)

    measured = measure_and_check(lambda *run: measure_cuts(cuts, *run), tmp_path)

    assert measured.counts["cuts"] == cuts


def test_only_a_backend_that_ends_of_it_is_a_cut(database: str) -> None:
    victim = psycopg.connect(database)
    pid = victim.info.backend_pid

    with psycopg.connect(database) as operator:
        answers = [is_cut(operator, pid), is_cut(operator, pid)]

    assert answers == [True, False]
    with pytest.raises(psycopg.OperationalError):
        victim.execute("SELECT 1")
