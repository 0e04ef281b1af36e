"""Name a statement by its text, alike for who sends it and for the server's log.

The project's statements carry their name in front. Those of a migration are named by file
and number; whatever else is sent is named by how it begins.
"""

import re
from collections.abc import Mapping
from functools import cache

from relevo.db.migrate import ENGINE, Line
from relevo.db.migrate.lines import load_lines

EVALUATIONS = Line("evaluations", "relevo_apps.evaluations.migrations")
LINES = (ENGINE, EVALUATIONS)

_NAMED = re.compile(r"/\* ([a-z0-9_]+) \*/")
_WORDS = 4


def name_of(text: str) -> str:
    """Answer the name of a statement."""
    if named := _NAMED.match(text):
        return named[1]
    line = " ".join(text.split())
    if migration := migration_statements().get(line):
        return migration
    words = line.rstrip(";").split(" ")
    if words[0] in ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE"):
        return words[0]
    return " ".join(words[:_WORDS])


@cache
def migration_statements() -> Mapping[str, str]:
    """Answer the name of each statement of each migration by its text on one line."""
    return {
        " ".join(statement.split()): f"{migration.line}/{migration.version:04d}#{number}"
        for migrations in load_lines(LINES).values()
        for migration in migrations
        for number, statement in enumerate(migration.statements, 1)
    }


@cache
def migration_texts() -> Mapping[bytes, tuple[str, ...]]:
    """Answer the statements of each migration that is sent as one text."""
    return {
        migration.text.encode(): tuple(migration.statements)
        for migrations in load_lines(LINES).values()
        for migration in migrations
        if migration.has_transaction
    }
