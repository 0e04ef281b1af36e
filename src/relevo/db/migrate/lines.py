"""Lines of migrations: numbered .sql files that ship inside a package.

A line belongs to one owner: the engine has one, each application has another,
and each counts for itself. Everything that can be wrong with the files is found
here, before a database is opened.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files

from relevo.db.migrate.errors import (
    LinesWrong,
    MigrationControlsTransaction,
    MigrationMisnamed,
    MigrationMisnumbered,
    MigrationNotRepeatable,
)
from relevo.db.migrate.splitting import split_statements

_LINE = re.compile(r"[a-z][a-z0-9_]*")
_FILE = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_CONTROL = re.compile(
    r"(?:BEGIN|START|COMMIT|END|ROLLBACK|ABORT|PREPARE TRANSACTION)\b", re.IGNORECASE
)
_INDEX = re.compile(
    r"CREATE (?:UNIQUE )?INDEX CONCURRENTLY (?:IF NOT EXISTS )?(\w+) ON (\w+)\.\w+\b", re.IGNORECASE
)
# UPDATE, DELETE, DO and CALL are their author's word that a second run changes nothing.
_REPEATABLE = re.compile(
    r"(?:DROP INDEX CONCURRENTLY IF EXISTS|ALTER TABLE (?:ONLY )?\S+ VALIDATE CONSTRAINT"
    r"|ALTER TYPE \S+ ADD VALUE IF NOT EXISTS|REINDEX|VACUUM|ANALYZE|UPDATE|DELETE|DO|CALL)\b",
    re.IGNORECASE,
)
NO_TRANSACTION = "-- transaction: none"


@dataclass(frozen=True, slots=True)
class Line:
    """One owner's migrations.

    Attributes:
        name: A word in lower case, as recorded in `relevo.migrations`.
        package: The dotted name of the package that holds the files.
    """

    name: str
    package: str


ENGINE = Line("relevo", "relevo.db.migrations")


@dataclass(frozen=True, slots=True)
class Index:
    """An index that a statement builds without blocking writes."""

    name: str
    schema: str


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of a line.

    Attributes:
        line: The name of its line.
        version: Its number, from 1.
        name: What the file's name says after the number.
        text: Its SQL.
    """

    line: str
    version: int
    name: str
    text: str

    @property
    def file(self) -> str:
        """The name of the file."""
        return f"{self.version:04d}_{self.name}.sql"

    @property
    def checksum(self) -> str:
        """What tells an edited file from the one that was applied."""
        return sha256(self.text.encode()).hexdigest()

    @property
    def has_transaction(self) -> bool:
        """False when the statements run one by one, each committed by itself."""
        return self.text.partition("\n")[0].strip() != NO_TRANSACTION

    @property
    def statements(self) -> list[str]:
        """Its statements, for a file without a transaction."""
        return split_statements(self.text)


def index_built_by(statement: str) -> Index | None:
    """The index that a statement builds concurrently, if that is what it does."""
    match = _INDEX.match(_in_one_line(statement))
    return Index(name=match[1].lower(), schema=match[2].lower()) if match else None


def load_lines(lines: Sequence[Line]) -> dict[str, list[Migration]]:
    """Read the files of every line, the engine's first.

    Applications refer to the engine's tables, so its line is always part of it.

    Raises:
        LinesWrong: Two lines share a name, or a name is not a word.
        MigrationError: The files of a line are misnamed, misnumbered, or could
            not be run safely.
    """
    ordered = [ENGINE, *(line for line in lines if line != ENGINE)]
    loaded: dict[str, list[Migration]] = {}
    for line in ordered:
        if line.name in loaded or not _LINE.fullmatch(line.name):
            raise LinesWrong(line=line.name)
        loaded[line.name] = _load(line)
    return loaded


def _load(line: Line) -> list[Migration]:
    found: list[Migration] = []
    entries = sorted(files(line.package).iterdir(), key=lambda entry: entry.name)
    for entry in entries:
        if not entry.name.endswith(".sql"):
            continue
        match = _FILE.fullmatch(entry.name)
        if not match:
            raise MigrationMisnamed(line=line.name, file=entry.name)
        # Line ends differ between checkouts; the content is the same migration.
        text = entry.read_bytes().decode().replace("\r\n", "\n")
        found.append(Migration(line.name, int(match[1]), match[2], text))
    for expected, migration in enumerate(found, 1):
        if migration.version != expected:
            raise MigrationMisnumbered(line=line.name, file=migration.file, expected=expected)
        _check(migration)
    return found


def _check(migration: Migration) -> None:
    for statement in map(_in_one_line, migration.statements):
        at_fault = {"line": migration.line, "file": migration.file, "statement": statement[:60]}
        if migration.has_transaction:
            if _CONTROL.match(statement):
                raise MigrationControlsTransaction(**at_fault)
        elif not (_INDEX.match(statement) or _REPEATABLE.match(statement)):
            raise MigrationNotRepeatable(**at_fault)


def _in_one_line(statement: str) -> str:
    return " ".join(statement.split())
