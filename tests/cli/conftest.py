"""The command, and databases that it may deliver from."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from real_command import ENVIRONMENT, Command

from relevo.db.drivers import run
from relevo.db.identity import adopt


@pytest.fixture
def home() -> Iterator[Path]:
    """The folder of an embedded server of the test's own, which any account can enter."""
    with tempfile.TemporaryDirectory(prefix="relevo-cli-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def nowhere(home: Path) -> Command:
    """The command without a database."""
    return Command(home)


@pytest.fixture
def relevo(home: Path, database: str) -> Command:
    """The command with a migrated database that workers may deliver from."""
    # A clone has another name than its template, which is what adopting is for.
    with psycopg.connect(database) as connection:
        run(connection, adopt(ENVIRONMENT))
    return Command(home, {"RELEVO_DSN": database})
