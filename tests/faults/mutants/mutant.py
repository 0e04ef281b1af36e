"""What a mutant is: a few edits of the engine's source, applied to a copy of it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

SOURCE = Path(__file__).parents[3] / "src"


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement in one file.

    Attributes:
        file: The file, below `src`.
        old: Text that occurs there exactly once.
        new: What stands there instead.
    """

    file: str
    old: str
    new: str

    def count(self, source: Path = SOURCE) -> int:
        """Answer how often the old text occurs; anything but once is a mutant that has rotted."""
        return (source / self.file).read_text("utf-8").count(self.old)

    def apply(self, source: Path) -> None:
        """Change a copy of the source."""
        found = self.count(source)
        if found != 1:
            msg = f"{self.file} holds the text {found} times: {self.old!r}"
            raise ValueError(msg)
        path = source / self.file
        path.write_text(path.read_text("utf-8").replace(self.old, self.new), "utf-8")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault that somebody could make, and what has to find it.

    Attributes:
        name: What goes wrong, in a few words.
        expected: The invariant that has to name it; empty where nothing is promised, so
            that nothing may be found.
        scenario: What shows it, see `faults.mutants.scenarios`.
        edits: How the source is changed.
    """

    name: str
    expected: str
    scenario: str
    edits: tuple[Edit, ...]

    @property
    def changes_schema(self) -> bool:
        """Whether a database of its own has to be migrated for it."""
        return any("/migrations/" in edit.file for edit in self.edits)


@contextmanager
def a_copy(mutant: Mutant) -> Iterator[Path]:
    """Lend a copy of the source with the mutant's edits; the work tree is only read."""
    with TemporaryDirectory(prefix="relevo-mutant-") as directory:
        source = Path(directory) / "src"
        # With what Python has compiled already, which stays valid for all files but the edited.
        shutil.copytree(SOURCE, source)
        for edit in mutant.edits:
            edit.apply(source)
        yield source
