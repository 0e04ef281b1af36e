"""`relevo worker --processes`: real children, real signals, nothing lost and nothing twice."""

import os
import re
import signal
import subprocess
import tempfile
from pathlib import Path

import psycopg
import pytest
from real_command import COMMAND, PATIENCE, Command, read_until

import workers
from child_jobs import note, slow
from workers import query, unreachable, wait_until

APP = ("--app", "child_jobs:app")
TWO = ("worker", "--processes", "2", "--lease", "2s", *APP)

STARTED = re.compile(r"process (\S+)-(\d) started, pid (\d+)")


@pytest.fixture
def effects(database: str) -> None:
    workers.make_effects(database)


def pids(said: str) -> dict[int, int]:
    """The process that was started last in each place."""
    return {int(place): int(pid) for _, place, pid in STARTED.findall(said)}


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has reaped yet has."""
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return True


def done(dsn: str) -> dict[str, int]:
    return dict(query(dsn, "SELECT state, count(*) FROM relevo.jobs GROUP BY 1"))


def sessions(dsn: str) -> list[str]:
    return [name for (name,) in query(dsn, "SELECT name FROM relevo.workers ORDER BY 1")]


def test_all_processes_drain_and_the_parent_ends_well(
    relevo: Command, connection: psycopg.Connection, database: str, effects: None
) -> None:
    """Red when one process does it all, or when a drained child is started again."""
    note.enqueue_many(connection, [{"seconds": 0.3}] * 8)
    connection.commit()

    ran = relevo(*TWO, "--drain", "--concurrency", "1")

    assert ran.returncode == 0, ran.stderr
    assert done(database) == {"completed": 8}
    assert query(database, "SELECT count(*), count(DISTINCT pid) FROM public.effects") == [(8, 2)]
    assert len(STARTED.findall(ran.stderr)) == 2
    assert ran.stderr.count("ended with exit code 0") == 2
    assert ran.stderr.count("stopped; still waiting: 0") == 1


@pytest.mark.parametrize("written", ["text", "json"])
def test_each_line_of_a_child_says_whose_it_is(
    relevo: Command, connection: psycopg.Connection, database: str, written: str
) -> None:
    """Red when the lines of all children look alike: nobody could tell which one is ill."""
    # Nobody made the table that the handler writes to, so each start is told of.
    note.enqueue_many(connection, [{}] * 4)
    connection.commit()

    ran = relevo(*TWO, "--drain", "--log-format", written)

    failed = [line for line in ran.stderr.splitlines() if "failed: " in line]
    mark = re.compile(
        r" \S+:\d+-[12]: start 1 of" if written == "text" else r'"process": ?"\S+-[12]"'
    )
    assert len(failed) == 4
    assert all(mark.search(line) for line in failed)


def test_the_parent_says_once_that_all_serve_under_names_of_their_own(
    relevo: Command, database: str
) -> None:
    with relevo.started(*TWO) as process:
        said = read_until(process, "in 2 processes; stop it with Ctrl-C")
        names = wait_until(lambda: len(found := sessions(database)) == 2 and found)
        process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE)

    assert said.count(" serves ") == 1
    assert [name.rpartition("-") for name in names] == [
        (name.rpartition("-")[0], "-", str(place)) for place, name in enumerate(names, start=1)
    ]
    assert f":{process.pid}-1" in names[0]
    assert code == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_running_jobs_of_every_process_end(
    relevo: Command,
    connection: psycopg.Connection,
    database: str,
    effects: None,
    number: signal.Signals,
) -> None:
    slow.enqueue_many(connection, [{"seconds": 1.0}] * 4)
    connection.commit()

    with relevo.started(*TWO, "--concurrency", "2") as process:
        wait_until(lambda: len(workers.effects(database, "began")) == 4)
        process.send_signal(number)
        code = process.wait(PATIENCE)
        said = process.stderr.read() if process.stderr else ""

    assert code == 0
    assert done(database) == {"completed": 4}
    assert sessions(database) == []
    assert said.count("once more ends at once") == 1


def test_a_signal_for_the_whole_group_is_one_signal_for_each_process(
    relevo: Command, connection: psycopg.Connection, database: str, effects: None
) -> None:
    """Red when the parent passes a signal on that the terminal or systemd has sent to all."""
    slow.enqueue_many(connection, [{"seconds": 1.0}] * 2)
    connection.commit()
    process = subprocess.Popen(
        [COMMAND, *TWO, "--concurrency", "1"],
        env=relevo.environment,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until(lambda: len(workers.effects(database, "began")) == 2)
        os.killpg(process.pid, signal.SIGINT)
        code = process.wait(PATIENCE)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)

    assert code == 0
    assert done(database) == {"completed": 2}


def test_a_second_signal_ends_every_process_at_once(
    relevo: Command, connection: psycopg.Connection, database: str, effects: None
) -> None:
    slow.enqueue_many(connection, [{"seconds": 300}] * 2)
    connection.commit()

    with relevo.started(*TWO, "--grace", "5m", "--concurrency", "1") as process:
        children = pids(read_until(process, "in 2 processes"))
        wait_until(lambda: len(workers.effects(database, "began")) == 2)
        process.send_signal(signal.SIGINT)
        read_until(process, "once more ends at once")
        process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE)

    assert code == 128 + signal.SIGTERM
    assert all(map(is_gone, children.values()))


def test_killed_children_are_started_again_and_nothing_is_lost_or_done_twice(
    relevo: Command, connection: psycopg.Connection, database: str, effects: None
) -> None:
    note.enqueue_many(connection, [{"seconds": 0.05}] * 400)
    connection.commit()

    with relevo.started(*TWO, "--concurrency", "4") as process:
        said = read_until(process, "in 2 processes")
        for place in (1, 2):
            before = len(workers.effects(database))
            wait_until(lambda before=before: len(workers.effects(database)) > before + 10)
            os.kill(pids(said)[place], signal.SIGKILL)
            said += read_until(process, f"-{place} ended with signal 9 (SIGKILL), starting it")
            said += read_until(process, f"-{place} started")
        wait_until(lambda: done(database) == {"completed": 400}, 60)
        process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE)

    assert code == 0
    assert query(database, "SELECT count(*), count(DISTINCT job_id) FROM public.effects") == [
        (400, 400)
    ]
    assert len(STARTED.findall(said)) == 4
    assert query(database, "SELECT max(attempt - excused) <= 3 FROM relevo.jobs") == [(True,)]


def test_children_whose_parent_is_killed_finish_what_runs_and_end(
    relevo: Command, connection: psycopg.Connection, database: str, effects: None
) -> None:
    """Red without the line: the children would go on unseen."""
    slow.enqueue_many(connection, [{"seconds": 1.0}] * 20)
    connection.commit()

    with relevo.started(*TWO, "--concurrency", "1") as process:
        children = pids(read_until(process, "in 2 processes"))
        wait_until(lambda: len(workers.effects(database, "began")) == 2)
        process.kill()
        wait_until(lambda: all(map(is_gone, children.values())))

    assert len(children) == 2
    states = done(database)
    assert "running" not in states
    assert states["available"] >= 16
    assert query(database, "SELECT sum(losses), sum(excused) FROM relevo.jobs") == [(0, 0)]
    assert sessions(database) == []


def test_a_child_that_has_not_begun_ends_with_its_parent(relevo: Command, home: Path) -> None:
    """Red when only a worker watches the line: an import may hang for ever."""
    relevo.variables["HANGING_AFTER"] = str(home / "imported")

    with relevo.started("worker", "--processes", "2", "--app", "hanging_jobs:app") as process:
        hanging = wait_until(lambda: len(found := [*home.glob("imported.*")]) == 2 and found)
        process.kill()
        wait_until(lambda: all(is_gone(int(each.suffix[1:])) for each in hanging))


def test_a_child_that_has_not_begun_ends_with_the_first_signal(relevo: Command, home: Path) -> None:
    relevo.variables["HANGING_AFTER"] = str(home / "imported")

    with relevo.started("worker", "--processes", "2", "--app", "hanging_jobs:app") as process:
        wait_until(lambda: len([*home.glob("imported.*")]) == 2)
        process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE)

    assert code == 0


def test_a_child_that_is_asked_to_end_by_itself_is_replaced(relevo: Command, database: str) -> None:
    with relevo.started(*TWO) as process:
        said = read_until(process, "in 2 processes")
        os.kill(pids(said)[2], signal.SIGTERM)
        said = read_until(process, "-2 started")
        process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE)

    assert "-2 ended with exit code 0, starting it again in 0.5 s" in said
    assert code == 0


def test_children_that_all_keep_dying_end_the_parent_with_their_code(
    relevo: Command, database: str, server: str
) -> None:
    with relevo.started(*TWO) as process:
        children = pids(read_until(process, "in 2 processes"))
        with unreachable(server, database):
            for pid in children.values():
                os.kill(pid, signal.SIGKILL)
            code = process.wait(PATIENCE)
            said = process.stderr.read() if process.stderr else ""

    waits = re.findall(r"starting it again in ([\d.]+) s", said)
    assert code == 69
    assert "giving up" in said
    assert "the worker's processes end as soon as they start" in said
    assert set(waits) == {"0.5", "1.0", "2.0", "4.0"} or set(waits) == {
        "0.5", "1.0", "2.0", "4.0", "8.0"
    }  # fmt: skip


def test_a_database_that_is_a_copy_starts_no_child(relevo: Command) -> None:
    relevo.variables["RELEVO_ENVIRONMENT"] = "a-restored-copy"

    refused = relevo(*TWO)

    assert refused.returncode == 4
    assert STARTED.findall(refused.stderr) == []


def test_a_child_that_learns_of_a_copy_ends_the_whole(relevo: Command, database: str) -> None:
    """Red when such a child is started again and again: no start would ever succeed."""
    with relevo.started(*TWO) as process:
        children = pids(read_until(process, "in 2 processes"))
        query(database, "UPDATE relevo.installation SET environment = 'another'")
        os.kill(children[1], signal.SIGKILL)
        code = process.wait(PATIENCE)

    assert code == 4


def test_the_embedded_server_ends_after_the_last_child_of_a_killed_parent() -> None:
    with tempfile.TemporaryDirectory(prefix="relevo-cli-") as folder:
        Path(folder).chmod(0o755)
        command = Command(Path(folder))
        assert command("db", "init").returncode == 0

        with command.started("worker", "--processes", "2") as process:
            read_until(process, "in 2 processes")
            process.kill()
            wait_until(lambda: not (Path(folder) / "postgresql/data/postmaster.pid").exists())


def test_what_a_handler_starts_is_no_child_of_the_parent(
    relevo: Command, connection: psycopg.Connection, database: str, effects: None
) -> None:
    """The line stays out of the environment, and its end is not passed on."""
    with relevo.started(*TWO) as process:
        children = pids(read_until(process, "in 2 processes"))
        environment = Path(f"/proc/{children[1]}/environ").read_bytes()
        number = re.search(rb"RELEVO_LIFELINE=(\d+):", environment)
        assert number is not None
        flags = Path(f"/proc/{children[1]}/fdinfo/{int(number[1])}").read_text(encoding="utf-8")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0

    mode = re.search(r"flags:\s+(\d+)", flags)
    assert mode is not None
    assert int(mode[1], 8) & os.O_CLOEXEC
