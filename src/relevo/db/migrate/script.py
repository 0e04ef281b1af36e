"""Print everything as one psql script, for an administrator who lets nobody else create roles.

The script applies what is missing and records it, so that a later migration
finds nothing to do. It says nothing of the database: it can be read, reviewed
and run again.
"""

from collections.abc import Iterator, Sequence
from importlib.resources import files

from relevo.db.dsn import PLAN_SETTINGS, WORKER_ROLE
from relevo.db.identity import current_environment
from relevo.db.identity import statements as identity_statements
from relevo.db.migrate.lines import Line, Migration, index_built_by, load_lines
from relevo.db.migrate.session import LOCK_KEY, STATEMENTS, Patience
from relevo.db.statements import Statement

_WHOLE = """\
BEGIN;
@hold@;
@body@
@record@
COMMIT;
"""

_INDEX = """\
SELECT pg_catalog.format('DROP INDEX CONCURRENTLY %I.%I', @schema@, @index@)
FROM (@find@) AS found (is_valid)
WHERE NOT found.is_valid
\\gexec
SELECT NOT EXISTS (@find@) AS relevo_build \\gset
\\if :relevo_build
@body@;
\\endif
"""

_GUARDED = """\

-- @line@ @file@
SELECT NOT EXISTS (
    SELECT FROM relevo.migrations WHERE line = @quoted_line@ AND version = @version@
) AS relevo_pending \\gset
\\if :relevo_pending
SET lock_timeout = @lock_timeout@;
@body@
\\endif
"""


def migration_script(lines: Sequence[Line], *, environment: str | None = None) -> str:
    """The SQL that creates roles, schema and tables, for psql.

    Args:
        lines: The lines of the applications; the engine's own is always included.
        environment: The marker to pin unless psql is given another one; by default
            `RELEVO_ENVIRONMENT` or the host's name.

    Raises:
        MigrationError: The files of a line are misnamed, misnumbered or unsafe.
    """
    known = load_lines(lines)
    migrations = [migration for line in known.values() for migration in line]
    rows = (
        f"            ({_quote(each.line)}, {each.version}, {_quote(each.checksum)})"
        for each in migrations
    )
    head = files("relevo.db.migrate").joinpath("script_head.sql").read_text(encoding="utf-8")
    settings = (
        f'ALTER ROLE {WORKER_ROLE} IN DATABASE :"DBNAME" SET {name} = {_quote(value)};'
        for name, value in PLAN_SETTINGS.items()
    )
    values = {
        "environment": _quote(current_environment(environment).replace("\\", "\\\\")),
        "lock_key": str(LOCK_KEY),
        "known": ",\n".join(rows),
        "lines": ", ".join(map(_quote, known)),
        "role_settings": "\n".join(settings),
    }
    return "".join([_fill(head, values), *_body(migrations)])


def _body(migrations: Sequence[Migration]) -> Iterator[str]:
    yield _inlined(STATEMENTS["create_ledger"], {}) + ";\n"
    for migration in migrations:
        patience = Patience()
        wait = patience.lock_for if migration.has_transaction else patience.build_for
        values = {
            "line": migration.line,
            "file": migration.file,
            "quoted_line": _quote(migration.line),
            "version": str(migration.version),
            "lock_timeout": str(int(wait * 1000)),
            "body": _applied(migration),
        }
        yield _fill(_GUARDED, values)
    pin = _inlined(identity_statements()["pin_identity"], {"environment": ":'environment'"})
    yield f"\n{pin};\nRESET ROLE;\n"


def _applied(migration: Migration) -> str:
    """The body of one migration with the row of the ledger that says so."""
    row = {
        "line": _quote(migration.line),
        "version": str(migration.version),
        "name": _quote(migration.name),
        "checksum": _quote(migration.checksum),
    }
    record = _inlined(STATEMENTS["record_migration"], row) + ";"
    if migration.has_transaction:
        hold = _inlined(STATEMENTS["hold_vacuum_off"], {})
        return _fill(_WHOLE, {"hold": hold, "body": migration.text.strip(), "record": record})
    return "".join([*map(_alone, migration.statements), record])


def _alone(statement: str) -> str:
    """One statement outside a transaction, safe to be run again after a kill."""
    index = index_built_by(statement)
    if not index:
        return f"{statement};\n"
    names = {"schema": _quote(index.schema), "name": _quote(index.name)}
    find = _inlined(STATEMENTS["find_index"], names)
    values = {"schema": names["schema"], "index": names["name"], "find": find, "body": statement}
    return _fill(_INDEX, values)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _inlined(statement: Statement, literals: dict[str, str]) -> str:
    return statement.sql % literals


def _fill(template: str, values: dict[str, str]) -> str:
    """Put values into places, each place once, so that no value is read as a template."""
    pieces = template.split("@")
    return "".join(values[piece] if place % 2 else piece for place, piece in enumerate(pieces))
