"""Every text that evaluation cycles say to people, gathered from the code itself."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import relevo_apps.evaluations as package
from relevo_apps.evaluations.commands.checkups import CHECKUPS
from relevo_apps.evaluations.importer import ProblemKind
from relevo_apps.evaluations.importer.columns import PEER_COLUMNS, PEOPLE_COLUMNS
from relevo_apps.evaluations.importer.headers import missing
from relevo_apps.evaluations.mails import invitation
from relevo_apps.evaluations.model.cycles import CycleState, EvaluationState, Relation
from relevo_apps.evaluations.model.findings import FindingKind

Text = tuple[str, str | None]
"""A text, and its plural where a number decides."""

SAYING = {"_", "gettext"}
ERRORS = {"RelevoError", "ActivationBlocked"}
DECLARING = {"command", "group"}


def texts() -> set[Text]:
    """Answer all of them."""
    root = Path(package.__file__).parent
    found: set[Text] = {(text, None) for text in values()}
    for file in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            found.update(said(node))
    return found


def values() -> Iterator[str]:
    """The texts that stand in tables, and the states that are shown as words."""
    for kind in (*FindingKind, *ProblemKind):
        yield from (kind.what, kind.todo)
    for columns in (PEOPLE_COLUMNS, PEER_COLUMNS):
        yield from (names[0] for names in columns.values())
    for columns, names in (
        (PEOPLE_COLUMNS, ("external_id", "full_name")),
        (PEER_COLUMNS, PEER_COLUMNS),
    ):
        yield from (missing(name, columns, 1).fields["names"] for name in names)
    yield "this worker cannot send mail"
    yield from (checkup.title for checkup in CHECKUPS)
    for enum in (CycleState, EvaluationState, Relation):
        yield from (member.value for member in enum)
    yield from invitation._RELATIONS.values()


def said(node: ast.AST) -> Iterator[Text]:
    match node:
        case ast.Call():
            yield from said_by_call(node)
        case ast.FunctionDef() if any(named(each) in DECLARING for each in node.decorator_list):
            yield inspect.cleandoc(ast.get_docstring(node) or ""), None
        case ast.ClassDef() if any(getattr(base, "id", "") in ERRORS for base in node.bases):
            yield from template(node)


def said_by_call(call: ast.Call) -> Iterator[Text]:
    name, texts = named(call), [each.value for each in call.args if is_text(each)]
    if name in SAYING and texts:
        yield texts[0], None
    elif name == "ngettext" and len(texts) == 2:
        yield texts[0], texts[1]
    elif name == "Late":
        yield texts[-1], None
    elif name == "option":
        yield from ((each.value.value, None) for each in call.keywords if each.arg == "help")


def template(node: ast.ClassDef) -> Iterator[Text]:
    for line in node.body:
        target = getattr(line, "target", None) or next(iter(getattr(line, "targets", [])), None)
        if getattr(target, "id", "") == "template":
            yield ast.literal_eval(line.value), None


def named(node: ast.AST) -> str:
    function = node.func if isinstance(node, ast.Call) else node
    return getattr(function, "id", None) or getattr(function, "attr", "")


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
