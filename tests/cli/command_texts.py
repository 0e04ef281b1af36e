"""Every text that the command may say, found in the code and in the tree of commands."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import click

import relevo
import relevo_apps
from relevo.cli.declare import Group
from relevo.cli.doctor.command import CHECKS
from relevo.errors import RelevoError

HOUSES: dict[str, ModuleType] = {"relevo": relevo, "relevo_apps": relevo_apps}

# What errors are told in words of ours; a value in them is a name, not a sentence.
SENTENCES = {"why", "next", "problem", "remedy", "reason", "what"}


@dataclass(frozen=True)
class Text:
    """A text, and its plural where it has one."""

    english: str
    plural: str | None = None

    @property
    def placeholders(self) -> set[str]:
        """What the text is filled with."""
        return placeholders(self.plural or self.english)


def placeholders(text: str) -> set[str]:
    return set(re.findall(r"%\(\w+\)[0-9.]*[a-z]", text)) | set(re.findall(r"\{\w*\}", text))


def templates(house: str) -> Iterator[Text]:
    """The template of every error that the package defines."""
    for module in _modules(house):
        for found in vars(module).values():
            is_error = isinstance(found, type) and issubclass(found, RelevoError)
            if is_error and found.__module__ == module.__name__:
                yield Text(found.template)


def sources(house: str) -> Iterator[Text]:
    """Every text that the package's code hands to a translator."""
    root = Path(HOUSES[house].__file__ or "").parent
    for file in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield from _said(node)
                yield from _told(node)


def helps(command: click.Command) -> Iterator[Text]:
    """The help of a command, of its options, and of the commands below it."""
    if command.help:
        yield Text(inspect.cleandoc(command.help))
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.help:
            yield Text(parameter.help)
    if isinstance(command, Group):
        yield from (Text(late.summary) for late in command.late.values())
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from helps(below)


def titles() -> Iterator[Text]:
    """The names of doctor's checks."""
    return (Text(check.title) for check in CHECKS)


def clicks() -> Iterator[Text]:
    """Every text of click's own that this command can show."""
    root = Path(click.__file__).parent
    # Completion scripts and pagers for Windows speak to nobody here.
    for file in sorted(set(root.glob("*.py")) - {root / "_winconsole.py"}):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield from _said(node)


def _said(node: ast.Call) -> Iterator[Text]:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    words = [_constant(argument) for argument in node.args]
    if name in {"_", "gettext"} and words and words[0]:
        yield Text(words[0])
    if name == "ngettext" and words[0] and words[1]:
        yield Text(words[0], words[1])


def _told(node: ast.Call) -> Iterator[Text]:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if not (name == "_refuse" or name[:1].isupper()):
        return
    for keyword in node.keywords:
        words = _constant(keyword.value)
        if keyword.arg in SENTENCES and words and " " in words:
            yield Text(words)


def _constant(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _modules(house: str) -> Iterator[ModuleType]:
    package = HOUSES[house]
    for found in pkgutil.walk_packages(package.__path__, f"{house}."):
        yield importlib.import_module(found.name)
