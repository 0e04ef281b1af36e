"""Fold and check the texts of people: names to sort by, addresses to write to.

Nothing here guesses: a text that is not clearly right is answered with None.
"""

import re
import unicodedata

_ADDRESS = re.compile(
    r"(?P<local>[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*)"
    r"@(?P<domain>(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+"
    r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)"
)
_LONGEST_ADDRESS = 254
_LONGEST_LOCAL_PART = 64


def fold(text: str) -> str:
    """Lose accents, case and repeated blanks: 'José  ÁLVAREZ' becomes 'jose alvarez'.

    Args:
        text: Any text.
    """
    apart = unicodedata.normalize("NFKD", text)
    bare = "".join(letter for letter in apart if not unicodedata.combining(letter))
    return " ".join(bare.casefold().split())


def sort_key(*, first_name: str, last_name: str, full_name: str) -> str:
    """Answer the text by which lists of people are sorted, family name first.

    Args:
        first_name: May be empty when only the full name is known.
        last_name: May be empty for the same reason.
        full_name: What is shown.
    """
    return fold(f"{last_name} {first_name}" if last_name else full_name)


def clean(cell: str) -> str | None:
    """Put a cell on one line without stray blanks; None when it holds control characters.

    Args:
        cell: What stood between two delimiters. Line breaks inside become one blank.
    """
    line = " ".join(unicodedata.normalize("NFC", cell.replace("\ufeff", "")).split())
    if any(unicodedata.category(letter) in {"Cc", "Cs"} for letter in line):
        return None
    return line


def is_address(text: str) -> bool:
    """Say whether a mail can be addressed to `text`: ASCII, with a full domain, one line.

    Args:
        text: A cleaned cell.
    """
    match = _ADDRESS.fullmatch(text)
    return (
        match is not None
        and len(text) <= _LONGEST_ADDRESS
        and len(match["local"]) <= _LONGEST_LOCAL_PART
    )


def address_key(address: str) -> str:
    """Answer what two spellings of one address have in common.

    Args:
        address: A cleaned cell.
    """
    return address.casefold()
