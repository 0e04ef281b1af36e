"""Whose silence proves nothing is not ended: what keeps one heartbeat away may keep all away."""

import asyncio
import time
from datetime import timedelta

import psycopg

from factories import a_worker, value
from relevo import Relevo
from relevo.db.connect import EngineConnection
from relevo.loops.heartbeat import Heartbeat
from relevo.loops.rescuer import Rescuer
from workers import as_worker, settings, wait_until

LEASE = timedelta(seconds=0.5)
UP_FOR = "SELECT clock_timestamp() - pg_postmaster_start_time()"


def test_a_rescuer_whose_own_heartbeat_failed_holds_off_for_a_lease(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when a rescuer that has its connection ends those who have lost theirs (R16)."""
    wait_until(lambda: value(owner, UP_FOR) > LEASE)
    engine, rules = as_worker(database), settings(database, lease=LEASE)
    silent = a_worker(owner, lease=-1)
    heartbeat = Heartbeat(rules, engine, [], lambda: None, lambda _: None)
    there = "SELECT count(*) FROM relevo.workers WHERE id = %s"

    async def look_twice() -> tuple[int, int]:
        connection = EngineConnection(engine)
        rescuer = Rescuer(rules, connection, Relevo().registry.kept(), heartbeat)
        heartbeat.failed_at = time.monotonic()
        await rescuer._tick()
        held = value(owner, there, silent)
        await asyncio.sleep(LEASE.total_seconds())
        await rescuer._tick()
        ended = value(owner, there, silent)
        await connection.close()
        return held, ended

    assert asyncio.run(look_twice()) == (1, 0)


def test_a_beat_that_fails_is_known_to_who_asks(database: str, owner: psycopg.Connection) -> None:
    begun_at = time.monotonic()
    nowhere = "host=127.0.0.1 port=1 connect_timeout=2"
    heartbeat = Heartbeat(settings(database), nowhere, [], lambda: None, lambda _: None)

    heartbeat.start()
    try:
        wait_until(lambda: heartbeat.failed_at >= begun_at)
    finally:
        heartbeat.stop()
