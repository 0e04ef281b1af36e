"""Look texts up in the catalogues of some packages.

Catalogues are .po files, read when the first text in their language is wanted, so a
reader of English pays for none of them. Nothing here knows what a text is about.
"""

import gettext
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Final

from relevo.errors import RelevoError
from relevo.i18n.languages import LANGUAGES

Forms = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The translations of one package into one language.

    Attributes:
        texts: The forms of each text by its English (the singular, where there are two).
        plural: Which form a number takes.
    """

    texts: Mapping[str, Forms]
    plural: Callable[[int], int]


@dataclass(frozen=True, slots=True)
class Translator:
    """Says texts in one language.

    Attributes:
        language: One of `LANGUAGES`.
        catalogues: Where to look, first to last; none for English.
    """

    language: str
    catalogues: Sequence[Catalogue] = field(default=(), repr=False)

    def gettext(self, text: str) -> str:
        """Say a text."""
        for catalogue in self.catalogues:
            if forms := catalogue.texts.get(text):
                return forms[0]
        return text

    def ngettext(self, singular: str, plural: str, number: int) -> str:
        """Say a text in the form that a number asks for."""
        for catalogue in self.catalogues:
            if forms := catalogue.texts.get(singular):
                return forms[min(catalogue.plural(number), len(forms) - 1)]
        return singular if number == 1 else plural

    def error(self, error: RelevoError) -> str:
        """Say an error: its template, and those of its fields that are sentences of ours."""
        fields = {name: self._field(value) for name, value in error.fields.items()}
        return self.gettext(error.template) % fields

    def _field(self, value: object) -> object:
        # A value of one word is a name somebody chose; it stays, whatever else it may mean.
        return self.gettext(value) if isinstance(value, str) and " " in value else value


_HOUSE: Final = "relevo"


@lru_cache
def translator(language: str, *packages: str) -> Translator:
    """Answer a translator into a language.

    Args:
        language: One of `LANGUAGES`; any other is answered in English.
        packages: The packages whose catalogues hold the texts, asked in this order,
            and relevo's own after them.
    """
    if language not in LANGUAGES[1:]:
        return Translator(LANGUAGES[0])
    wanted = dict.fromkeys([*packages, _HOUSE])
    found = (read_catalogue(package, language) for package in wanted)
    return Translator(language, [catalogue for catalogue in found if catalogue is not None])


def read_catalogue(package: str, language: str) -> Catalogue | None:
    """Read the catalogue of one package, or answer None where it has none in this language."""
    # Costs a tenth of a second, so only who reads another language than English pays it.
    from babel.messages.pofile import read_po  # noqa: PLC0415

    place = files(package).joinpath("locale", f"{language}.po")
    if not place.is_file():
        return None
    with place.open("rb") as file:
        catalogue = read_po(file, locale=language, abort_invalid=True)
    texts: dict[str, Forms] = {}
    for message in catalogue:
        said = message.string or ()
        forms = (said,) if isinstance(said, str) else tuple(said)
        key = message.id if isinstance(message.id, str) else message.id[0]
        if key and forms and all(forms) and not message.fuzzy:
            texts[key] = forms
    return Catalogue(texts, gettext.c2py(catalogue.plural_expr))
