"""A letter before it is addressed: its subject, and its body for both kinds of readers.

Whoever writes one gives plain text; what stands in the HTML is escaped here, so no name
of a person or a cycle can become markup.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

_STYLE = "font-family:system-ui,sans-serif;font-size:16px;line-height:1.5;color:#1a1a1a"


@dataclass(frozen=True, slots=True)
class Letter:
    """What a mail says.

    Attributes:
        language: The tag of the language that it is written in.
        subject: One line.
        text: The body that every reader can show.
        html: The same body for readers that prefer it.
    """

    language: str
    subject: str
    text: str
    html: str


def compose(
    language: str, subject: str, before: Sequence[str], items: Iterable[str], after: Sequence[str]
) -> Letter:
    """Put paragraphs, a list, and more paragraphs into a letter.

    Args:
        language: The tag of the language that it is written in.
        subject: What it is about; line breaks and control characters become blanks.
        before: The paragraphs above the list.
        items: The list, one line each.
        after: The paragraphs below the list.
    """
    subject = one_line(subject)
    lines = [one_line(item) for item in items]
    listed = "\n".join(f"- {line}" for line in lines)
    text = "\n\n".join([*before, listed, *after]) + "\n"
    return Letter(language, subject, text, _page(language, subject, before, lines, after))


def one_line(text: str) -> str:
    """Put a text on one line that a header can carry."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _page(
    language: str, title: str, before: Sequence[str], items: Sequence[str], after: Sequence[str]
) -> str:
    listed = "".join(f"<li>{escape(item)}</li>\n" for item in items)
    return (
        f'<!doctype html>\n<html lang="{escape(language)}">\n'
        f'<head><meta charset="utf-8"><title>{escape(title)}</title></head>\n'
        f'<body style="{_STYLE}">\n{_paragraphs(before)}<ul>\n{listed}</ul>\n'
        f"{_paragraphs(after)}</body>\n</html>\n"
    )


def _paragraphs(texts: Sequence[str]) -> str:
    return "".join(f"<p>{escape(text)}</p>\n" for text in texts)
