"""Who may use a directory is decided while others decide the same."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from relevo.db.embedded.account import Account
from relevo.db.embedded.paths import Layout, claim


def test_a_starter_that_comes_between_two_looks_makes_no_directory_foreign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the lock file is looked for before the folder is: it appears in between."""
    root = tmp_path / "pg"
    root.mkdir(mode=0o700)
    layout = Layout(root)
    listing = Path.iterdir

    def list_after_another_starter(folder: Path) -> Iterator[Path]:
        layout.gate.touch()
        return listing(folder)

    monkeypatch.setattr(Path, "iterdir", list_after_another_starter)

    claim(layout, Account(uid=os.geteuid(), gid=os.getegid(), switched=False))

    assert layout.gate.exists()
