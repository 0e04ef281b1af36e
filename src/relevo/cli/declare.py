"""How commands and options are declared: click's own, saying their help in the run's language.

Commands of a group are imported when they run, so that ``relevo --help`` reads one line
of each and imports none of them.
"""

import copy
import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from relevo.cli.errors import PackageMissing
from relevo.cli.language import gettext as _

F = TypeVar("F", bound=Callable[..., Any])


class Option(click.Option):
    """An option whose help is said in the language of the run."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Answer the two columns of the help."""
        said = copy.copy(self)
        said.help = _(self.help) if self.help else None
        return super(Option, said).get_help_record(ctx)


class Command(click.Command):
    """A command whose help is said in the language of the run."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the command does."""
        said = copy.copy(self)
        said.help = _(inspect.cleandoc(self.help)) if self.help else None
        super(Command, said).format_help_text(ctx, formatter)

    def get_short_help_str(self, limit: int = 45) -> str:
        """Answer one line for the list of commands."""
        said = copy.copy(self)
        said.help = _(inspect.cleandoc(self.help)) if self.help else None
        return super(Command, said).get_short_help_str(limit)

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Answer the option --help."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.help = _("Show this message and exit.")
        return option


class Whole(click.IntRange):
    """A whole number, perhaps within bounds; click's own words for another are no language's."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read what was written."""
        try:
            int(value)
        except ValueError:
            self.fail(
                _("%(value)r is no whole number; write it like 16") % {"value": value}, param, ctx
            )
        return super().convert(value, param, ctx)


@dataclass(frozen=True, slots=True)
class Late:
    """A command that is imported when it is needed.

    Attributes:
        name: What people type.
        target: Where it is, as ``package.module:attribute``.
        summary: One line for the list of commands, in English; translated when shown.
        extra: What brings the packages that it needs besides, such as ``relevo[demo]``.
    """

    name: str
    target: str
    summary: str
    extra: str | None = None

    def load(self) -> click.Command:
        """Import the command.

        Raises:
            PackageMissing: A package of its extra is not installed.
        """
        module, _colon, attribute = self.target.partition(":")
        try:
            found = getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as missing:
            package = (missing.name or "").partition(".")[0]
            # A module of its own that is not there is a defect, and no extra mends it.
            if self.extra is None or package in {"relevo", module.partition(".")[0]}:
                raise
            raise PackageMissing(command=self.name, package=package, extra=self.extra) from missing
        if not isinstance(found, click.Command):
            raise TypeError(self.target)
        return found


class Group(Command, click.Group):
    """A group of commands, those given as `Late` imported one at a time."""

    command_class = Command

    def __init__(self, *args: Any, late: Sequence[Late] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.late: dict[str, Late] = {each.name: each for each in late}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        """Answer the names: the late ones in their order, then the others."""
        return [*self.late, *(name for name in self.commands if name not in self.late)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Answer a command, importing it if need be."""
        if cmd_name in self.late:
            return self.late[cmd_name].load()
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was typed; late ones are among those it is compared with."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            known = self.list_commands(ctx)
            raise click.exceptions.NoSuchCommand(
                error.command_name, possibilities=known, ctx=ctx
            ) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        rows: list[tuple[str, str]] = []
        for name in self.list_commands(ctx):
            if name in self.late:
                rows.append((name, _(self.late[name].summary)))
            elif (command := self.get_command(ctx, name)) is not None and not command.hidden:
                rows.append((name, command.get_short_help_str(formatter.width)))
        with formatter.section(_("Commands")):
            formatter.write_dl(rows)


def option(*names: str, **settings: Any) -> Callable[[F], F]:
    """Declare an option of a command, its `help` in English."""
    return click.option(*names, cls=Option, **settings)


def command(name: str, **settings: Any) -> Callable[[Callable[..., Any]], Command]:
    """Declare a command; its docstring is its help, in English."""
    return click.command(name, cls=Command, **settings)


def group(name: str, *, late: Sequence[Late] = ()) -> Callable[[Callable[..., Any]], Group]:
    """Declare a group of commands; its docstring is its help, in English."""
    return click.group(name, cls=Group, late=late)
