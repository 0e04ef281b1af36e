"""Print what was done to a cycle: figures and tables for people, one document for programs."""

import shlex
from collections.abc import Sequence

from relevo.cli import Shell, say_error
from relevo.cli import gettext as _
from relevo_apps.evaluations.commands.desk import in_words
from relevo_apps.evaluations.commands.texts import (
    cycle_fields,
    finding_fields,
    head,
    show_findings,
)
from relevo_apps.evaluations.model.cycles import Cycle
from relevo_apps.evaluations.model.reports import (
    Activation,
    Added,
    Generated,
    Preflight,
    Recall,
    Recipient,
    Removed,
)

_READY_SHOWN = 20


def show_created(
    shell: Shell, draft: Cycle, added: Added, peers: Added | None, generated: Generated
) -> None:
    """Print a new draft."""
    left_out = [*added.inactive, *(peers.inactive if peers else ())]
    if shell.out.as_json:
        shell.out.json(
            {
                "cycle": cycle_fields(draft),
                "participants": added.added,
                "evaluations": {
                    "total": generated.total,
                    **{relation.value: count for relation, count in generated.totals.items()},
                },
                "peers": peers.added if peers else 0,
                "left_out": {
                    "inactive": left_out,
                    "not_participants": list(peers.not_participants) if peers else [],
                    "selves": list(peers.selves) if peers else [],
                },
            }
        )
        return
    _note_left_out(shell, left_out, peers.not_participants if peers else ())
    shell.out.fields(
        {
            **head(draft),
            _("participants"): added.added,
            _("evaluations"): _relations(generated),
        }
    )
    shell.out.note(
        _("Look before you activate: relevo cycle preflight %(name)s")
        % {"name": shlex.quote(draft.name)}
    )


def show_participants(
    shell: Shell, draft: Cycle, added: Added | None, removed: Removed | None
) -> None:
    """Print who entered a draft and who left it."""
    inactive = added.inactive if added else ()
    if shell.out.as_json:
        shell.out.json(
            {
                "cycle": cycle_fields(draft),
                "added": added.added if added else 0,
                "already_there": added.already_there if added else 0,
                "left_out": {"inactive": list(inactive)},
                "removed": removed.participants if removed else 0,
                "evaluations_removed": removed.evaluations if removed else 0,
            }
        )
        return
    _note_left_out(shell, inactive, ())
    shell.out.fields(
        {
            **head(draft),
            _("added"): added.added if added else None,
            _("there before"): (added.already_there or None) if added else None,
            _("removed"): removed.participants if removed else None,
            _("evaluations removed"): removed.evaluations if removed else None,
        }
    )
    _note_generate(shell, draft)


def show_peers(shell: Shell, draft: Cycle, peers: Added) -> None:
    """Print which peers are asked now."""
    if shell.out.as_json:
        shell.out.json(
            {
                "cycle": cycle_fields(draft),
                "added": peers.added,
                "already_there": peers.already_there,
                "left_out": {
                    "inactive": list(peers.inactive),
                    "not_participants": list(peers.not_participants),
                    "selves": list(peers.selves),
                },
            }
        )
        return
    _note_left_out(shell, peers.inactive, peers.not_participants)
    shell.out.fields(
        {
            **head(draft),
            _("added"): peers.added,
            _("there before"): peers.already_there or None,
        }
    )


def show_generated(shell: Shell, draft: Cycle, generated: Generated) -> None:
    """Print the evaluations of a draft after its rules were applied again."""
    if shell.out.as_json:
        shell.out.json(
            {
                "cycle": cycle_fields(draft),
                "created": generated.created,
                "removed": generated.removed,
                "evaluations": {
                    "total": generated.total,
                    **{relation.value: count for relation, count in generated.totals.items()},
                },
            }
        )
        return
    shell.out.fields(
        {
            **head(draft),
            _("added"): generated.created,
            _("removed"): generated.removed,
            _("evaluations"): _relations(generated),
        }
    )


def _note_left_out(shell: Shell, inactive: Sequence[str], others: Sequence[str]) -> None:
    if inactive:
        shell.out.note(
            _("left out, because they have left: %(ids)s") % {"ids": ", ".join(inactive)}
        )
    if others:
        shell.out.note(
            _("left out, because they take no part: %(ids)s") % {"ids": ", ".join(others)}
        )


def _note_generate(shell: Shell, draft: Cycle) -> None:
    shell.out.note(
        _("Let the evaluations follow: relevo cycle generate %(name)s")
        % {"name": shlex.quote(draft.name)}
    )


def _relations(generated: Generated) -> str:
    counts = (f"{_(each.value)} {count}" for each, count in generated.totals.items() if count)
    listed = ", ".join(counts)
    return f"{generated.total} ({listed})" if listed else "0"


def show_preflight(shell: Shell, seen: Preflight) -> None:
    """Print what an activation would do."""
    if shell.out.as_json:
        shell.out.json(
            {
                "cycle": cycle_fields(seen.cycle),
                "is_ready": seen.refusal is None,
                "refusal": str(seen.refusal) if seen.refusal else None,
                "notifications": seen.notifications,
                "evaluations": seen.evaluations,
                "ready": [
                    {
                        "person": each.external_id,
                        "name": each.full_name,
                        "email": each.email,
                        "language": each.language,
                        "evaluations": each.evaluations,
                    }
                    for each in seen.ready
                ],
                "warnings": [finding_fields(each, seen.cycle.name) for each in seen.warnings],
                "blocked": [finding_fields(each, seen.cycle.name) for each in seen.blocked],
            }
        )
        return
    if seen.ready:
        shell.out.line(_("Ready"))
        columns = (_("id"), _("name"), _("e-mail"), _("language"), _("evaluations"))
        rows = [
            (each.external_id, each.full_name, each.email, each.language, each.evaluations)
            for each in seen.ready[:_READY_SHOWN]
        ]
        shell.out.table(columns, rows)
        if more := len(seen.ready) - len(rows):
            shell.out.line(_("… and %(more)d more; all of them with -o json") % {"more": more})
        shell.out.line()
    show_findings(shell, _("Worth a look"), seen.warnings, seen.cycle.name)
    show_findings(shell, _("Blocked"), seen.blocked, seen.cycle.name)
    if seen.refusal is not None and not seen.blocked:
        # Nothing was rehearsed, so there are no figures.
        shell.out.fields(head(seen.cycle))
        shell.out.note(say_error(in_words(seen.refusal)))
        return
    shell.out.fields(
        {
            **head(seen.cycle),
            _("ready"): len(seen.ready),
            _("warnings"): len(seen.warnings),
            _("blocked"): len(seen.blocked),
            _("evaluations"): seen.evaluations,
            _("notifications"): seen.notifications,
        }
    )
    if seen.refusal is None:
        shell.out.note(
            _("Nothing was written. Go ahead with: relevo cycle activate %(name)s")
            % {"name": shlex.quote(seen.cycle.name)}
        )
    else:
        shell.out.note(_("Nothing was written, and an activation would be refused now."))


def show_activation(shell: Shell, done: Activation) -> None:
    """Print what an activation did."""
    if shell.out.as_json:
        shell.out.json(
            {
                "cycle": cycle_fields(done.cycle),
                "evaluations": done.evaluations,
                "evaluators": done.evaluators,
                "notifications": done.notifications,
                "revived": done.revived,
                "already_there": done.already_there,
                "warnings": [finding_fields(each, done.cycle.name) for each in done.warnings],
            }
        )
        return
    show_findings(shell, _("Worth a look"), done.warnings, done.cycle.name)
    shell.out.fields(
        {
            **head(done.cycle),
            _("evaluations"): done.evaluations,
            _("notifications"): done.notifications,
            _("written to before"): done.already_there or None,
            _("first mail"): done.cycle.hold_until,
        }
    )
    if done.cycle.hold_until == done.cycle.activated_at:
        return
    shell.out.note(
        _("Until then it can be taken back whole: relevo cycle recall %(name)s")
        % {"name": shlex.quote(done.cycle.name)}
    )


def show_recall(shell: Shell, done: Recall) -> None:
    """Print what a recall took back."""
    if shell.out.as_json:
        shell.out.json(
            {
                "cycle": cycle_fields(done.cycle),
                "evaluations": done.evaluations,
                "cancelled": done.cancelled,
                "mailed": [_recipient_fields(each) for each in done.mailed],
                "in_flight": [_recipient_fields(each) for each in done.in_flight],
            }
        )
        return
    for title, people in ((_("Written to already"), done.mailed), (_("Under way"), done.in_flight)):
        if people:
            shell.out.line(title)
            columns = (_("id"), _("name"), _("e-mail"), _("at"))
            rows = [(each.external_id, each.full_name, each.email, each.at) for each in people]
            shell.out.table(columns, rows)
            shell.out.line()
    shell.out.fields(
        {
            **head(done.cycle),
            _("evaluations"): done.evaluations,
            _("mails not sent"): done.cancelled,
            _("written to already"): len(done.mailed),
            _("under way"): len(done.in_flight),
        }
    )


def _recipient_fields(recipient: Recipient) -> dict[str, object]:
    return {
        "person": recipient.external_id,
        "name": recipient.full_name,
        "email": recipient.email,
        "at": recipient.at,
    }
