"""R4 and R5 small: the whole server ends under load; RELEVO_TEST_SCALE=3 is their full size."""

from collections.abc import Callable
from pathlib import Path

import pytest

from faults.campaigns import server
from faults.campaigns.everyday import measure_and_check
from faults.campaigns.ground import Ground
from workers import scaled


@pytest.mark.parametrize("fault", [server.stop, server.kill])
def test_a_server_that_ends_at_once_keeps_what_it_acknowledged(
    fault: Callable[[Ground], None], tmp_path: Path
) -> None:
    times = scaled(1, 3)

    measured = measure_and_check(
        lambda *run: server.measure_faults("faults", fault, times, *run), tmp_path
    )

    assert measured.counts["faults"] == times
