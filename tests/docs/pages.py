"""The code of a page: what stands in its blocks, to be run as it stands there."""

import re
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```(python|sql)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Page:
    """A page below docs/, and its blocks in order."""

    name: str

    def blocks(self, kind: str) -> list[str]:
        """The blocks of one kind: python or sql."""
        text = (DOCS / self.name).read_text(encoding="utf-8")
        return [body for found, body in _BLOCK.findall(text) if found == kind]

    def run(self, block: str, names: dict[str, object]) -> None:
        """Run a block of Python; what it defines is added to the names."""
        exec(compile(block, self.name, "exec"), names)  # noqa: S102 -- the code is ours
