"""A server that takes no writes is recognised before anything is tried."""

import tempfile
from pathlib import Path

import pytest

from relevo.db.embedded import Embedded
from relevo.db.migrate import ENGINE, ServerReadOnly, migrate, migration_status


def test_a_standby_is_refused_and_still_answers_for_its_status():
    with tempfile.TemporaryDirectory(prefix="relevo-standby-") as root:
        Path(root).chmod(0o755)
        embedded = Embedded(Path(root) / "pg", settings={"fsync": "off"})
        with embedded:
            migrate(embedded.dsn(), [ENGINE])
        (version,) = Path(root).glob("pg/*/PG_VERSION")
        version.with_name("standby.signal").touch()

        with embedded:
            with pytest.raises(ServerReadOnly):
                migrate(embedded.dsn(), [ENGINE])
            states = {status.state for status in migration_status(embedded.dsn(), [ENGINE])}

    assert states == {"applied"}
