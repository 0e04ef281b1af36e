"""Read named statements from the .sql files that stand beside the code.

A file holds statements, each opened by ``-- name: verb_noun`` and one comment
that says what it does. Parameters are written ``%(name)s``. This module knows
no table and runs nothing.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files

_NAME = re.compile(r"^-- name: ([a-z][a-z0-9_]*)$")
# Everything a percent sign can mean: a doubled one, a parameter, or a mistake.
_PERCENT = re.compile(r"%(?:(?P<doubled>%)|\((?P<name>[a-z][a-z0-9_]*)\)s)?")


@dataclass(frozen=True)
class Statement:
    """One SQL statement with a name.

    Attributes:
        name: The name that logs, tests and crash points use.
        sql: The text with ``%(name)s`` parameters, comments removed.
    """

    name: str
    sql: str

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters in order of first use."""
        names = (match["name"] for match in _PERCENT.finditer(self.sql))
        return tuple(dict.fromkeys(name for name in names if name))

    @cached_property
    def numbered(self) -> str:
        """The same text with ``$1``, ``$2``, … in the order of `parameters`, and single "%"."""
        places = {name: f"${place}" for place, name in enumerate(self.parameters, 1)}
        return _PERCENT.sub(lambda match: places.get(match["name"], "%"), self.sql)

    @cached_property
    def sendable(self) -> str | bytes:
        """`numbered`, as bytes where it is ASCII and so the same in every client encoding."""
        return self.numbered.encode() if self.numbered.isascii() else self.numbered

    def positional(self, params: Mapping[str, object]) -> Sequence[object]:
        """Order the values of `params` as `numbered` expects them.

        Args:
            params: A value for each parameter; others are left out.

        Raises:
            KeyError: A parameter has no value.
        """
        return [params[name] for name in self.parameters]


def parse_statements(text: str) -> dict[str, Statement]:
    """Split the text of one .sql file into its statements by name.

    Args:
        text: The whole file.

    Returns:
        The statements by name, in the order of the file.

    Raises:
        ValueError: A name is not in lower case with underscores or stands twice,
            a statement is empty or has a percent sign that is neither a parameter
            nor doubled, or SQL stands before the first name.
    """
    found: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for line in text.splitlines():
        if match := _NAME.match(line):
            if match[1] in found:
                msg = f"statement {match[1]} is named twice"
                raise ValueError(msg)
            lines = found[match[1]] = [f"/* {match[1]} */"]
        elif line.startswith("-- name:"):
            msg = f"not a statement's name: {line}"
            raise ValueError(msg)
        elif line.lstrip().startswith("--") or not line.strip():
            continue
        elif lines is None:
            msg = f"SQL before the first name: {line.strip()}"
            raise ValueError(msg)
        else:
            lines.append(line.rstrip())
    return {name: _statement(name, body) for name, body in found.items()}


def _statement(name: str, lines: Sequence[str]) -> Statement:
    sql = "\n".join(lines).removesuffix(";")
    if len(lines) == 1:
        msg = f"statement {name} says nothing"
        raise ValueError(msg)
    for match in _PERCENT.finditer(sql):
        # Drivers disagree on a lonely percent sign, so none may reach them.
        if match[0] == "%":
            msg = f"statement {name} has a single % before {sql[match.end() :][:10]!r}; write %%"
            raise ValueError(msg)
    return Statement(name, sql)


def load_statements(package: str, file: str) -> dict[str, Statement]:
    """Read one .sql file that ships inside a package.

    Args:
        package: The dotted name of the package, such as ``relevo.store``.
        file: The file's name, such as ``jobs.sql``.
    """
    return parse_statements(files(package).joinpath(file).read_text(encoding="utf-8"))
