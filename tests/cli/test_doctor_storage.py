"""`relevo doctor` on what keeps the tables small; each holder of dead rows is a real one."""

import json
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from real_command import ENVIRONMENT, Command

from archiving import archive_on, overdue_jobs
from factories import a_worker, some_jobs
from relevo.cli.doctor import storage
from relevo.db.drivers import run
from relevo.db.embedded import Embedded
from relevo.db.identity import adopt
from relevo.db.migrate import ENGINE, Line, migrate
from relevo.engine.jobs.prune import BATCH
from workers import wait_until

EVALUATIONS = Line("evaluations", "relevo_apps.evaluations.migrations")

# The suite's own server has neither autovacuum nor prepared transactions.
SETTINGS = {"fsync": "off", "max_prepared_transactions": "4", "max_connections": "60"}


@pytest.fixture(scope="module")
def server_with_autovacuum() -> Iterator[str]:
    """The DSN of a migrated database on a server as people have it."""
    with tempfile.TemporaryDirectory(prefix="relevo-test-") as folder:
        # As root the server runs as somebody else, who has to get there.
        Path(folder).chmod(0o755)
        with Embedded(Path(folder) / "pg", settings=SETTINGS) as server:
            migrate(server.dsn(), [ENGINE, EVALUATIONS])
            with psycopg.connect(server.dsn()) as connection:
                run(connection, adopt(ENVIRONMENT))
                a_worker(connection, lease=3600)
            yield server.dsn()


@pytest.fixture
def dsn(server_with_autovacuum: str) -> Iterator[str]:
    yield server_with_autovacuum
    with psycopg.connect(server_with_autovacuum, autocommit=True) as connection:
        connection.execute("DELETE FROM relevo.jobs")
        connection.execute("UPDATE relevo.installation SET archiving = false")


@pytest.fixture
def relevo(home: Path, dsn: str) -> Command:
    return Command(home, {"RELEVO_DSN": dsn})


def examined(command: Command, check: str, *words: str) -> dict[str, Any]:
    answer = command("doctor", "-o", "json", *words)
    assert answer.returncode in {0, 5}, answer.stderr
    checks = {each["check"]: each for each in json.loads(answer.stdout)["checks"]}
    return checks[check]


@contextmanager
def held(dsn: str, *statements: str, name: str = "report") -> Iterator[psycopg.Connection]:
    """A session that has a snapshot and keeps it until the block ends."""
    with psycopg.connect(dsn, application_name=name) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM relevo.jobs")
        for statement in statements:
            connection.execute(statement.encode())
        yield connection
        if not connection.closed:
            connection.rollback()


def test_a_server_where_nobody_holds_anything_is_well(relevo: Command) -> None:
    checks = {code: examined(relevo, code) for code in ("autovacuum", "dead_rows", "retention")}

    assert {code: check["status"] for code, check in checks.items()} == dict.fromkeys(checks, "ok")
    assert checks["autovacuum"]["figures"].keys() == {
        "live_rows",
        "dead_rows",
        "dead_rows_by_table",
    }
    tables = checks["autovacuum"]["figures"]["dead_rows_by_table"]
    assert {"jobs", "attempts", "workers", "permits"} <= tables.keys()
    assert checks["retention"]["figures"] == {"overdue": 0, "archiving": False}


def test_a_transaction_is_told_of_when_it_is_older_than_ten_minutes(
    relevo: Command, dsn: str
) -> None:
    with held(dsn):
        young = examined(relevo, "dead_rows")
        old = examined(relevo, "dead_rows", "--transaction-age", "1ms")

    assert (young["status"], old["status"]) == ("ok", "warn")
    assert young["figures"]["oldest_seconds"] > 0
    assert "--transaction-age" in relevo("doctor", "--help").stdout
    assert "10m" in relevo("doctor", "--help").stdout


def test_a_snapshot_that_is_held_is_named_with_the_dead_rows_that_it_keeps(
    relevo: Command, dsn: str
) -> None:
    """F-072. Red when only sessions that idle are looked at, or the figures are not exported."""
    with psycopg.connect(dsn, autocommit=True) as owner:
        some_jobs(owner, 500)
        with held(dsn) as holder:
            pid = holder.info.backend_pid
            for _ in range(3):
                owner.execute("UPDATE relevo.jobs SET priority = 1")
            owner.execute("VACUUM relevo.jobs")
            owner.execute("SELECT pg_stat_force_next_flush()")
            found = examined(relevo, "dead_rows", "--transaction-age", "1ms")
            said = relevo("doctor", "--transaction-age", "1ms", "--lang", "pt").stdout

    assert found["status"] == "warn"
    assert f"process {pid} (report)" in found["why"]
    assert f"pg_terminate_backend({pid})" in found["fix"]
    figures = found["figures"]
    assert figures["dead_rows"] >= 1500
    assert figures["oldest_xmin_age"] >= 3
    assert f"{figures['dead_rows']} in relevo.jobs" in found["why"]
    assert [(each["kind"], each["pid"]) for each in figures["holders"]][:1] == [("session", pid)]
    assert "linhas mortas" in said


def test_a_transaction_that_wrote_and_sees_nothing_holds_too(relevo: Command, dsn: str) -> None:
    """Mechanism: the transaction's own number counts where there is no snapshot."""
    with psycopg.connect(dsn, application_name="import") as writer:
        writer.execute("CREATE TABLE public.imported ()")
        found = examined(relevo, "dead_rows", "--transaction-age", "1ms")
        writer.rollback()

    assert "(import)" in found["why"]


def test_a_prepared_transaction_that_was_forgotten_is_named(relevo: Command, dsn: str) -> None:
    with held(dsn, "CREATE TABLE public.forgotten ()", "PREPARE TRANSACTION 'half done'"):
        pass
    try:
        found = examined(relevo, "dead_rows", "--transaction-age", "1ms")
    finally:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("ROLLBACK PREPARED 'half done'")

    assert found["status"] == "warn"
    assert "'half done'" in found["why"]
    assert "ROLLBACK PREPARED 'half done'" in found["fix"]
    assert examined(relevo, "dead_rows", "--transaction-age", "1ms")["status"] == "ok"


def test_a_replication_slot_that_nobody_uses_is_named_however_young(
    relevo: Command, dsn: str
) -> None:
    """A standby that told what it still reads, and then left, keeps its slot's rows for ever."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SELECT pg_create_physical_replication_slot('gone_standby', true)")
        try:
            with a_standby(connection, dsn):
                in_use = examined(relevo, "dead_rows")
            wait_until(lambda: slot(connection) == (False, True), what="the slot to be left")
            left = examined(relevo, "dead_rows")
        finally:
            connection.execute("SELECT pg_drop_replication_slot('gone_standby')")

    assert in_use["status"] == "ok"
    assert [each["kind"] for each in in_use["figures"]["holders"]] == ["slot"]
    assert left["status"] == "warn"
    assert "'gone_standby'" in left["why"]
    assert "pg_drop_replication_slot('gone_standby')" in left["fix"]


@contextmanager
def a_standby(connection: psycopg.Connection, dsn: str) -> Iterator[None]:
    """Speak as a standby does that reads: say which rows it needs, in the protocol's own words."""
    place, number = connection.execute(
        "SELECT pg_current_wal_flush_lsn()::text, pg_current_xact_id()::text::bigint"
    ).fetchone()
    standby = psycopg.pq.PGconn.connect(make_conninfo(dsn, replication="true").encode())
    try:
        started = standby.exec_(f"START_REPLICATION SLOT gone_standby PHYSICAL {place}".encode())
        assert started.status == psycopg.pq.ExecStatus.COPY_BOTH, started.error_message
        xmin, epoch = number & 0xFFFFFFFF, number >> 32
        standby.put_copy_data(b"h" + struct.pack("!qIIII", 0, xmin, epoch, 0, 0))
        standby.flush()
        wait_until(lambda: slot(connection) == (True, True), what="the feedback to arrive")
        yield
    finally:
        standby.finish()


def slot(connection: psycopg.Connection) -> tuple[bool, bool]:
    """Whether the slot is in use, and whether it holds rows."""
    return connection.execute(
        "SELECT active, xmin IS NOT NULL FROM pg_replication_slots"
    ).fetchone()


def test_times_that_the_login_may_not_see_are_not_guessed(relevo: Command, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "CREATE ROLE relevo_doctor_blind LOGIN IN ROLE relevo_worker, relevo_web"
        )
        blind = make_conninfo(dsn, user="relevo_doctor_blind")
        try:
            with held(dsn) as holder:
                pid = holder.info.backend_pid
                found = examined(relevo, "dead_rows", "--transaction-age", "1ms", "--dsn", blind)
        finally:
            connection.execute("DROP ROLE relevo_doctor_blind")

    assert found["status"] == "ok"
    # The server's own vacuum may hold a snapshot at the same moment.
    seen = {holder["pid"]: holder["seconds"] for holder in found["figures"]["holders"]}
    assert seen[pid] is None
    hidden = storage._Holder("session", "x", 7, storage.HIDDEN_AGE + 1, None)
    assert hidden.is_too_old(600.0)
    assert "pg_read_all_stats" in hidden.said[1]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("autovacuum = off", "autovacuum is off"),
        ("autovacuum_naptime = '5min'", "only every 300 s"),
        ("track_counts = off", "track_counts is off"),
    ],
)
def test_a_setting_of_the_server_that_lets_dead_rows_grow_is_found(
    relevo: Command, dsn: str, setting: str, said: str
) -> None:
    name = setting.partition(" ")[0]
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET {setting}".encode())
        try:
            reload(connection, name, setting)
            found = examined(relevo, "autovacuum")
        finally:
            connection.execute(f"ALTER SYSTEM RESET {name}".encode())
            connection.execute("SELECT pg_reload_conf()")

    assert found["status"] == "warn"
    assert said in found["why"]
    assert name in found["fix"]


def reload(connection: psycopg.Connection, name: str, setting: str) -> None:
    """Wait until the server has read its settings again."""
    connection.execute("SELECT pg_reload_conf()")
    wanted = setting.partition(" = ")[2].strip("'")

    def is_read() -> bool:
        with psycopg.connect(connection.info.dsn) as other:
            return other.execute("SELECT current_setting(%s)", [name]).fetchone()[0] == wanted

    wait_until(is_read, what=setting)


@pytest.mark.parametrize("word", ["off", "false", "0"])
def test_a_table_that_autovacuum_leaves_out_is_found(relevo: Command, dsn: str, word: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            f"ALTER TABLE relevo.attempts SET (autovacuum_enabled = {word})".encode()
        )
        try:
            found = examined(relevo, "autovacuum")
        finally:
            connection.execute("ALTER TABLE relevo.attempts RESET (autovacuum_enabled)")

    assert (found["status"], found["why"]) == ("warn", "autovacuum leaves out relevo.attempts")


@pytest.mark.parametrize(
    ("archiving", "fix"), [(False, "see that a worker runs"), (True, "a worker of this release")]
)
def test_jobs_that_should_have_been_pruned_long_ago_are_found(
    relevo: Command,
    dsn: str,
    archiving: bool,  # noqa: FBT001 -- a parameter of the test
    fix: str,
) -> None:
    """Where only workers run that know no archive, nothing is pruned while it is on."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        if archiving:
            archive_on(connection)
        overdue_jobs(connection, BATCH + 1)
        just_now = examined(relevo, "retention")
        connection.execute("UPDATE relevo.jobs SET prune_at = now() - interval '11 minutes'")
        long_ago = examined(relevo, "retention")

    assert (just_now["status"], long_ago["status"]) == ("ok", "warn")
    assert long_ago["figures"] == {"overdue": BATCH + 1, "archiving": archiving}
    assert fix in long_ago["fix"]
