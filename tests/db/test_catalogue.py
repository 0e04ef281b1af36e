"""What the catalogue must say of every table, the engine's and the applications'.

Each rule is a query for what breaks it; the last test breaks each rule once and
looks whether it is found.
"""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

pytestmark = pytest.mark.core

WITHOUT_TENANT = [
    "relevo.ended_workers",
    "relevo.installation",
    "relevo.limits",
    "relevo.migrations",
    "relevo.pauses",
    "relevo.permits",
    "relevo.queues",
    "relevo.tenants",
    "relevo.workers",
]

OURS = "NOT (n.nspname ~ '^pg_' OR n.nspname = 'information_schema')"
TABLES = f"""
    SELECT c.oid, c.oid::regclass::text AS name, c.relrowsecurity, c.relforcerowsecurity,
        a.attnum AS tenant, a.attnotnull, format_type(a.atttypid, NULL) AS tenant_type
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
    WHERE c.relkind IN ('r', 'p') AND {OURS}
"""  # noqa: S608 - two constants of this file
TENANT_TABLES = f"SELECT * FROM ({TABLES}) AS t WHERE tenant IS NOT NULL"  # noqa: S608 - the same

RULES = {
    "the tenant is a uuid and never null": """
        SELECT name FROM tenant_tables WHERE NOT attnotnull OR tenant_type <> 'uuid'
    """,
    "the tenant exists": """
        SELECT name FROM tenant_tables t WHERE NOT EXISTS (
            SELECT FROM pg_constraint k
            WHERE k.conrelid = t.oid AND k.contype = 'f' AND k.convalidated
              AND k.confrelid = 'relevo.tenants'::regclass AND k.conkey = ARRAY[t.tenant]
        )
    """,
    "there is a primary key": """
        SELECT name FROM tenant_tables t
        WHERE NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = t.oid AND i.indisprimary)
    """,
    "every key and unique index starts with the tenant": """
        SELECT i.indexrelid::regclass::text
        FROM tenant_tables t JOIN pg_index i ON i.indrelid = t.oid
        WHERE (i.indisunique OR i.indisexclusion) AND i.indkey[0] <> t.tenant
    """,
    "every index is valid": """
        SELECT i.indexrelid::regclass::text FROM all_tables t JOIN pg_index i ON i.indrelid = t.oid
        WHERE NOT (i.indisvalid AND i.indisready)
    """,
    "every link between tenants' tables carries the tenant first": """
        SELECT k.conname::text FROM tenant_tables t
        JOIN pg_constraint k ON k.conrelid = t.oid AND k.contype = 'f'
        JOIN tenant_tables target ON target.oid = k.confrelid
        WHERE k.conkey[1] <> t.tenant OR k.confkey[1] <> target.tenant OR NOT k.convalidated
    """,
    "row-level security is on, for the owner too": """
        SELECT name FROM tenant_tables WHERE NOT (relrowsecurity AND relforcerowsecurity)
    """,
    "a policy for everybody holds reads and writes to the tenant": """
        SELECT name FROM tenant_tables t WHERE NOT EXISTS (
            SELECT FROM pg_policy p
            WHERE p.polrelid = t.oid AND p.polroles = '{0}' AND p.polcmd = '*'
              AND pg_get_expr(p.polqual, p.polrelid)
                  LIKE '(tenant_id = ( SELECT relevo.current_tenant()%'
              AND pg_get_expr(p.polwithcheck, p.polrelid) = pg_get_expr(p.polqual, p.polrelid)
        )
    """,
    "no other policy lets anybody but the worker through": """
        SELECT p.polname::text FROM tenant_tables t JOIN pg_policy p ON p.polrelid = t.oid
        WHERE p.polroles <> ARRAY['relevo_worker'::regrole::oid]
          AND pg_get_expr(coalesce(p.polqual, p.polwithcheck), p.polrelid)
              NOT LIKE '%current_tenant()%'
    """,
    "views see what their reader sees": """
        SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind = 'v' AND ours
          AND NOT coalesce(c.reloptions, '{}') @> '{security_invoker=true}'
    """,
    "no copy of rows is kept outside row-level security": """
        SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind = 'm' AND ours
    """,
    "functions do not depend on the caller's search path": """
        SELECT p.oid::regproc::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE ours
          AND NOT EXISTS (SELECT FROM unnest(p.proconfig) AS s WHERE s LIKE 'search_path=%')
    """,
    "only these functions work with the owner's rights": """
        SELECT p.oid::regproc::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE ours AND p.prosecdef AND p.oid::regproc::text NOT IN (
            'relevo.system_identifier', 'relevo.make_archive_month', 'relevo.drop_archive_month'
        )
    """,
    "nobody but the worker has the archive's months made and dropped": """
        SELECT p.oid::regproc::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS granted
        WHERE ours AND p.prosecdef AND p.oid::regproc::text <> 'relevo.system_identifier'
          AND granted.grantee NOT IN (p.proowner, 'relevo_worker'::regrole)
    """,
    "no index of jobs mentions what a claim or a heartbeat changes": """
        SELECT DISTINCT i.indexrelid::regclass::text FROM pg_index i
        JOIN pg_attribute a ON a.attrelid = i.indrelid
        WHERE i.indrelid = 'relevo.jobs'::regclass
          AND a.attname IN ('state', 'worker', 'attempt', 'started_at')
          AND (a.attnum = ANY (i.indkey) OR EXISTS (
              SELECT FROM pg_depend d
              WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
                AND d.refobjid = i.indrelid AND d.refobjsubid = a.attnum
          ))
    """,
}


@pytest.fixture
def catalogue(server: str, template: str) -> Iterator[psycopg.Connection]:
    """A connection to the migrated template itself; what a test changes is rolled back."""
    with psycopg.connect(make_conninfo(server, dbname=template)) as opened:
        yield opened
        opened.rollback()


def breaches(connection: psycopg.Connection, rule: str) -> list[str]:
    query = RULES[rule].replace(" ours", f" {OURS}")
    # What names a table then names its schema, but for the catalogue's own.
    connection.execute("SET LOCAL search_path = ''")
    shared = f"WITH all_tables AS ({TABLES}), tenant_tables AS ({TENANT_TABLES}) "
    return [row[0] for row in connection.execute((shared + query).encode()).fetchall()]


@pytest.mark.parametrize("rule", RULES)
def test_the_catalogue_holds(catalogue, rule):
    assert breaches(catalogue, rule) == []


@pytest.mark.parametrize("rule", RULES)
def test_a_month_of_the_archive_keeps_to_every_rule(catalogue, rule):
    """Red when a month is made without policies: who names it would pass by those of the parent."""
    catalogue.execute("SET LOCAL ROLE relevo_worker")
    catalogue.execute("SELECT relevo.make_archive_month(now())")
    catalogue.execute("RESET ROLE")

    assert breaches(catalogue, rule) == []


def test_the_tables_without_tenant_are_these(catalogue):
    query = f"SELECT name FROM ({TABLES}) AS t WHERE tenant IS NULL ORDER BY name"  # noqa: S608 - the same

    assert [row[0] for row in catalogue.execute(query.encode())] == WITHOUT_TENANT


def test_the_tables_with_tenants_include_those_of_applications(catalogue):
    schemas = f"SELECT DISTINCT split_part(name, '.', 1) FROM ({TENANT_TABLES}) AS t ORDER BY 1"  # noqa: S608 - the same

    assert [row[0] for row in catalogue.execute(schemas.encode())] == ["evaluations", "relevo"]


BAD = "CREATE TABLE public.bad (tenant_id uuid NOT NULL, id integer);"
LINKED = "CREATE TABLE public.bad (tenant_id uuid, run integer, job bigint,"


@pytest.mark.parametrize(
    ("rule", "change", "found"),
    [
        (
            "the tenant is a uuid and never null",
            "CREATE TABLE public.bad (tenant_id uuid)",
            "public.bad",
        ),
        (
            "the tenant is a uuid and never null",
            "CREATE TABLE public.bad (tenant_id text NOT NULL)",
            "public.bad",
        ),
        ("the tenant exists", BAD, "public.bad"),
        ("there is a primary key", BAD, "public.bad"),
        (
            "every key and unique index starts with the tenant",
            BAD + "CREATE UNIQUE INDEX bad_id ON public.bad (id, tenant_id)",
            "public.bad_id",
        ),
        (
            "every index is valid",
            (
                "UPDATE pg_index SET indisvalid = false"
                " WHERE indexrelid = 'relevo.jobs_claim'::regclass"
            ),
            "relevo.jobs_claim",
        ),
        (
            "every link between tenants' tables carries the tenant first",
            "ALTER TABLE relevo.jobs ADD UNIQUE (id);"
            + LINKED
            + "CONSTRAINT bad_job FOREIGN KEY (job) REFERENCES relevo.jobs (id))",
            "bad_job",
        ),
        ("row-level security is on, for the owner too", BAD, "public.bad"),
        (
            "row-level security is on, for the owner too",
            "ALTER TABLE relevo.jobs NO FORCE ROW LEVEL SECURITY",
            "relevo.jobs",
        ),
        ("a policy for everybody holds reads and writes to the tenant", BAD, "public.bad"),
        (
            "a policy for everybody holds reads and writes to the tenant",
            "ALTER POLICY jobs_tenant ON relevo.jobs WITH CHECK (true)",
            "relevo.jobs",
        ),
        (
            "no other policy lets anybody but the worker through",
            "CREATE POLICY bad ON relevo.jobs FOR SELECT USING (true)",
            "bad",
        ),
        (
            "views see what their reader sees",
            "CREATE VIEW public.bad AS SELECT FROM relevo.jobs",
            "bad",
        ),
        (
            "no copy of rows is kept outside row-level security",
            "CREATE MATERIALIZED VIEW public.bad AS SELECT FROM relevo.jobs",
            "bad",
        ),
        (
            "functions do not depend on the caller's search path",
            "CREATE FUNCTION public.bad() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
            "public.bad",
        ),
        (
            "only these functions work with the owner's rights",
            "ALTER FUNCTION relevo.current_tenant() SECURITY DEFINER",
            "relevo.current_tenant",
        ),
        (
            "nobody but the worker has the archive's months made and dropped",
            "GRANT EXECUTE ON FUNCTION relevo.drop_archive_month() TO relevo_web",
            "relevo.drop_archive_month",
        ),
        (
            "no index of jobs mentions what a claim or a heartbeat changes",
            "CREATE INDEX bad ON relevo.jobs (tenant_id, started_at)",
            "relevo.bad",
        ),
        (
            "no index of jobs mentions what a claim or a heartbeat changes",
            "CREATE INDEX bad ON relevo.jobs (tenant_id) WHERE state = 'running'",
            "relevo.bad",
        ),
        (
            "no index of jobs mentions what a claim or a heartbeat changes",
            "CREATE INDEX bad ON relevo.jobs (tenant_id, (attempt + 1))",
            "relevo.bad",
        ),
    ],
)
def test_a_breach_of_the_rule_is_found(catalogue, rule, change, found):
    catalogue.execute(change.encode())

    assert found in breaches(catalogue, rule)


def test_every_rule_is_broken_once():
    broken = test_a_breach_of_the_rule_is_found.pytestmark[0].args[1]

    assert {rule for rule, *_ in broken} == set(RULES)
