"""Say problems and findings in the language of the run, and as JSON for programs."""

import shlex
from collections.abc import Iterable, Sequence

from relevo.cli import Shell
from relevo.cli import gettext as _
from relevo_apps.evaluations.importer import Problem
from relevo_apps.evaluations.model.cycles import Cycle
from relevo_apps.evaluations.model.findings import Finding
from relevo_apps.evaluations.model.listing import Pause


def say_finding(finding: Finding) -> str:
    """Say what an activation would meet."""
    return _(finding.kind.what) % {"subject": finding.subject, "detail": finding.detail}


def say_todo(finding: Finding, cycle: str) -> str:
    """Say what to do about a finding, commands ready to be pasted.

    Args:
        finding: What was found.
        cycle: The name of the cycle.
    """
    values = {"cycle": shlex.quote(cycle), "person": shlex.quote(finding.external_id)}
    return _(finding.kind.todo) % values


def finding_fields(finding: Finding, cycle: str) -> dict[str, object]:
    """Answer a finding for programs: its code is stable, its texts are for people."""
    return {
        "code": finding.kind.code,
        "person": finding.external_id or None,
        "name": finding.subject or None,
        "detail": finding.detail or None,
        "what": say_finding(finding),
        "todo": say_todo(finding, cycle),
    }


def show_findings(shell: Shell, title: str, findings: Sequence[Finding], cycle: str) -> None:
    """Print findings of the cycle with this name under a title, if there are any."""
    rows = [(each.external_id, say_finding(each), say_todo(each, cycle)) for each in findings]
    _show(shell, title, (_("id"), _("what"), _("what to do")), rows)


def say_pause(pause: Pause) -> str:
    """Say why no mail goes out, as far as the words are ours."""
    unready, _colon, setting = pause.reason.partition(": ")
    if not setting:
        return _(pause.reason)
    name, _blank, rest = setting.partition(" ")
    problem, _semicolon, remedy = rest.partition("; ")
    if not remedy:
        return pause.reason
    return f"{_(unready)}: {name} {_(problem)}; {_(remedy)}"


def say_problem(problem: Problem) -> tuple[str, str]:
    """Say what is wrong with a file, and what to do."""
    fields = dict(problem.fields)
    for name in ("column", "names"):
        if name in fields:
            # Columns are named as files in the reader's language name them.
            fields[name] = _(str(fields[name]))
    return _(problem.kind.what) % fields, _(problem.kind.todo) % fields


def problem_fields(problem: Problem) -> dict[str, object]:
    """Answer a problem of a file for programs."""
    what, todo = say_problem(problem)
    return {
        "code": problem.kind.code,
        "line": problem.line or None,
        "column": problem.column or None,
        "value": problem.value or None,
        "what": what,
        "todo": todo,
    }


def show_problems(shell: Shell, title: str, problems: Sequence[Problem]) -> None:
    """Print problems of a file under a title, if there are any."""
    columns = (_("line"), _("column"), _("value"), _("what"), _("what to do"))
    rows = [
        (
            each.line or "",
            each.column,
            each.value,
            *say_problem(each),
        )
        for each in problems
    ]
    _show(shell, title, columns, rows)


def head(cycle: Cycle) -> dict[str, object]:
    """Answer the first lines of every report about a cycle, for people."""
    return {
        _("cycle"): cycle.name,
        _("state"): _(cycle.state.value),
        _("due"): cycle.due_on,
    }


def cycle_fields(cycle: Cycle) -> dict[str, object]:
    """Answer a cycle for programs."""
    return {
        "id": cycle.id,
        "name": cycle.name,
        "state": cycle.state,
        "rules": list(cycle.rules),
        "due_on": cycle.due_on,
        "activated_at": cycle.activated_at,
        "activated_by": cycle.activated_by,
        "hold_until": cycle.hold_until,
    }


def _show(
    shell: Shell, title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]
) -> None:
    if rows:
        shell.out.line(title)
        shell.out.table(columns, rows)
        shell.out.line()
