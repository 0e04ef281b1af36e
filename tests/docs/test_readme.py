"""The README's code runs as it stands there, in order, on a real database."""

import re
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from relevo import Relevo, WorkerSettings

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)\)")

PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *ROOT.glob("docs/**/*.md")]
)


def test_the_first_five_minutes_run_as_written(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELEVO_DSN", database)
    blocks = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    # Annotations are read from the module of a handler, as in a file of its own.
    names: dict[str, object] = {"__name__": "receipts"}

    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)  # noqa: S102 -- the code is ours

    connection = names["conn"]
    app = names["app"]
    assert isinstance(connection, psycopg.Connection)
    assert isinstance(app, Relevo)
    settings = WorkerSettings(database, queues=("mail",), lease=timedelta(seconds=5), drain=True)
    worker = app.worker(settings)
    worker.start()
    assert worker.wait(30)
    rows = connection.execute(
        "SELECT kind, state, attempt, last_error FROM relevo.jobs ORDER BY id"
    ).fetchall()
    assert rows == [
        ("mail.receipt", "completed", 1, None),
        ("mail.receipt", "available", 1, "ConnectionError: the mail server does not answer"),
        ("order.ship", "completed", 1, None),
    ]
    assert connection.execute("SELECT count(*) FROM orders").fetchone() == (0,)
    connection.close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    links = LINK.findall(page.read_text(encoding="utf-8"))

    missing = [link for link in links if not (page.parent / link).exists()]

    assert missing == []
