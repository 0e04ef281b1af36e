"""A worker whose answers never come notices by itself, and goes on when the network does."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from faults.campaigns.ground import Server, a_server
from faults.campaigns.network import through
from faults.proxy import Fault, Kind, Proxy, a_proxy
from relevo import Context, Relevo
from relevo.db import connect
from relevo.loops import worker as workers_room
from workers import query, running, wait_until

LONG = 600.0
BOUND = 60.0


@pytest.fixture(scope="module")
def tcp_server() -> Iterator[Server]:
    with a_server(is_durable=False, is_on_network=True) as server:
        yield server


@pytest.fixture
def proxy(tcp_server: Server) -> Iterator[Proxy]:
    with a_proxy(tcp_server.port) as proxy:
        yield proxy


@pytest.fixture
def direct(tcp_server: Server, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"network_{abs(hash(request.node.name)) % 10**9}"
    yield tcp_server.create(name, "template_faults")
    tcp_server.drop(name)


def completed(dsn: str) -> int:
    return query(dsn, "SELECT count(*) FROM relevo.jobs WHERE state = 'completed'")[0][0]


@pytest.mark.parametrize("purpose", ["claim", "settle", "rescue", "heartbeat"])
def test_an_answer_that_never_comes_is_not_waited_for_for_ever(
    purpose: str, direct: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The bounds are of the same sort, and shorter.
    monkeypatch.setattr(workers_room, "CLAIM_WITHIN", 3.0)
    monkeypatch.setattr(connect.EngineConnection.__init__, "__defaults__", (3.0,))
    app = Relevo()

    @app.job("network.plain")
    async def plain(ctx: Context) -> None:
        pass

    with running(app, through(direct, proxy), lease=timedelta(seconds=4)):
        with psycopg.connect(direct) as connection:
            plain.enqueue(connection)
        wait_until(lambda: completed(direct) == 1, BOUND, "the first job")
        deaf = backends(direct, purpose)
        # Acknowledged and lost: neither keep-alive probes nor time-outs of TCP can notice it.
        fault = Fault(Kind.SWALLOW, f"^relevo {purpose} ", lasts=LONG, meets_newcomers=False)
        proxy.inflict(fault)
        wait_until(lambda: proxy.hits[Kind.SWALLOW] == 1, what="the fault's beginning")

        with psycopg.connect(direct) as connection:
            plain.enqueue(connection)
        wait_until(lambda: completed(direct) == 2, BOUND, "the second job")
        wait_until(lambda: backends(direct, purpose) - deaf, BOUND, "another connection")


def backends(dsn: str, purpose: str) -> set[int]:
    rows = query(
        dsn,
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name = %s",
        f"relevo {purpose} test",
    )
    return {pid for (pid,) in rows}


def test_the_server_lets_go_of_what_a_session_behind_a_black_hole_has_locked(
    direct: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = {
        "tcp_keepalives_idle": "1",
        "tcp_keepalives_interval": "1",
        "tcp_keepalives_count": "2",
        "tcp_user_timeout": "1500",
    }
    assert connect._PATIENCE_OF_SERVER.keys() == quick.keys()
    monkeypatch.setattr(connect, "_PATIENCE_OF_SERVER", quick)
    dsn = connect.with_patience(make_conninfo(through(direct, proxy), application_name="cut off"))
    query(direct, "CREATE TABLE kept AS SELECT 1 AS id")
    with closing(psycopg.connect(dsn)) as holder, psycopg.connect(direct) as other:
        holder.execute("SELECT FROM kept FOR UPDATE")
        proxy.inflict(Fault(Kind.BLACKHOLE, "cut off", lasts=LONG))

        other.execute("SET lock_timeout = '60s'")
        assert len(other.execute("SELECT FROM kept FOR UPDATE").fetchall()) == 1


def test_what_the_connection_string_says_about_the_server_holds() -> None:
    dsn = connect.with_patience("host=db options='-c tcp_user_timeout=7'")

    options = str(conninfo_to_dict(dsn)["options"]).split(" -c ")
    assert options[-2:] == ["tcp_user_timeout=10000", "tcp_user_timeout=7"]
