"""Choose the language of a reader from what they and their system say."""

from collections.abc import Mapping
from typing import Final

LANGUAGES: Final = ("en", "es", "pt")
"""The languages that relevo speaks; the first is the one that texts are written in."""

_VARIABLES: Final = ("RELEVO_LANG", "LC_ALL", "LC_MESSAGES", "LANG")


def choose_language(given: str | None, environment: Mapping[str, str]) -> str:
    """Answer one of `LANGUAGES`.

    Args:
        given: What the reader asked for, such as ``es``, ``pt-BR`` or ``es_PE.UTF-8``.
        environment: The variables to ask where nothing was asked for. The first one
            that is set decides, even when relevo does not speak its language.
    """
    wanted = [given, *(environment.get(name) for name in _VARIABLES)]
    first = next((tag for tag in wanted if tag), "")
    language = first.replace("-", "_").partition(".")[0].partition("_")[0].lower()
    return language if language in LANGUAGES else LANGUAGES[0]
