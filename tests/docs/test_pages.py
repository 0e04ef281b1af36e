"""The Python and SQL of the pages run as they stand there, on a real database."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pages import Page
from psycopg.conninfo import conninfo_to_dict

from relevo import Cancelled, Embedded, Enqueued, perform, wake

ORDERS = "CREATE TABLE orders (id bigint PRIMARY KEY, closed_at timestamptz)"

# A table as docs/how-to/migrate.md asks for, with a row that the policies hide from nobody.
SHOP = """
CREATE SCHEMA shop;
CREATE TABLE shop.orders (
    tenant_id uuid NOT NULL,
    id bigint NOT NULL,
    total numeric,
    PRIMARY KEY (tenant_id, id)
);
ALTER TABLE shop.orders ENABLE ROW LEVEL SECURITY;
ALTER TABLE shop.orders FORCE ROW LEVEL SECURITY;
CREATE POLICY orders_tenant ON shop.orders USING (tenant_id = (SELECT relevo.current_tenant()));
CREATE POLICY orders_worker ON shop.orders TO relevo_worker USING (true);
INSERT INTO shop.orders VALUES ('00000000-0000-0000-0000-000000000001', 1, NULL);
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a package of that name, which the pages import."""
    folder = tmp_path / "shop"
    (folder / "migrations").mkdir(parents=True)
    for package in (folder, folder / "migrations"):
        (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [each for each in sys.modules if each.partition(".")[0] == "shop"]:
        del sys.modules[name]


def test_the_page_about_migrations(empty_database: str, shop: Path) -> None:
    page = Page("how-to/migrate.md")
    (python,) = page.blocks("python")
    (index, behind_policies) = page.blocks("sql")
    files = {"0001_orders": SHOP, "0002_total": index, "0003_fill": behind_policies}
    for name, text in files.items():
        (shop / "migrations" / f"{name}.sql").write_text(text, encoding="utf-8")
    names: dict[str, object] = {}

    page.run(python.replace("postgresql://owner@db/app", empty_database), names)

    steps = names["steps"]
    assert isinstance(steps, list)
    assert [f"{s.version:04d}_{s.name}" for s in steps if s.line == "shop"] == list(files)
    with psycopg.connect(empty_database) as connection:
        totals = connection.execute("SELECT total FROM shop.orders").fetchall()
        indexes = connection.execute("SELECT to_regclass('shop.orders_total')").fetchone()
    assert totals == [(0,)]
    assert indexes != (None,)


def test_the_page_about_the_embedded_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = Page("how-to/embedded-postgresql.md")
    start, settings, address, network = page.blocks("python")
    with tempfile.TemporaryDirectory(prefix="relevo-docs-") as home:
        # As root the server runs as somebody else, who has to get there.
        Path(home).chmod(0o755)
        monkeypatch.setenv("RELEVO_HOME", home)
        names: dict[str, object] = {}

        page.run(start, names)
        said = capsys.readouterr().out
        names["root"] = Path(home) / "other"
        page.run(settings, names)
        server = names["server"]
        assert isinstance(server, Embedded)
        with server:
            page.run(address, names)
            with psycopg.connect(server.dsn()) as connection:
                shown = connection.execute("SHOW max_connections").fetchone()
        page.run(network, names)

    assert "PostgreSQL" in said
    assert shown == ("200",)
    parts = conninfo_to_dict(str(names["dsn"]))
    assert parts["dbname"] == "appraisals"
    assert parts["options"] == "-c role=relevo_worker -c statement_timeout=5s"


def test_the_page_about_connections(connection: psycopg.Connection, shop: Path) -> None:
    page = Page("reference/connections.md")
    (sql,) = page.blocks("sql")
    (python,) = page.blocks("python")
    (shop / "orders.sql").write_text(sql, encoding="utf-8")
    connection.execute(ORDERS)
    connection.execute("INSERT INTO orders (id) VALUES (42)")
    names: dict[str, object] = {"connection": connection, "perform": perform}

    page.run(python, names)

    for closed in (True, False):
        page.run("answer = perform(connection, close_order(42))", names)
        assert names["answer"] is closed


def test_the_page_about_jobs(connection: psycopg.Connection) -> None:
    page = Page("reference/jobs.md")
    many, limits, back = page.blocks("python")
    (sql,) = page.blocks("sql")
    connection.execute(ORDERS)
    connection.execute("INSERT INTO orders (id) VALUES (7), (8)")

    connection.execute(sql.encode())
    perform(connection, wake("mail"))

    rows = connection.execute(
        "SELECT kind, state, aggregate_id, payload FROM relevo.jobs ORDER BY id"
    ).fetchall()
    assert rows == [
        ("mail.receipt", "available", "7", {"order_id": 7}),
        ("mail.receipt", "available", "8", {"order_id": 8}),
    ]

    names: dict[str, Any] = {}
    page.run(many, names)
    first, second, again = names["close"](connection, [1, 2, 1])
    assert (first.created, second.created, again) == (True, True, Enqueued(first.id, created=False))

    page.run(back, names)
    assert names["take_back"](connection, 2) == Cancelled(cancelled=1, asked=0)

    page.run(limits, names)
    job = names["post_to_42"].enqueue(connection, amount="12.50")
    lane = connection.execute(
        "SELECT lane_key, lane = relevo.lane_of(kind, lane_key) FROM relevo.jobs WHERE id = %s",
        [job.id],
    )
    assert lane.fetchone() == ("account 42", True)
    assert [len(kind.limits) for kind in names["app"].registry.kinds()] == [0, 2]
