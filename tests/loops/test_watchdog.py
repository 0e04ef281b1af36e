"""A loop that fails or hangs is started again; what cannot be started again ends the process."""

import asyncio

import pytest

from relevo.loops import supervise as supervising
from relevo.loops.supervise import Pulse, supervise
from workers import a_child


def test_a_worker_whose_engine_hangs_ends_with_a_code_of_its_own(database: str) -> None:
    """F-056. Red without the watchdog: the process would live, claim nothing and look well."""
    with a_child(database, hangs=1.0, stuck=60.0) as child:
        code = child.wait(30)
        said = child.end()

    assert code == 70
    assert "hangs and cannot be started again" in said


async def test_a_loop_that_fails_is_started_again_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """F-056. Red when an error ends the loop: nobody would look at it again."""
    monkeypatch.setattr(supervising, "RESTART_AFTER", 0.01)
    pulse, starts = Pulse("claim", limit=30.0), []

    async def loop(_: Pulse) -> None:
        starts.append(1)
        if len(starts) < 3:
            msg = "broken"
            raise RuntimeError(msg)

    await asyncio.wait_for(supervise(loop, pulse), 10)

    assert (len(starts), pulse.restarts) == (3, 2)
    assert "loop claim failed" in caplog.text


async def test_a_loop_that_falls_silent_is_cancelled_and_started_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """F-056. Red when only errors are seen: a loop that waits for ever would stay so."""
    monkeypatch.setattr(supervising, "RESTART_AFTER", 0.01)
    pulse, starts = Pulse("listen", limit=0.2), []

    async def loop(_: Pulse) -> None:
        starts.append(1)
        if len(starts) == 1:
            await asyncio.Event().wait()

    await asyncio.wait_for(supervise(loop, pulse), 10)

    assert (len(starts), pulse.restarts) == (2, 1)
    assert "loop listen hangs" in caplog.text
