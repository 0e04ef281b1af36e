"""PgBouncer in transaction mode between the product and the tests' server.

With `RELEVO_TEST_POOLER=1` the suite's workers and the connections that its operations run on
go through it. Start-up options do not reach the server then, so that roles and settings are
those of a login's own, as operators have to give them. What a test looks at, prepares or takes
away is asked for directly. A test marked `direct` has no pooler, for the reason it gives.
"""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from relevo.db.dsn import ENGINE_SETTINGS, WEB_ROLE, WORKER_ROLE

WANTED = os.environ.get("RELEVO_TEST_POOLER", "") not in ("", "0")

WORKER = "relevo_pooled_worker"
WEB = "relevo_pooled_web"
_ROLE_OF = {WORKER: WORKER_ROLE, WEB: WEB_ROLE}


class Pooler:
    """A running PgBouncer before one server.

    Args:
        port: Where it listens, on this host.
        behind: The server's address.
        owner: The superuser.
    """

    def __init__(self, port: int, behind: tuple[str, str], owner: str) -> None:
        self.port = port
        self.behind = behind
        self.owner = owner

    def is_before(self, dsn: str) -> bool:
        """Whether a connection string names the server behind it."""
        return address_of(dsn) == self.behind

    def through(self, dsn: str, user: str | None = None) -> str:
        """The same database as the owner or as another login; options are what it drops."""
        given = conninfo_to_dict(dsn)
        name = given.get("application_name")
        return make_conninfo(
            host="127.0.0.1",
            port=str(self.port),
            user=user or self.owner,
            dbname=given["dbname"],
            **({} if name is None else {"application_name": name}),
        )

    def transactions(self) -> int:
        """How many transactions it has passed on."""
        console = make_conninfo(self.through("dbname=pgbouncer"))
        with psycopg.connect(console, autocommit=True) as connection:
            # The console speaks the simple protocol only.
            answer = connection.pgconn.exec_(b"SHOW STATS_TOTALS")
        names = [answer.fname(number) for number in range(answer.nfields)]
        column = names.index(b"xact_count")
        return sum(int(answer.get_value(row, column) or 0) for row in range(answer.ntuples))


def address_of(dsn: str) -> tuple[str, str]:
    """Host and port."""
    given = conninfo_to_dict(dsn)
    return str(given.get("host")), str(given.get("port"))


def make_logins(server: str) -> None:
    """Make logins whose role and settings are their own; the roles themselves exist."""
    with psycopg.connect(server, autocommit=True) as connection:
        for name, role in _ROLE_OF.items():
            login = sql.Identifier(name)
            if not connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [name]).fetchall():
                connection.execute(
                    sql.SQL("CREATE ROLE {} LOGIN IN ROLE {}").format(login, sql.Identifier(role))
                )
            settings = {"role": role, **(ENGINE_SETTINGS if role == WORKER_ROLE else {})}
            for setting, value in settings.items():
                connection.execute(
                    sql.SQL("ALTER ROLE {} SET {} = {}").format(
                        login, sql.Identifier(setting), sql.Literal(value)
                    )
                )


def drop_logins(server: str) -> None:
    """Drop them; nobody is connected any more."""
    with psycopg.connect(server, autocommit=True) as connection:
        for name in _ROLE_OF:
            connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(name)))


@contextmanager
def a_pooler(server: str) -> Iterator[Pooler]:
    """PgBouncer before a server, one of its sessions for each transaction."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/bin")
    if program is None:
        missing = "pgbouncer is not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    given = {name: str(value) for name, value in conninfo_to_dict(server).items()}
    with tempfile.TemporaryDirectory(prefix="relevo-pooler-") as root:
        folder = Path(root)
        # It refuses to run as root, and whom it runs as has to get there.
        folder.chmod(0o777)
        user = ["-u", "nobody"] if os.geteuid() == 0 else []
        with socket.create_server(("127.0.0.1", 0)) as found:
            pooler = Pooler(found.getsockname()[1], address_of(server), given["user"])
        _write(folder, pooler)
        process = subprocess.Popen(
            [program, "-q", *user, str(folder / "ini")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_for(pooler, process, folder / "log")
            yield pooler
        finally:
            process.terminate()
            process.wait(30)


def _write(folder: Path, pooler: Pooler) -> None:
    users = "".join(f'"{name}" ""\n' for name in (pooler.owner, *_ROLE_OF))
    (folder / "users").write_text(users)
    settings: dict[str, Any] = {
        "listen_addr": "127.0.0.1",
        "listen_port": pooler.port,
        "unix_socket_dir": "",
        "auth_type": "trust",
        "auth_file": folder / "users",
        "admin_users": pooler.owner,
        "pool_mode": "transaction",
        "default_pool_size": 20,
        "max_client_conn": 1000,
        # Else it waits for 15 s before it looks again for a server that was away.
        "server_login_retry": 1,
        "ignore_startup_parameters": "options,extra_float_digits",
        "logfile": folder / "log",
        "pidfile": folder / "pid",
    }
    lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
    host, port = pooler.behind
    (folder / "ini").write_text(
        f"[databases]\n* = host={host} port={port}\n[pgbouncer]\n{lines}", encoding="utf-8"
    )


def _wait_for(pooler: Pooler, process: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(600):
        try:
            psycopg.connect(pooler.through("dbname=postgres"), connect_timeout=2).close()
        except psycopg.OperationalError as error:
            assert process.poll() is None, log.read_text() if log.exists() else "it ended"
            reason = error
            _pause(process)
        else:
            return
    raise reason


def _pause(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(0.05)
    except subprocess.TimeoutExpired:
        return


_active: Pooler | None = None


@contextmanager
def active(pooler: Pooler | None) -> Iterator[None]:
    """Let what a test starts go through a pooler, or through none."""
    global _active  # noqa: PLW0603 -- helpers of the tests take a DSN and know no fixtures
    before, _active = _active, pooler
    try:
        yield
    finally:
        _active = before


def is_pooled(dsn: str) -> bool:
    """Whether `worker_dsn` and `connect` would take another way to this database."""
    return _active is not None and _active.is_before(dsn)


def worker_dsn(dsn: str) -> str:
    """Where a worker of the test's database connects."""
    return _active.through(dsn, WORKER) if _active and _active.is_before(dsn) else dsn


def caller_dsn(dsn: str) -> str:
    """Where a caller of the test's database connects, as the owner."""
    return _active.through(dsn) if _active and _active.is_before(dsn) else dsn


def is_through(dsn: str) -> bool:
    """Whether a connection string leads through the pooler."""
    return _active is not None and address_of(dsn) == ("127.0.0.1", str(_active.port))


def connect(dsn: str, role: str | None = None, **options: Any) -> psycopg.Connection:
    """A connection for the product's operations, as the owner or as a role."""
    if _active is None or not _active.is_before(dsn):
        given = {} if role is None else {"options": f"-c role={role}"}
        return psycopg.connect(dsn, **given, **options)
    user = next((name for name, its in _ROLE_OF.items() if its == role), None)
    assert role is None or user is not None, f"no login has the role {role}"
    # What callers have to say themselves behind a pooler.
    return psycopg.connect(_active.through(dsn, user), prepare_threshold=None, **options)
