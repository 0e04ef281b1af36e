"""The README's code runs as it stands there, in order, on a real database."""

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)\)")

PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *ROOT.glob("docs/**/*.md")]
)


def test_the_first_five_minutes_run_as_written(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks in their order: a file, lines typed after it, and commands beside them."""
    monkeypatch.setenv("RELEVO_DSN", database)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    steps = [
        (language, block)
        for language, block in BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
        if "make " not in block and "relevo up" not in block
    ]
    (_, module), *typed = steps
    (tmp_path / "receipts.py").write_text(module, encoding="utf-8")
    names: dict[str, object] = runpy.run_path(str(tmp_path / "receipts.py"))
    shown = ""

    # The test's database is a clone, which a worker would rightly refuse to serve.
    run_command("relevo db adopt --yes", tmp_path)
    for language, block in typed:
        if language == "python":
            exec(compile(block, "README.md", "exec"), names)  # noqa: S102 -- the code is ours
        else:
            for line in block.splitlines():
                shown += run_command(line, tmp_path)

    connection = names["conn"]
    assert isinstance(connection, psycopg.Connection)
    rows = connection.execute(
        "SELECT kind, state, attempt, last_error FROM relevo.jobs ORDER BY id"
    ).fetchall()
    assert rows == [
        ("mail.receipt", "completed", 1, None),
        ("mail.receipt", "available", 1, "ConnectionError: the mail server does not answer"),
        ("order.ship", "completed", 1, None),
    ]
    assert connection.execute("SELECT count(*) FROM orders").fetchone() == (0,)
    assert "the mail server does not answer" in shown
    connection.close()


def run_command(line: str, folder: Path) -> str:
    """Run a line of the page with the environment's own programs."""
    program, *arguments = shlex.split(line)
    command = [str(Path(sys.executable).with_name(Path(program).name)), *arguments]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    links = LINK.findall(page.read_text(encoding="utf-8"))

    missing = [link for link in links if not (page.parent / link).exists()]

    assert missing == []
