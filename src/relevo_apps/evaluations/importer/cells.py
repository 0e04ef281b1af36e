"""Read single cells: the language of a person, and whether they still work here."""

from relevo_apps.evaluations.model.people import Language
from relevo_apps.evaluations.model.text import fold

LONGEST_CELL = 500

_LANGUAGES = {
    "es": Language.SPANISH,
    "spa": Language.SPANISH,
    "spanish": Language.SPANISH,
    "espanol": Language.SPANISH,
    "espanhol": Language.SPANISH,
    "castellano": Language.SPANISH,
    "pt": Language.PORTUGUESE,
    "por": Language.PORTUGUESE,
    "portuguese": Language.PORTUGUESE,
    "portugues": Language.PORTUGUESE,
    "en": Language.ENGLISH,
    "eng": Language.ENGLISH,
    "english": Language.ENGLISH,
    "ingles": Language.ENGLISH,
}
_ACTIVE = "active activo activa ativo ativa yes si sim true 1 y s"
_INACTIVE = (
    "inactive inactivo inactiva inativo inativa terminated left baja desligado desligada "
    "no nao false 0 n"
)
_STATUSES = {
    **dict.fromkeys(_ACTIVE.split(), True),
    **dict.fromkeys([*_INACTIVE.split(), "de baja"], False),
}


def parse_language(text: str) -> Language | None:
    """Answer the language that a cell names, with or without a country.

    Args:
        text: A cleaned cell that is not empty.
    """
    word = fold(text)
    return _LANGUAGES.get(word) or _LANGUAGES.get(word.replace("_", "-").split("-")[0])


def parse_status(text: str) -> bool | None:
    """Answer whether the cell says that the person still works here.

    Args:
        text: A cleaned cell that is not empty.
    """
    return _STATUSES.get(fold(text))


def split_name(full_name: str) -> tuple[str, str]:
    """Part a full name written as 'Family, Given'; any other stays whole.

    Args:
        full_name: A cleaned cell.

    Returns:
        The given name and the family name, both empty when the text does not tell them.
    """
    family, comma, given = (part.strip() for part in full_name.partition(","))
    return (given, family) if comma and family and given and "," not in given else ("", "")
