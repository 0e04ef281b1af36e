"""Files of real data, which lie outside the repository."""

import os
from pathlib import Path

import pytest

BESIDE = "../shared/data"


def real_file(name: str) -> Path:
    """The file in the folder that RELEVO_TEST_DATA names, or in one beside the repository.

    A folder that was named and lacks the file fails the test; where none is known it is skipped.
    """
    named = os.environ.get("RELEVO_TEST_DATA")
    file = Path(named or BESIDE) / name
    if not file.exists():
        missing = f"no {file}: set RELEVO_TEST_DATA to the folder with the test data"
        if named:
            pytest.fail(missing)
        pytest.skip(missing)
    return file
