"""The page about finished jobs: its SQL runs as it stands there, and its commands exist."""

import re

import click
import psycopg
from pages import DOCS, Page

from archiving import archive_on, archived, overdue_jobs
from factories import value
from relevo.cli.archive import archive
from relevo.db.drivers import run
from relevo.engine.archive import make_months
from relevo.engine.jobs.prune import prune

ABOUT = "UPDATE relevo.jobs SET aggregate_id = %s"


def test_the_page_about_finished_jobs(connection: psycopg.Connection) -> None:
    read, purge = Page("how-to/keep-finished-jobs.md").blocks("sql")
    first, second = purge.split(";\n")[:2]
    archive_on(connection)
    for about in ("2026", "4711"):
        overdue_jobs(connection, 1, at="2026-02-03 00:00+00")
        connection.execute(ABOUT, [about])
        run(connection, make_months())
        run(connection, prune())
    overdue_jobs(connection, 1)
    connection.execute(ABOUT, ["4711"])

    found = connection.execute(read.encode()).fetchall()
    purged = [connection.execute(each.encode()).rowcount for each in (first, second)]

    assert [row[2] for row in found] == ["completed"]
    assert purged == [1, 1]
    assert [row["aggregate_id"] for row in archived(connection)] == ["2026"]
    assert value(connection, "SELECT count(*) FROM relevo.jobs") == 0


def test_the_reference_has_the_commands_and_options_of_the_archive() -> None:
    page = (DOCS / "reference" / "command-line.md").read_text(encoding="utf-8")
    section = page.partition("\n### archive\n")[2].partition("\n### ")[0]
    commands = [archive.get_command(click.Context(archive), name) for name in archive.commands]
    own = {
        max(parameter.opts, key=len)
        for command in commands
        for parameter in (command.params if command else [])
        if isinstance(parameter, click.Option)
    } - {"--dsn", "--lang", "--output", "--debug"}

    assert {name for name in archive.commands if f"`archive {name}`" in page} == {*archive.commands}
    assert set(re.findall(r"^\| `(--[\w-]+)", section, re.MULTILINE)) == own
