"""Lines of migrations made up for one test, and what a database looks like afterwards."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import psycopg

from relevo.db.embedded.binaries import locate
from relevo.db.migrate import Line, Patience

# Tries often and shortly, so that no test waits for the real patience.
HASTY = Patience(lock_for=0.05, build_for=5, tries=200, pause=0.01, turn_for=60)


def a_line(folder: Path, files: Mapping[str, str], name: str = "shop") -> Line:
    """A line of migrations with these files, in a package of its own."""
    package = f"line_{uuid4().hex}"
    (folder / package).mkdir()
    for file, text in files.items():
        (folder / package / file).write_text(text)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return Line(name, package)


def edit(folder: Path, line: Line, file: str, text: str) -> None:
    (folder / line.package / file).write_text(text)


def rows(dsn: str, query: str, *params: object) -> list[tuple]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path = ''")
        return connection.execute(query.encode(), params or None).fetchall()


_SHAPE = r"""
SELECT 'column', c.oid::regclass::text, a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
    || ' ' || a.attnotnull || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '')
    || a.attidentity::text
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relkind = 'r' AND c.relnamespace::regnamespace::text !~ '^(pg_|information_schema)'
UNION ALL
SELECT 'index', indrelid::regclass::text, pg_get_indexdef(indexrelid) || indisvalid
FROM pg_index WHERE indrelid >= 16384 AND indrelid::regclass::text !~ '^pg_toast'
UNION ALL
SELECT 'constraint', conrelid::regclass::text, conname || pg_get_constraintdef(oid) || convalidated
FROM pg_constraint WHERE conrelid >= 16384
UNION ALL
SELECT 'policy', polrelid::regclass::text, polname || polroles::regrole[]::text
    || coalesce(pg_get_expr(polqual, polrelid), '')
FROM pg_policy
UNION ALL
SELECT 'trigger', tgrelid::regclass::text, pg_get_triggerdef(oid)
FROM pg_trigger WHERE NOT tgisinternal
UNION ALL
SELECT 'table', oid::regclass::text, relrowsecurity || ' ' || relforcerowsecurity || ' '
    || coalesce(reloptions::text, '') || relowner::regrole::text || coalesce(relacl::text, '')
FROM pg_class WHERE oid >= 16384 AND relkind IN ('r', 'S')
    AND relnamespace::regnamespace::text !~ '^pg_'
UNION ALL
SELECT 'function', oid::regprocedure::text, pg_get_functiondef(oid) FROM pg_proc
WHERE oid >= 16384 AND prokind = 'f'
UNION ALL
SELECT 'migration', line, version || name || checksum FROM relevo.migrations
UNION ALL
SELECT 'installation', mode, environment FROM relevo.installation
UNION ALL
SELECT 'tenant', id::text, slug FROM relevo.tenants
ORDER BY 1, 2, 3
"""


def shape(dsn: str) -> list[tuple]:
    """Everything that migrations make, to compare two databases."""
    return rows(dsn, _SHAPE)


def psql(dsn: str, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script as an administrator would."""
    given = [word for name, value in variables.items() for word in ("-v", f"{name}={value}")]
    command = [locate() / "psql", "-X", "-q", *given, "-f", "-", dsn]
    return subprocess.run(command, input=script, capture_output=True, text=True, check=False)
