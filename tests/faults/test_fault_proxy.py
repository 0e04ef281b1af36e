"""The fault proxy does what it says: each fault is seen by real ends, and by nobody else."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from faults.campaigns.ground import Server, a_server
from faults.campaigns.network import through
from faults.proxy import BOTH, Direction, Fault, Kind, Proxy, a_proxy
from workers import wait_until

LONG = 60.0


@pytest.fixture(scope="module")
def tcp_server() -> Iterator[Server]:
    with a_server(is_durable=False, is_on_network=True) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as owner:
            owner.execute("CREATE TABLE kept (note text)")
        yield server


@pytest.fixture
def proxy(tcp_server: Server) -> Iterator[Proxy]:
    with a_proxy(tcp_server.port) as proxy:
        yield proxy


@pytest.fixture
def client(tcp_server: Server, proxy: Proxy) -> Iterator[psycopg.Connection]:
    with connect(tcp_server, proxy, "victim") as client:
        yield client


def connect(server: Server, proxy: Proxy, program: str, **settings: str) -> psycopg.Connection:
    dsn = make_conninfo(through(server.dsn(), proxy), application_name=program, **settings)
    return psycopg.connect(dsn, autocommit=True)


def losing(proxy: Proxy, lasts: float = LONG) -> "Future[int]":
    """Let the next answer be lost that is worth it; the loop has begun when it answers again."""
    lost = proxy.inflict(Fault(Kind.LOST_ANSWER, "victim", lasts=lasts))
    assert "victim" in proxy.programs()
    return lost


def backends(server: Server, program: str) -> int:
    with psycopg.connect(server.dsn(), autocommit=True) as owner:
        query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
        return owner.execute(query, [program]).fetchall()[0][0]


def kept(server: Server, note: str) -> bool:
    with psycopg.connect(server.dsn(), autocommit=True) as owner:
        query = "SELECT EXISTS (SELECT FROM kept WHERE note = %s)"
        return owner.execute(query, [note]).fetchall()[0][0]


def begun(proxy: Proxy, fault: Fault) -> None:
    """Let a fault begin, and go on while it lasts."""
    hits = proxy.hits[fault.kind]
    proxy.inflict(fault)
    wait_until(lambda: proxy.hits[fault.kind] > hits, what="the fault's beginning")


def test_bytes_pass_unchanged_while_nothing_is_wrong(client: psycopg.Connection) -> None:
    text = "ä" * 500_000

    assert client.execute("SELECT %s::text", [text]).fetchone() == (text,)


def test_latency_delays_each_answer(proxy: Proxy, client: psycopg.Connection) -> None:
    begun(proxy, Fault(Kind.LATENCY, "victim", lasts=LONG, delay=0.1))
    began_at = time.monotonic()

    client.execute("SELECT 1")

    assert time.monotonic() - began_at >= 0.2


def test_a_throttle_lets_one_byte_a_second_pass(proxy: Proxy, client: psycopg.Connection) -> None:
    fault = Fault(Kind.THROTTLE, "victim", 1.5, directions=frozenset({Direction.TO_CLIENT}))
    begun(proxy, fault)
    began_at = time.monotonic()

    # The rest of the answer comes when the throttle is opened.
    assert client.execute("SELECT 1").fetchone() == (1,)

    assert time.monotonic() - began_at >= 0.9


def test_a_black_hole_acknowledges_nothing_so_its_client_loses_patience(
    tcp_server: Server, proxy: Proxy
) -> None:
    with connect(tcp_server, proxy, "impatient", tcp_user_timeout="700") as client:
        begun(proxy, Fault(Kind.BLACKHOLE, "impatient", lasts=LONG))

        with pytest.raises(psycopg.OperationalError, match="timed out"):
            client.execute("SELECT 1")

    # Half open: its session knows nothing of it.
    assert backends(tcp_server, "impatient") == 1


def test_what_was_sent_into_a_short_black_hole_arrives_later(
    proxy: Proxy, client: psycopg.Connection
) -> None:
    begun(proxy, Fault(Kind.BLACKHOLE, "victim", lasts=0.5))

    assert client.execute("SELECT 1").fetchone() == (1,)


def test_nobody_new_comes_through_a_black_hole(tcp_server: Server, proxy: Proxy) -> None:
    with connect(tcp_server, proxy, "late comer"):
        begun(proxy, Fault(Kind.BLACKHOLE, "late comer", lasts=LONG))

    with pytest.raises(psycopg.errors.ConnectionTimeout):
        connect(tcp_server, proxy, "late comer", connect_timeout="2")
    with connect(tcp_server, proxy, "somebody else") as other:
        assert other.execute("SELECT 1").fetchone() == (1,)


def test_a_session_behind_a_black_hole_ends_when_the_hole_has_closed(
    tcp_server: Server, proxy: Proxy
) -> None:
    with connect(tcp_server, proxy, "forgotten", tcp_user_timeout="300") as client:
        begun(proxy, Fault(Kind.BLACKHOLE, "forgotten", lasts=1.5))
        with pytest.raises(psycopg.OperationalError):
            client.execute("SELECT 1")

    wait_until(lambda: backends(tcp_server, "forgotten") == 0, what="the session's end")


def test_swallowed_bytes_are_acknowledged_and_their_connection_is_reset_in_the_end(
    tcp_server: Server, proxy: Proxy
) -> None:
    # A short patience of TCP's does not help: everything was acknowledged.
    with connect(tcp_server, proxy, "swallowed", tcp_user_timeout="200") as client:
        begun(proxy, Fault(Kind.SWALLOW, "swallowed", lasts=1.0))
        began_at = time.monotonic()

        with pytest.raises(psycopg.OperationalError):
            client.execute("INSERT INTO kept VALUES ('swallowed')")

    assert time.monotonic() - began_at >= 0.7
    assert not kept(tcp_server, "swallowed")


def test_one_half_of_a_connection_can_end(proxy: Proxy, client: psycopg.Connection) -> None:
    fault = Fault(Kind.HALF_CLOSE, "victim", directions=frozenset({Direction.TO_CLIENT}))

    assert proxy.inflict(fault).result() == 1

    with socket.socket(fileno=client.fileno()) as end:
        end.settimeout(5)
        assert end.recv(1) == b""
        # The other half still takes what it is given.
        assert end.send(b"Q") == 1
        end.detach()


def test_a_server_that_hears_no_more_ends_the_session(
    tcp_server: Server, proxy: Proxy, client: psycopg.Connection
) -> None:
    fault = Fault(Kind.HALF_CLOSE, "victim", directions=frozenset({Direction.TO_SERVER}))

    assert proxy.inflict(fault).result() == 1

    wait_until(lambda: backends(tcp_server, "victim") == 0, what="the session's end")


def test_a_reset_is_felt_by_both_ends(
    tcp_server: Server, proxy: Proxy, client: psycopg.Connection
) -> None:
    with connect(tcp_server, proxy, "bystander") as bystander:
        assert proxy.inflict(Fault(Kind.RESET, "victim")).result() == 1

        with socket.socket(fileno=client.fileno()) as end:
            end.settimeout(5)
            with pytest.raises(ConnectionResetError):
                end.recv(1)
            end.detach()
        wait_until(lambda: backends(tcp_server, "victim") == 0, what="the session's end")
        assert bystander.execute("SELECT 1").fetchone() == (1,)


def test_the_answer_to_a_commit_is_lost_and_the_commit_is_not(
    tcp_server: Server, proxy: Proxy, client: psycopg.Connection
) -> None:
    # What is inside the transaction is answered; only its end is not.
    lost = losing(proxy)
    client.autocommit = False
    client.execute("INSERT INTO kept VALUES (%s)", ["committed"])
    client.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        client.commit()

    assert lost.result() == 1
    assert proxy.lost == {("victim", "COMMIT"): 1}
    assert kept(tcp_server, "committed")


@pytest.mark.parametrize("way", ["simple", "extended", "prepared"])
def test_the_answer_to_a_statement_that_commits_by_itself_is_lost(
    way: str, tcp_server: Server, proxy: Proxy, client: psycopg.Connection
) -> None:
    def insert() -> None:
        if way == "simple":
            client.execute("INSERT INTO kept VALUES ('simple')")
        else:
            client.execute("INSERT INTO kept VALUES (%s)", [way], prepare=way == "prepared")

    if way == "prepared":
        insert()
    lost = losing(proxy)

    with pytest.raises(psycopg.OperationalError):
        insert()

    assert lost.result() == 1
    assert kept(tcp_server, way)


def test_nothing_is_lost_of_a_transaction_that_is_rolled_back(
    proxy: Proxy, client: psycopg.Connection
) -> None:
    lost = losing(proxy, 0.5)

    with client.transaction():
        client.execute("INSERT INTO kept VALUES ('never')")
        raise psycopg.Rollback

    assert lost.result() == 0
    assert client.execute("SELECT 1").fetchone() == (1,)


def test_a_server_that_is_away_refuses_as_it_would_without_a_proxy(proxy: Proxy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    with a_proxy(port) as other, pytest.raises(psycopg.OperationalError):
        psycopg.connect(host="127.0.0.1", port=other.port, user="x", connect_timeout=5)


def test_both_directions_are_meant_where_none_is_named() -> None:
    assert Fault(Kind.SWALLOW).directions == BOTH == frozenset(Direction)
