"""Which field cases the foundation answers for: each is named by some test."""

import re
from pathlib import Path

HERE = Path(__file__)

CASES = frozenset(
    {
        *range(1, 7),
        *range(9, 17),
        *range(18, 31),
        *(32, 34, 35, 38, 39, 41, 50),
        *range(52, 57),
        *(58, 76),
        *range(79, 84),
        *(117, 118),
    }
)


def test_each_field_case_of_the_foundation_is_named_by_a_test() -> None:
    """The number stands as F-001 in a docstring, or as f001 in the name of a test."""
    named: set[int] = set()
    for path in HERE.parent.parent.rglob("test_*.py"):
        if path == HERE:
            continue
        text = path.read_text()
        named.update(int(number) for number in re.findall(r"\bF-(\d{3})\b", text))
        for name in re.findall(r"def (test_\w+)", text):
            named.update(int(number) for number in re.findall(r"_f(\d{3})(?=_)", name))

    assert {f"F-{number:03}" for number in CASES - named} == set()
