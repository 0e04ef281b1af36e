"""`relevo doctor`: each check is made to fail by what it is there to find."""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from real_command import Command

import workers
from factories import a_job, a_worker
from relevo.cli.doctor.command import CHECKS
from relevo.db.drivers import run
from relevo.engine.jobs.rescue import postpone_unserved


def examined(command: Command, *words: str) -> dict[str, dict[str, Any]]:
    answer = command("doctor", "-o", "json", *words)
    checks = {check["check"]: check for check in json.loads(answer.stdout)["checks"]}
    failed = any(check["status"] == "fail" for check in checks.values())
    assert answer.returncode == (5 if failed else 0), answer.stderr
    return checks


def test_a_healthy_database_passes_every_check(
    relevo: Command, connection: psycopg.Connection
) -> None:
    a_worker(connection)
    connection.commit()

    checks = examined(relevo)

    # The suite's own server runs without autovacuum.
    assert checks.pop("autovacuum")["status"] == "warn"
    # An application's own: nothing says here where mail goes.
    assert checks.pop("mail")["status"] == "warn"
    assert {code: each for code, each in checks.items() if each["status"] != "ok"} == {}
    assert {*checks, "autovacuum"} == {check.code for check in CHECKS}


def test_before_the_first_migration_it_says_so_and_no_more(
    nowhere: Command, empty_database: str
) -> None:
    nowhere.variables["RELEVO_DSN"] = empty_database

    checks = examined(nowhere)

    assert checks["schema"]["status"] == "fail"
    assert "relevo db migrate" in checks["schema"]["fix"]
    assert "claim_plan" not in checks


INVALIDATE = """
UPDATE pg_index
SET indisvalid = false
WHERE indexrelid = 'relevo.jobs_claim'::regclass
"""

DAMAGES = [
    ("row_security", "fail", "ALTER TABLE relevo.jobs NO FORCE ROW LEVEL SECURITY"),
    ("row_security", "fail", "ALTER TABLE evaluations.cycles DISABLE ROW LEVEL SECURITY"),
    ("indexes", "fail", "DROP INDEX relevo.jobs_finished"),
    ("indexes", "fail", "DROP INDEX relevo.jobs_prune"),
    ("indexes", "fail", INVALIDATE),
    ("claim_plan", "fail", "DROP INDEX relevo.jobs_claim"),
    ("identity", "fail", "UPDATE relevo.installation SET environment = 'production'"),
    ("schema", "fail", "DELETE FROM relevo.migrations WHERE line = 'evaluations'"),
    ("schema", "fail", "UPDATE relevo.migrations SET checksum = 'edited'"),
    ("schema", "warn", "INSERT INTO relevo.migrations VALUES ('relevo', 9999, 'later', 'x')"),
    ("workers", "warn", "SELECT"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "status", "damage"), DAMAGES)
def test_what_is_broken_is_found(
    relevo: Command, connection: psycopg.Connection, check: str, status: str, damage: str
) -> None:
    connection.execute(damage.encode())
    connection.commit()

    found = examined(relevo)[check]

    assert found["status"] == status, found
    assert found["fix"]


@pytest.mark.parametrize(
    ("check", "setting"),
    [
        ("isolation", "default_transaction_isolation = 'repeatable read'"),
        ("server", "default_transaction_read_only = on"),
    ],
)
def test_settings_of_the_database_are_seen(
    relevo: Command, connection: psycopg.Connection, check: str, setting: str
) -> None:
    name = sql.Identifier(connection.info.dbname)
    connection.execute(sql.SQL("ALTER DATABASE {} SET ").format(name) + sql.SQL(setting))
    connection.commit()

    assert examined(relevo)[check]["status"] != "ok"


def test_a_limit_of_connections_is_compared_with_what_a_worker_needs(
    relevo: Command, connection: psycopg.Connection
) -> None:
    name = sql.Identifier(connection.info.dbname)
    connection.execute(sql.SQL("ALTER DATABASE {} CONNECTION LIMIT 20").format(name))
    connection.commit()

    assert examined(relevo)["connections"]["status"] == "warn"
    assert examined(relevo, "--connections", "10")["connections"]["status"] == "ok"


def test_a_login_that_may_not_be_a_worker_is_found(
    relevo: Command, database: str, server: str
) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE ROLE relevo_doctor_stranger LOGIN")
        try:
            dsn = make_conninfo(database, user="relevo_doctor_stranger")
            checks = examined(relevo, "--dsn", dsn)
        finally:
            connection.execute("DROP ROLE relevo_doctor_stranger")

    assert checks["roles"]["status"] == "fail"
    assert checks["session"]["status"] == "fail"


def test_it_does_not_claim_while_it_explains(
    relevo: Command, connection: psycopg.Connection, database: str
) -> None:
    before = workers.query(database, "SELECT pg_stat_get_tuples_updated('relevo.jobs'::regclass)")

    examined(relevo)

    after = workers.query(database, "SELECT pg_stat_get_tuples_updated('relevo.jobs'::regclass)")
    assert before == after


def test_an_empty_listen_dsn_means_polling_and_is_said(relevo: Command) -> None:
    found = examined(relevo, "--listen-dsn", "")["listen"]

    assert found["status"] == "warn"


def test_listen_through_a_transaction_pooler_is_found_and_a_direct_one_mends_it(
    relevo: Command, database: str, tmp_path: Path
) -> None:
    with pooled(database, tmp_path) as dsn:
        through = examined(relevo, "--dsn", dsn)
        mended = examined(relevo, "--dsn", dsn, "--listen-dsn", database)

    assert through["listen"]["status"] == "warn"
    assert "RELEVO_LISTEN_DSN" in through["listen"]["fix"]
    assert mended["listen"]["status"] == "ok"
    # This pooler is told to ignore `options`, so the session has neither role nor settings.
    assert through["session"]["status"] == "fail"


@contextmanager
def pooled(dsn: str, folder: Path) -> Iterator[str]:
    """The database through pgbouncer, one server session for each transaction."""
    program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")
    if program is None:
        pytest.skip("pgbouncer is not installed")
    at = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    folder.chmod(0o777)
    for above in folder.parents[:3]:
        if above.owner() == folder.owner():
            above.chmod(0o755)
    (folder / "users").write_text(f'"{at["user"]}" ""\n')
    (folder / "ini").write_text(
        f"[databases]\n{at['dbname']} = host={at['host']} port={at['port']} user={at['user']}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = any\npool_mode = transaction\nlogfile = {folder}/log\n"
        f"pidfile = {folder}/pid\nignore_startup_parameters = options,extra_float_digits\n"
    )
    user = ["-u", "nobody"] if Path("/root").owner() == folder.owner() else []
    process = subprocess.Popen(
        [program, *user, str(folder / "ini")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    through = make_conninfo(host="127.0.0.1", port=str(port), user=at["user"], dbname=at["dbname"])
    try:
        workers.wait_until(lambda: _answers(through), what=f"pgbouncer, see {folder}/log")
        yield through
    finally:
        process.terminate()
        process.wait(30)


def _answers(dsn: str) -> bool:
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError:
        return False
    return True


def test_a_paused_queue_is_told_with_its_reason_and_its_time(
    relevo: Command, connection: psycopg.Connection
) -> None:
    connection.execute(
        "INSERT INTO relevo.pauses (scope, name, paused_until, reason) "
        "VALUES ('queue', 'mail', '2999-01-01', 'the server is away'), "
        "('queue', 'old', '2001-01-01', 'long ago')"
    )
    connection.commit()

    found = examined(relevo)["pauses"]

    assert found["status"] == "warn"
    assert "mail paused until 2999-01-01" in found["why"]
    assert "the server is away" in found["why"]
    assert "old" not in found["why"]
    (pause,) = found["figures"]["pauses"]
    assert pause["paused_until"].startswith("2999-01-01")
    assert (pause["scope"], pause["name"], pause["reason"]) == (
        "queue",
        "mail",
        "the server is away",
    )


def test_a_limit_of_zero_is_told_with_what_removes_it(
    relevo: Command, connection: psycopg.Connection
) -> None:
    relevo("limits", "set", "queue", "mail", "0")
    relevo("limits", "set", "kind", "other.kind", "1")

    found = examined(relevo)["limits"]

    assert found["status"] == "warn"
    assert "queue mail" in found["why"]
    assert "other.kind" not in found["why"]
    assert "`relevo limits remove queue mail`" in found["fix"]
    assert found["figures"]["limits"] == [{"scope": "queue", "name": "mail", "measure": "running"}]


@pytest.mark.parametrize(("waited", "status"), [("1 second", "warn"), ("1 hour", "fail")])
def test_due_jobs_that_nobody_runs_are_found(
    relevo: Command, connection: psycopg.Connection, waited: str, status: str
) -> None:
    a_job(connection, queue="orphans")
    connection.execute("UPDATE relevo.jobs SET available_at = now() - %s::interval", [waited])
    a_worker(connection)
    connection.commit()

    found = examined(relevo)["due_jobs"]

    assert found["status"] == status
    assert "(orphans) 1" in found["why"]
    (jobs,) = found["figures"]["jobs"]
    assert (jobs["kind"], jobs["queue"], jobs["due"]) == ("test.work", "orphans", 1)
    assert jobs["seconds"] >= (3600 if status == "fail" else 1)


@pytest.mark.parametrize("job", [{}, {"attempt": 1, "started_at": "2001-01-01"}], ids=str)
def test_jobs_that_workers_put_off_because_nobody_serves_their_kind_stay_found(
    relevo: Command, connection: psycopg.Connection, job: dict[str, Any]
) -> None:
    a_job(connection, kind="orphan", created_at="2001-01-01", **job)
    a_job(connection, kind="orphan", available_at="2100-01-01")
    a_worker(connection)
    put_off = run(connection, postpone_unserved("default"))
    connection.commit()

    found = examined(relevo)["due_jobs"]

    assert put_off == {"orphan": 1}
    assert found["status"] == "fail"
    assert "orphan (default) 1" in found["why"]


def test_a_job_for_later_of_a_queue_that_nobody_serves_is_not_due_yet(
    relevo: Command, connection: psycopg.Connection
) -> None:
    a_job(connection, queue="orphans", created_at="2001-01-01")
    connection.execute("UPDATE relevo.jobs SET available_at = now() + interval '20 seconds'")
    a_worker(connection)
    connection.commit()

    found = examined(relevo)["due_jobs"]

    assert found["status"] == "ok"
    assert found["figures"] == {"jobs": []}


def test_the_mail_settings_are_looked_at_before_a_mail_is_due(relevo: Command) -> None:
    unset = examined(relevo)["mail"]
    relevo.variables |= {
        "RELEVO_SMTP_URL": "smtp://127.0.0.1:2525",
        "RELEVO_SMTP_FROM": "hr@example.com",
    }

    assert "RELEVO_SMTP_URL" in unset["why"]
    assert examined(relevo)["mail"]["why"] == "mail goes to 127.0.0.1:2525"


def test_mail_is_left_out_where_another_application_runs_and_nothing_is_set_for_it(
    relevo: Command,
) -> None:
    by_flag = examined(relevo, "--app", "shop.jobs:app")
    relevo.variables["RELEVO_APP"] = "shop.jobs:app"
    by_variable = examined(relevo)
    relevo.variables["RELEVO_SMTP_URL"] = "smtp://127.0.0.1:2525"
    with_settings = examined(relevo)

    assert "mail" not in by_flag
    assert "mail" not in by_variable
    assert "RELEVO_SMTP_FROM" in with_settings["mail"]["why"]
