"""The reference names every command of the applications, each option, and each key of its JSON."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from real_command import Command

from relevo.cli import build_cli
from relevo.cli.declare import Group
from relevo_apps import main as composition

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "evaluation-commands.md"
NAMES = ("demo", "people", "cycle", "tenants")

# Said once for all of them, at the head of the page or on the page about the command line.
COMMON = {"--tenant", "--actor", "--dsn", "--lang", "--output", "--debug"}

PEOPLE = "id,name,email,manager\n1,Ana,ana@example.com,\n2,Bruno,bruno@example.com,1\n"


def sections() -> dict[str, str]:
    """What the page says of each command, by its name."""
    said: dict[str, str] = {}
    for part in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, body = part.partition("\n")
        said[" ".join(word for word in title.split() if word.islower())] = body
    return said


def commands() -> Iterator[tuple[str, click.Command]]:
    cli = build_cli(
        app=composition.application, lines=composition.lines, commands=composition.COMMANDS
    )
    context = click.Context(cli)
    for name in NAMES:
        command = cli.get_command(context, name)
        assert command is not None
        if not isinstance(command, Group):
            yield name, command
            continue
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield f"{name} {below}", found


def keys_of(section: str) -> set[str]:
    """The keys that the section's line about JSON names."""
    (line,) = re.findall(r"^JSON: (.+)$", section, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", line))


def test_every_command_has_its_section_and_no_section_is_of_another() -> None:
    assert sections().keys() == {name for name, _ in commands()}


@pytest.mark.parametrize(("name", "command"), [*commands()], ids=str)
def test_every_option_stands_in_the_section_of_its_command(
    name: str, command: click.Command
) -> None:
    options = {
        max(parameter.opts, key=len)
        for parameter in command.params
        if isinstance(parameter, click.Option)
    }

    said = set(re.findall(r"^\| `(--[\w-]+)", sections()[name], re.MULTILINE))

    assert said == options - COMMON


def test_every_document_has_the_keys_that_the_page_names(relevo: Command, home: Path) -> None:
    people, peers = home / "people.csv", home / "peers.csv"
    people.write_text(PEOPLE, encoding="utf-8")
    peers.write_text("participant,peer\n1,2\n", encoding="utf-8")
    runs = [
        ("people", "import", str(people)),
        ("cycle", "create", "gone"),
        ("cycle", "delete", "gone"),
        ("cycle", "create", "2025", "--rules", "self,manager,peer"),
        ("cycle", "participants", "2025", "--remove", "2"),
        ("cycle", "participants", "2025", "--add", "2"),
        ("cycle", "peers", "2025", str(peers)),
        ("cycle", "generate", "2025"),
        ("cycle", "preflight", "2025"),
        ("cycle", "activate", "2025"),
        ("cycle", "status", "2025"),
        ("cycle", "list"),
        ("cycle", "recall", "2025"),
        ("tenants", "list"),
        ("demo", "--size", "10"),
    ]

    said = {}
    for words in runs:
        ended = relevo(*words, "-o", "json")
        assert ended.returncode == 0, ended.stderr
        name = words[0] if words[0] == "demo" else " ".join(words[:2])
        said[name] = set(json.loads(ended.stdout))
    relevo("db", "init", "--tenants", "multi")
    said["tenants add"] = set(json.loads(relevo("tenants", "add", "north", "-o", "json").stdout))

    of_page = {name: keys_of(body) for name, body in sections().items() if "JSON:" in body}
    assert said == of_page
