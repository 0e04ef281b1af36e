"""The language of this run of the command, and click's own texts in it.

One process speaks one language: it is chosen before the arguments are read, because
a wrong argument and ``--help`` are answered in it too.
"""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from relevo.errors import RelevoError
from relevo.i18n import LANGUAGES, Translator, choose_language, translator

_CLICK: Final = (
    "_termui_impl",
    "core",
    "decorators",
    "exceptions",
    "formatting",
    "parser",
    "termui",
    "types",
    "utils",
)


@dataclass(slots=True)
class _Speaking:
    translator: Translator


_now: Final = _Speaking(Translator("en"))


def speak(
    arguments: Sequence[str], environment: Mapping[str, str], packages: Sequence[str]
) -> Translator:
    """Choose the language of this run from its arguments and environment.

    Args:
        arguments: The command's arguments; ``--lang`` counts wherever it stands.
        environment: The process's variables.
        packages: The packages whose catalogues hold the texts.
    """
    _now.translator = translator(choose_language(_given(arguments), environment), *packages)
    _teach_click()
    return _now.translator


def unknown_language(arguments: Sequence[str]) -> str | None:
    """Answer the language that the arguments ask for where relevo does not speak it."""
    given = _given(arguments)
    if not given or given.lower().startswith(LANGUAGES[0]):
        return None
    return given if choose_language(given, {}) == LANGUAGES[0] else None


def gettext(text: str) -> str:
    """Say a text in the language of this run."""
    return _now.translator.gettext(text)


def ngettext(singular: str, plural: str, number: int) -> str:
    """Say a text in the language of this run, in the form that a number asks for."""
    return _now.translator.ngettext(singular, plural, number)


def say_error(error: RelevoError) -> str:
    """Say an error in the language of this run."""
    return _now.translator.error(error)


def _given(arguments: Sequence[str]) -> str | None:
    given: str | None = None
    for place, word in enumerate(arguments):
        if word == "--":
            break
        if word == "--lang" and place + 1 < len(arguments):
            given = arguments[place + 1]
        elif word.startswith("--lang="):
            given = word.partition("=")[2]
    return given


def _teach_click() -> None:
    """Let click ask us for its texts.

    It asks the process's gettext domain, which only reads compiled files from a folder,
    so its modules are given these functions under the names that they call.
    """
    for name in _CLICK:
        module = importlib.import_module(f"click.{name}")
        for function, ours in (("_", gettext), ("ngettext", ngettext)):
            if hasattr(module, function):
                setattr(module, function, ours)
