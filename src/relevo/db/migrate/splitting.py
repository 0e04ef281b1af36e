"""Split an SQL script into its statements, comments removed.

Only as much of the grammar as decides where a statement ends: quotes, dollar
quotes, comments, parentheses and the bodies of SQL functions. Nothing is checked.
"""

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""
    (?P<line>--[^\n]*)
  | (?P<block>/\*)
  | (?P<dollar>\$(?:[^\W\d]\w*)?\$)
  | (?P<quoted>[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*")
  | (?P<word>[^\W\d][\w$]*)
  | (?P<mark>[;()])
    """,
    re.VERBOSE | re.DOTALL,
)
_FENCE = re.compile(r"/\*|\*/")
_ROUTINE = re.compile(r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:FUNCTION|PROCEDURE)\b", re.IGNORECASE)


def split_statements(text: str) -> list[str]:
    """The statements of `text` in order, without comments and final semicolons."""
    statements: list[str] = []
    kept: list[str] = []
    depth = 0
    for piece, kind in _pieces(text):
        if kind == "mark":
            depth += {"(": 1, ")": -1, ";": 0}[piece]
        elif kind == "word" and (depth or piece.upper() == "BEGIN"):
            depth += _nesting(piece.upper(), "".join(kept))
        if piece == ";" and kind == "mark" and depth <= 0:
            statements.append("".join(kept).strip())
            kept, depth = [], 0
        else:
            kept.append(" " if kind == "comment" else piece)
    statements.append("".join(kept).strip())
    return [statement for statement in statements if statement]


def _nesting(word: str, before: str) -> int:
    """How a word changes the depth inside the body of an SQL routine."""
    if not _ROUTINE.match(before):
        return 0
    return {"BEGIN": 1, "CASE": 1, "END": -1}.get(word, 0)


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """The text in pieces, each with its kind; what no token names is plain."""
    place = 0
    while match := _TOKEN.search(text, place):
        if match.start() > place:
            yield text[place : match.start()], "plain"
        kind, end = str(match.lastgroup), match.end()
        if kind == "dollar":
            closing = text.find(match[0], end)
            end = len(text) if closing < 0 else closing + len(match[0])
        elif kind == "block":
            end = _end_of_comment(text, end)
        yield text[match.start() : end], "comment" if kind in {"line", "block"} else kind
        place = end
    yield text[place:], "plain"


def _end_of_comment(text: str, place: int) -> int:
    """Where a block comment opened before `place` ends; they nest."""
    depth = 1
    while depth and (fence := _FENCE.search(text, place)):
        depth += 1 if fence[0] == "/*" else -1
        place = fence.end()
    return place if not depth else len(text)
