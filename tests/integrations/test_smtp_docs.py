"""The code of docs/how-to/send-mail.md runs and says what the page shows."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/how-to/send-mail.md"


def blocks(language: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_handler_of_the_page_is_declared(monkeypatch):
    monkeypatch.setenv("RELEVO_SMTP_URL", "smtp://127.0.0.1:25")
    monkeypatch.setenv("RELEVO_SMTP_FROM", "hr@example.com")
    names: dict[str, object] = {}

    exec(compile(blocks("python")[0], "send-mail.md", "exec"), names)  # noqa: S102 -- our own page

    assert names["app"].registry.find("welcome.mail").queue == "welcome"


@pytest.mark.timeout(60)
def test_the_local_server_of_the_page_answers_as_shown():
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", blocks("python")[1]],
        capture_output=True,
        text=True,
        check=True,
    )

    assert ran.stdout == blocks("text")[0]
    assert ran.stderr == ""
