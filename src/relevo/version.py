"""The version of this release, said once."""

from typing import Final

VERSION: Final = "0.1.0"
