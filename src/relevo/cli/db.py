"""`relevo db`: prepare the database, and say how it stands."""

import sys
from collections.abc import Mapping, Sequence

import click
import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from relevo.api import perform
from relevo.cli.database import Database
from relevo.cli.declare import group, option
from relevo.cli.exits import Exit
from relevo.cli.language import gettext as _
from relevo.cli.language import ngettext
from relevo.cli.ready import describe, say_differences
from relevo.cli.shell import Shell, options, pass_shell
from relevo.cli.tenancy import VARIABLE as TENANCY
from relevo.cli.waiting import count_by_queue, list_waiting, say_waiting
from relevo.db.dsn import WORKER_ROLE, with_session
from relevo.db.identity import IdentityCheck, Mode, adopt, check_identity, set_mode
from relevo.db.migrate import (
    MigrationState,
    MigrationStatus,
    Step,
    migrate,
    migration_script,
    migration_status,
)

_environment = option(
    "--environment",
    metavar="NAME",
    help="The marker that tells this database from its copies; "
    "else RELEVO_ENVIRONMENT or the name of the host.",
)


@group("db")
@options()
def db() -> None:
    """Prepare the database and say how it stands."""


@db.command("init")
@option(
    "--tenants",
    type=click.Choice([mode.value for mode in Mode]),
    envvar=TENANCY,
    help="Whether there is one tenant, never mentioned, or many; else RELEVO_TENANTS.",
)
@_environment
@options()
@pass_shell
def initialise(shell: Shell, tenants: str | None, environment: str | None) -> None:
    """Create the database if it is missing, its roles and its schema."""
    with shell.database() as database:
        created = _create_if_missing(database)
        if created:
            shell.out.note(_("created the database %(address)s") % {"address": database.address})
        steps = _migrate(shell, database, environment)
        if tenants is not None:
            with database.connect() as connection:
                perform(connection, set_mode(Mode(tenants)))
        _show_steps(shell, database, steps, created=created)


@db.command("migrate")
@_environment
@options()
@pass_shell
def apply(shell: Shell, environment: str | None) -> None:
    """Apply the migrations that are missing; run it again after any interruption."""
    with shell.database() as database:
        database.require()
        steps = _migrate(shell, database, environment)
        _show_steps(shell, database, steps)


@db.command("status")
@option("--check", is_flag=True, help="End with exit code 5 unless everything is applied.")
@options()
@click.pass_context
def status(ctx: click.Context, *, check: bool) -> None:
    """Say of every migration whether it is applied."""
    shell = ctx.ensure_object(Shell)
    with shell.database() as database:
        database.require()
        states = migration_status(database.dsn, shell.lines())
    current = all(each.state is MigrationState.APPLIED for each in states)
    if shell.out.as_json:
        shell.out.json({"current": current, "migrations": [_status_fields(s) for s in states]})
    else:
        columns = [_("line"), _("version"), _("name"), _("state"), _("applied at")]
        words = _state_words()
        rows = [(s.line, f"{s.version:04d}", s.name, words[s.state], s.applied_at) for s in states]
        shell.out.table(columns, rows)
    if check and not current:
        ctx.exit(Exit.CHECK_FAILED)


@db.command("sql")
@_environment
@options(database=False, output=False)
@pass_shell
def script(shell: Shell, environment: str | None) -> None:
    """Print roles, schema and migrations as one script for psql."""
    click.echo(migration_script(shell.lines(), environment=environment), nl=False)


@db.command("adopt")
@_environment
@option("--yes", is_flag=True, help="Adopt without asking.")
@options()
@pass_shell
def adopt_database(shell: Shell, environment: str | None, *, yes: bool) -> None:
    """Let workers deliver from this database, although it is a copy."""
    with shell.database() as database, database.connect() as connection:
        before = perform(connection, check_identity(environment))
        with database.connect(WORKER_ROLE) as working:
            waiting = count_by_queue(perform(working, list_waiting()))
        if not before.matches:
            _warn_of(shell, before, waiting)
            if not yes:
                _ask(shell)
        with connection.transaction():
            now = perform(connection, adopt(environment))
    if shell.out.as_json:
        shell.out.json(
            {
                "differed": before.differences,
                "waiting": waiting,
                "system_identifier": now.system_identifier,
                "database": now.database,
                "environment": now.environment,
            }
        )
    elif before.matches:
        shell.out.line(_("it was this database already: %(found)s") % {"found": describe(now)})
    else:
        shell.out.line(
            _("workers deliver from %(found)s now; before it was %(pinned)s")
            % {"found": describe(now), "pinned": describe(before.pinned)}
        )


def _warn_of(shell: Shell, before: IdentityCheck, waiting: Mapping[str, int]) -> None:
    """Say what adopting would let out."""
    shell.out.note(say_differences(before))
    shell.out.note(
        _("jobs that workers would run from here: %(jobs)s") % {"jobs": say_waiting(waiting, {})}
        if waiting
        else _("no job is waiting")
    )


def _ask(shell: Shell) -> None:
    """End the command unless somebody says yes; nobody is no yes."""
    if not sys.stdin.isatty():
        raise click.UsageError(
            _(
                "workers would deliver from this database, and there is no terminal to ask on; "
                "add --yes if they should"
            )
        )
    if not click.confirm(_("Let workers deliver from this database?"), err=True):
        shell.out.note(_("nothing was changed: workers deliver nothing from this database"))
        click.get_current_context().exit(Exit.ERROR)


def _migrate(shell: Shell, database: Database, environment: str | None) -> list[Step]:
    with shell.out.progress(_("migrating")) as show:
        done: list[Step] = []

        def report(step: Step) -> None:
            done.append(step)
            show(len(done))

        return migrate(database.dsn, shell.lines(), environment=environment, report=report)


def _show_steps(
    shell: Shell, database: Database, steps: Sequence[Step], *, created: bool = False
) -> None:
    if shell.out.as_json:
        shell.out.json(
            {
                "created": created,
                "applied": [
                    {
                        "line": step.line,
                        "version": step.version,
                        "name": step.name,
                        "seconds": round(step.seconds, 3),
                    }
                    for step in steps
                ],
            }
        )
        return
    for step in steps:
        shell.out.line(f"{step.line} {step.version:04d} {step.name} ({step.seconds:.2f} s)")
    count = len(steps)
    shell.out.line(
        ngettext(
            "%(count)d migration applied to %(address)s",
            "%(count)d migrations applied to %(address)s",
            count,
        )
        % {"count": count, "address": database.address}
        if count
        else _("%(address)s is up to date") % {"address": database.address}
    )


def _create_if_missing(database: Database) -> bool:
    """Create the database that the connection string names; answer whether it was missing."""
    name = str(conninfo_to_dict(database.dsn).get("dbname") or "")
    try:
        psycopg.connect(database.dsn).close()
    except psycopg.OperationalError as error:
        try:
            maintenance = psycopg.connect(
                with_session(database.dsn, application_name="relevo db init"),
                dbname="postgres",
                autocommit=True,
            )
        except psycopg.OperationalError:
            raise database.unreachable(error) from error
        with maintenance:
            query = "SELECT FROM pg_catalog.pg_database WHERE datname = %s"
            if not name or maintenance.execute(query, [name]).fetchone() is not None:
                raise database.unreachable(error) from error
            maintenance.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return True
    return False


def _status_fields(state: MigrationStatus) -> dict[str, object]:
    return {
        "line": state.line,
        "version": state.version,
        "name": state.name,
        "state": state.state,
        "applied_at": state.applied_at,
    }


def _state_words() -> dict[MigrationState, str]:
    return {
        MigrationState.APPLIED: _("applied"),
        MigrationState.PENDING: _("pending"),
        MigrationState.CHANGED: _("changed since it was applied"),
        MigrationState.UNKNOWN: _("unknown to this release"),
    }
