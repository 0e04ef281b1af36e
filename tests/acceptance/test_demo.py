"""`relevo demo` on real processes: its figures, what it leaves, and that it leaves nothing."""

import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from real_data import real_file
from relevo.db.embedded.binaries import locate

COMMAND = Path(sys.executable).parent / "relevo"
CHECK = Path(__file__).parents[2] / "checks" / "demo.sql"
PATIENCE = 120
SECRET = "s3cr3t-p4ss"  # noqa: S105 -- what no output may repeat


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Where the demonstration makes its folder; any account can enter, as /tmp is."""
    with tempfile.TemporaryDirectory(prefix="relevo-test-demo-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(scope="session")
def real_people() -> Path:
    """The real organisation of 107 people."""
    return real_file("hr_employees.csv")


def environment(temporary: Path, **variables: str) -> dict[str, str]:
    ours = ("RELEVO_", "LC_", "LANG", "DATABASE_URL", "PG")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(ours) or name == "RELEVO_PG_BIN"
    }
    return {**kept, "TMPDIR": str(temporary), **variables}


def relevo(temporary: Path, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [COMMAND, *words],
        env=environment(temporary, **variables),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def databases(server: str) -> list[str]:
    with psycopg.connect(server) as connection:
        rows = connection.execute("SELECT datname FROM pg_database WHERE datname LIKE '%demo%'")
        return [row[0] for row in rows]


def recomputed(dsn: str) -> dict[str, Any]:
    """What the SQL script says, through the program that people use."""
    psql = locate() / "psql"
    ended = subprocess.run(
        [psql, "--no-psqlrc", "-X", "-A", "-t", "-d", dsn, "-f", CHECK],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


def test_the_demo_adds_up_and_its_database_says_the_same(temporary: Path, real_people: Path):
    ended = relevo(temporary, "demo", "--people", str(real_people), "--keep", "-o", "json")

    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    try:
        assert said["people"] == 107
        assert said["managers"] == 18
        assert said["evaluations"] == {"total": 319, "active": 319}
        sent = said["notifications"]
        assert (sent["total"], sent["pending"]) == (107, 0)
        assert sent["delivered"] + sent["failed"] == 107
        assert sent["failed"] > 0
        assert sent["retried"] > 0
        assert said["second_activation"] == "refused"
        assert said["mail"]["distinct"] == sent["delivered"]
        assert said["mail"]["duplicates"] == 0
        assert said["adds_up"] is True

        proof = recomputed(said["dsn"])
        assert proof.pop("one_transaction") is True
        for figure, value in proof.items():
            if isinstance(value, dict):
                assert value == {name: said[figure][name] for name in value}, figure
            else:
                assert value == said[figure], figure
    finally:
        removed = relevo(temporary, "demo", "--remove", said["folder"])
    assert removed.returncode == 0, removed.stderr
    assert list(temporary.iterdir()) == []
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(said["dsn"])


def test_the_check_sees_a_mail_that_was_counted_and_never_sent(
    temporary: Path, server: str, real_people: Path
):
    """Mechanism: the script counts the server's answers on the rows, not the states alone."""
    words = ("demo", "--people", str(real_people), "--keep", "-o", "json", "--dsn", server)
    said = json.loads(relevo(temporary, *words).stdout)

    with psycopg.connect(said["dsn"], autocommit=True) as connection:
        connection.execute(
            "UPDATE relevo.jobs SET result = NULL WHERE id ="
            " (SELECT min(id) FROM relevo.jobs WHERE state = 'completed')"
        )
        proof = recomputed(said["dsn"])
    with psycopg.connect(server, autocommit=True) as connection:
        (name,) = databases(server)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    assert proof["adds_up"] is False
    assert proof["mail"]["accepted"] == said["mail"]["accepted"] - 1


def test_a_given_server_keeps_nothing_of_the_demo(temporary: Path, server: str):
    # The user's installation may have many tenants; the demonstration's own has one.
    variables = {"RELEVO_DSN": server, "RELEVO_TENANTS": "multi"}
    ended = relevo(temporary, "demo", "--size", "40", "--seed", "9", **variables)

    assert ended.returncode == 0, ended.stderr
    assert "It adds up: 40 = " in ended.stdout
    assert databases(server) == []
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_kept_demo_does_not_repeat_the_servers_password(temporary: Path, server: str, form: str):
    """Mechanism: the socket asks for no password, so any will do, and none may be shown."""
    dsn = make_conninfo(server, password=SECRET)

    ended = relevo(temporary, "demo", "--size", "10", "--keep", "-o", form, RELEVO_DSN=dsn)
    (name,) = databases(server)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    assert ended.returncode == 0, ended.stderr
    assert SECRET not in ended.stdout + ended.stderr
    assert name in ended.stdout + ended.stderr
    if form == "json":
        said = conninfo_to_dict(json.loads(ended.stdout)["dsn"])
        assert said == {**conninfo_to_dict(server), "dbname": name}
    assert "PGPASSWORD" in ended.stderr


def test_the_number_of_statements_does_not_depend_on_the_people(temporary: Path, server: str):
    few, more = (
        json.loads(relevo(temporary, "demo", "--size", size, "-o", "json", "--dsn", server).stdout)
        for size in ("10", "300")
    )

    assert few["activation_statements"] == more["activation_statements"] > 5
    assert (few["people"], more["people"]) == (10, 300)


def test_the_demo_speaks_spanish(temporary: Path, server: str):
    ended = relevo(temporary, "demo", "--size", "20", "--lang", "es", "--dsn", server)

    assert "Las cuentas cuadran: 20 = " in ended.stdout
    assert "se multiplican por 0.01" in ended.stderr


def test_a_file_with_problems_ends_the_demo_and_leaves_nothing(temporary: Path, server: str):
    file = temporary / "people.csv"
    with file.open("w", encoding="utf-8") as target:
        csv.writer(target).writerows([("id", "name", "email"), ("1", "Ana", "no address")])

    ended = relevo(temporary, "demo", "--people", str(file), "--dsn", server)

    assert ended.returncode == 1
    assert "the e-mail address cannot be written to" in ended.stdout
    assert databases(server) == []
    assert list(temporary.iterdir()) == [file]


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_interrupted_stops_and_removes_all_it_started(
    temporary: Path, asked: signal.Signals
):
    """Mechanism: the signal unwinds every block that has started something."""
    # Nothing ends soon: waits between retries are the usual ones.
    words = ("demo", "--size", "300", "--backoff", "1")
    with subprocess.Popen(
        [COMMAND, *words],
        env=environment(temporary),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if line.startswith("6."):
                    break
            # The worker has begun when it has said so in its log.
            (log,) = wait_for(
                lambda: [f for f in temporary.glob("*/worker.log") if f.stat().st_size]
            )
            workers = children(process.pid)
            process.send_signal(asked)
            process.communicate(timeout=PATIENCE)
        finally:
            process.kill()

    assert process.returncode == 130
    assert not log.exists()
    assert list(temporary.iterdir()) == []
    assert [pid for pid in workers if Path(f"/proc/{pid}").exists()] == []


def test_only_a_folder_of_a_demo_is_removed(temporary: Path):
    other = temporary / "other"
    other.mkdir()

    ended = relevo(temporary, "demo", "--remove", str(other))

    assert ended.returncode == 3
    assert other.is_dir()


def begun(temporary: Path) -> Path | None:
    return next((log for log in temporary.glob("*/worker.log") if log.stat().st_size), None)


def wait_for(condition: Any) -> Any:
    end = time.monotonic() + PATIENCE
    while not (answer := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return answer


def children(pid: int) -> list[int]:
    file = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(each) for each in file.read_text().split()] if file.exists() else []
