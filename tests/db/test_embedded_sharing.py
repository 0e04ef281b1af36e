"""Several processes and one embedded server."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from embedded_support import (
    FAST,
    Client,
    a_place,
    account,
    clients,
    is_gone,
    kill_server,
    programs_for_all,
)

from relevo.db.embedded import Embedded
from relevo.db.embedded.errors import StartFailed

FORKS = """
import os, sys
from pathlib import Path
from relevo.db.embedded import Embedded

server = Embedded(Path(sys.argv[1]), settings={"fsync": "off"}).start()
child = os.fork()
if child == 0:
    answered = server.stop()
    server.__exit__(None, None, None)
    print("child:", answered, bool(server.dsn()), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(server.dsn(), flush=True)
sys.stdin.readline()
print(server.stop(), flush=True)
"""

FORKS_AND_DIES = """
import os, sys
from pathlib import Path
from relevo.db.embedded import Embedded

server = Embedded(Path(sys.argv[1]), settings={"fsync": "off"}).start()
if os.fork() == 0:
    print(os.getpid(), flush=True)
    sys.stdin.readline()
    os._exit(0)
os.kill(os.getpid(), 9)
"""

FORKS_A_USER = """
import os, sys
from pathlib import Path
from relevo.db.embedded import Embedded

server = Embedded(Path(sys.argv[1]), settings={"fsync": "off"}).start()
if os.fork() == 0:
    server.start()
    print("child", flush=True)
    sys.stdin.readline()
    print(server.stop(), flush=True)
    os._exit(0)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def place() -> Iterator[Path]:
    with a_place() as made:
        yield made


def identity(dsn: str) -> str:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT system_identifier FROM pg_control_system()").fetchone()
        assert row
        return str(row[0])


def test_four_processes_that_start_at_once_share_one_server(place: Path) -> None:
    """The gate lets one of them create the data and start; the others join."""
    with clients(place / "pg", count=4) as four:
        servers = {identity(client.hears()) for client in four}
        answers = [client.leaves() for client in four]

    assert len(servers) == 1
    assert answers == ["False", "False", "False", "True"]
    assert (place / "pg/server.log").read_text().count("starting PostgreSQL") == 1
    assert is_gone(place / "pg")


def test_the_last_user_out_stops_the_server(place: Path) -> None:
    server = Embedded(place / "pg", FAST).start()
    with clients(place / "pg") as [other]:
        other.hears()

        assert not server.stop()
        assert not is_gone(server.root)
        assert other.leaves() == "True"
    assert is_gone(server.root)


def test_two_users_in_one_process_are_two(place: Path) -> None:
    first = Embedded(place / "pg", FAST).start()
    second = Embedded(place / "pg", FAST).start()

    assert not first.stop()
    assert identity(second.dsn())
    assert second.stop()


def test_a_killed_user_does_not_keep_the_server(place: Path) -> None:
    """Its shared lock ended with it."""
    server = Embedded(place / "pg", FAST).start()
    with clients(place / "pg") as [other]:
        other.hears()
        other.is_killed()

    assert server.stop()
    assert is_gone(server.root)


def test_the_server_outlives_a_killed_starter_and_is_used_again(place: Path) -> None:
    with clients(place / "pg") as [starter]:
        before = identity(starter.hears())
        starter.is_killed()
        assert not is_gone(place / "pg")

    server = Embedded(place / "pg", FAST).start()

    assert identity(server.dsn()) == before
    assert server.log.read_text().count("starting PostgreSQL") == 1
    assert server.stop()


def test_a_user_keeps_its_use_when_another_restarts_a_killed_server(place: Path) -> None:
    server = Embedded(place / "pg", FAST).start()
    with clients(place / "pg") as [other]:
        other.hears()
        kill_server(server.root)

        server.start()

        assert not server.stop()
        assert other.leaves() == "True"


def test_ctrl_c_on_the_users_terminal_leaves_the_server_alone(place: Path) -> None:
    """The server lives in a session of its own, so the signal to the group passes it by."""
    with clients(place / "pg") as [starter]:
        dsn = starter.hears()
        with psycopg.connect(dsn) as connection:
            os.killpg(starter.process.pid, signal.SIGINT)
            starter.process.wait(30)

            assert connection.execute("SELECT 1").fetchone() == (1,)
    assert Embedded(place / "pg", FAST).start().stop()


def test_a_forked_child_can_neither_stop_nor_unlock_its_parents_server(place: Path) -> None:
    """A flock is shared across fork; the child's copy is closed, never unlocked."""
    with clients(place / "pg", script=FORKS) as [parent]:
        assert parent.hears() == "child: False True"
        assert identity(parent.hears())

        assert not Embedded(place / "pg", FAST).start().stop()
        assert parent.leaves() == "True"


def test_a_forked_child_does_not_keep_the_server_for_its_dead_parent(place: Path) -> None:
    with clients(place / "pg", script=FORKS_AND_DIES) as [parent]:
        child = int(parent.hears())
        os.kill(child, 0)

        assert Embedded(place / "pg", FAST).start().stop()
        parent.goes_on()


def test_a_forked_child_becomes_a_user_by_its_own_start(place: Path) -> None:
    with clients(place / "pg", script=FORKS_A_USER) as [parent]:
        assert parent.hears() == "child"

        assert not Embedded(place / "pg", FAST).start().stop()
        parent.goes_on()
        assert parent.hears() == "True"
    assert is_gone(place / "pg")


def test_a_start_waits_for_an_initdb_whose_starter_was_killed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An orphaned initdb holds the server's lock, so it is never met by a second one."""
    real = programs_for_all(place)
    slow = place / "bin"
    slow.mkdir()
    (slow / "postgres").symlink_to(real / "postgres")
    for fifo in ("begun", "go"):
        os.mkfifo(place / fifo)
        (place / fifo).chmod(0o666)
    wait = f'echo yes > "{place}/begun"\nread line < "{place}/go"\n'
    (slow / "initdb").write_text(f'#!/bin/sh\n{wait}exec "{real}/initdb" "$@"\n')
    (slow / "initdb").chmod(0o755)
    starter = Client(place / "pg", environment={"RELEVO_PG_BIN": str(slow)})
    assert (place / "begun").read_text() == "yes\n"
    starter.is_killed()
    starter.close()
    assert not is_gone(place / "pg")

    server = Embedded(place / "pg", FAST)
    second = threading.Thread(target=server.start)
    second.start()
    (place / "go").write_text("\n")
    second.join(60)

    assert identity(server.dsn())
    assert server.stop()


def test_a_server_that_somebody_else_started_on_the_data_is_never_doubled(place: Path) -> None:
    """PostgreSQL's own check by shared memory stays in force beside ours."""
    server = Embedded(place / "pg", FAST).start()
    pg_ctl = programs_for_all(place) / "pg_ctl"
    assert server.stop()
    sockets = f"-c unix_socket_directories='{server.root}/run'"
    by_hand = [pg_ctl, "-D", server.root / "data", "-s", "-w", "-o", sockets]
    # Nobody reads what it says: the server would keep a pipe of ours open.
    said = account().run([*by_hand, "-l", server.root / "run/log", "start"], log=subprocess.DEVNULL)
    assert said.returncode == 0

    try:
        with pytest.raises(StartFailed, match="pre-existing shared memory block"):
            server.start()
    finally:
        assert account().run([*by_hand, "-m", "immediate", "stop"]).returncode == 0
    assert server.start().stop()


if sys.platform == "linux":

    def test_the_server_is_nobodys_child(place: Path) -> None:
        """Init adopts it: no zombie is left with the starter when it ends."""
        server = Embedded(place / "pg", FAST).start()
        pid = int((server.root / "data/postmaster.pid").read_text().split()[0])

        status = Path(f"/proc/{pid}/status").read_text()

        assert f"PPid:\t{os.getpid()}\n" not in status
        assert os.getsid(pid) != os.getsid(0)
        assert server.stop()
