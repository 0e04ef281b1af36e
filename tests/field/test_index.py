"""Which field cases tests answer for: each is named by some test."""

import ast
import re
from pathlib import Path

HERE = Path(__file__)

CASES = frozenset(
    {
        *range(1, 7),
        *range(9, 17),
        *range(18, 46),
        *range(47, 51),
        *range(52, 57),
        58,
        *range(68, 74),
        *range(76, 84),
        *range(98, 101),
        *range(111, 116),
        *(117, 118),
    }
)


Function = ast.FunctionDef | ast.AsyncFunctionDef


def find_tests(path: Path) -> list[Function]:
    nodes = ast.walk(ast.parse(path.read_text()))
    found = [node for node in nodes if isinstance(node, Function)]
    return [each for each in found if each.name.startswith("test_")]


def cases_of(test: Function) -> set[int]:
    """The numbers in its name (f001), its docstring and its parameters (both F-001)."""
    words = [node for decorator in test.decorator_list for node in ast.walk(decorator)]
    texts = [str(word.value) for word in words if isinstance(word, ast.Constant)]
    text = " ".join([ast.get_docstring(test) or "", *texts])
    numbers = re.findall(r"_f(\d{3})(?=_)", test.name) + re.findall(r"\bF-(\d{3})\b", text)
    return set(map(int, numbers))


def test_each_field_case_is_named_by_a_test() -> None:
    """A mention anywhere else is no test: it stays when the test of the case is deleted."""
    named: set[int] = set()
    for path in HERE.parent.parent.rglob("test_*.py"):
        if path != HERE:
            named.update(*map(cases_of, find_tests(path)))

    assert {f"F-{number:03}" for number in CASES - named} == set()
    assert {f"F-{number:03}" for number in named - CASES} == set(), "add them to CASES"
