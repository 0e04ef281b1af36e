"""Migrations, interrupted at every statement: run again they always come to the same schema."""

from functools import cache
from unittest.mock import patch

import psycopg

from faults.crash.names import LINES
from faults.crash.server import Server
from faults.crash.world import Scenario, World
from faults.evidence import install
from relevo.db.dsn import with_session
from relevo.db.migrate import ENGINE, migrate, migration_status, running
from relevo.db.migrate.lines import load_lines

BEFORE = 3
"""The migrations that the version before had."""

JOBS = """
INSERT INTO relevo.jobs (tenant_id, kind, payload)
SELECT t.id, 'crash.outside', jsonb_build_object('ref', 'old-' || n)
FROM relevo.tenants AS t
CROSS JOIN generate_series(1, 3) AS n
"""

CATALOG = """
SELECT 'column', c.relname, a.attname, format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull
FROM pg_attribute AS a
JOIN pg_class AS c ON c.oid = a.attrelid
WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relnamespace = ANY (%(ours)s)
UNION ALL
SELECT 'relation', c.relname, c.relkind::text,
       concat_ws(' ', c.relacl::text, c.reloptions::text, c.relrowsecurity, c.relforcerowsecurity)
FROM pg_class AS c
WHERE c.relnamespace = ANY (%(ours)s)
UNION ALL
SELECT 'index', i.indrelid::regclass::text, pg_get_indexdef(i.indexrelid), i.indisvalid::text
FROM pg_index AS i
JOIN pg_class AS c ON c.oid = i.indrelid
WHERE c.relnamespace = ANY (%(ours)s)
UNION ALL
SELECT 'constraint', k.conrelid::regclass::text, k.conname, pg_get_constraintdef(k.oid)
FROM pg_constraint AS k
WHERE k.connamespace = ANY (%(ours)s)
UNION ALL
SELECT 'function', p.proname, pg_get_functiondef(p.oid), p.proacl::text
FROM pg_proc AS p
WHERE p.pronamespace = ANY (%(ours)s)
UNION ALL
SELECT 'trigger', t.tgrelid::regclass::text, t.tgname, t.tgenabled::text
FROM pg_trigger AS t
JOIN pg_class AS c ON c.oid = t.tgrelid
WHERE c.relnamespace = ANY (%(ours)s) AND NOT t.tgisinternal AND t.tgname NOT LIKE 'evidence_%%'
UNION ALL
SELECT 'policy', p.tablename, p.policyname,
       concat_ws(' ', p.cmd, p.roles::text, p.qual, p.with_check)
FROM pg_policies AS p
WHERE p.schemaname IN ('relevo', 'evaluations')
UNION ALL
SELECT 'setting', r.rolname, s.setconfig::text, ''
FROM pg_db_role_setting AS s
JOIN pg_roles AS r ON r.oid = s.setrole
JOIN pg_database AS d ON d.oid = s.setdatabase
WHERE d.datname = current_database()
ORDER BY 1, 2, 3, 4
"""
OURS = "SELECT array_agg(oid) FROM pg_namespace WHERE nspname IN ('relevo', 'evaluations')"


def _migrate(world: World) -> None:
    with world.counting():
        _run(world)


def _run(world: World) -> None:
    migrate(with_session(world.dsn, application_name=f"relevo migrate {world.name}"), LINES)


def _old(world: World) -> None:
    """The schema of the version before, with jobs that wait."""
    loaded = {
        name: migrations[:BEFORE] if name == ENGINE.name else migrations
        for name, migrations in load_lines(LINES).items()
    }
    with patch.object(running, "load_lines", lambda _: loaded):
        _run(world)
    install(world.dsn)
    for number in range(1, 4):
        world.witness.note("intent", ref=f"old-{number}")
    world.run(JOBS)


def _again(world: World) -> None:
    _run(world)
    install(world.dsn)
    world.some(inside=1)


def _unlike_a_whole_one(world: World) -> list[str]:
    pending = [one for one in migration_status(world.dsn, LINES) if one.state.value != "applied"]
    problems = [f"{one.line} {one.version} is {one.state}" for one in pending]
    whole = _whole(world.server)
    found = set(catalog(world.dsn))
    problems += [f"only after the crash: {row}" for row in sorted(found - whole, key=str)]
    return problems + [f"missing after the crash: {row}" for row in sorted(whole - found, key=str)]


@cache
def _whole(server: Server) -> frozenset[tuple[str, ...]]:
    with server.migrated() as dsn:
        return frozenset(catalog(dsn))


def catalog(dsn: str) -> list[tuple[str, ...]]:
    """Answer everything that migrations make, as text."""
    with psycopg.Connection.connect(dsn) as owner:
        ((ours,),) = owner.execute(OURS).fetchall()
        return owner.execute(CATALOG.encode(), {"ours": ours}).fetchall()


MIGRATING = (
    Scenario(
        "migrate",
        _migrate,
        again=_again,
        problems=_unlike_a_whole_one,
        is_migrated=False,
        is_alone=True,
    ),
    Scenario(
        "migrate from before",
        _migrate,
        prepare=_old,
        again=_again,
        problems=_unlike_a_whole_one,
        is_migrated=False,
    ),
)
