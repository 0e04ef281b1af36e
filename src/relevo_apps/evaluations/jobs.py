"""The jobs of evaluation cycles: one notification for one person, delivered by mail.

The activation writes the jobs; here they are carried out. What the mail says is read
at the moment of sending, so a recalled cycle writes to nobody and a corrected address
counts from the next try.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from uuid import UUID

from relevo import (
    DELIVERY,
    KEEP,
    Backoff,
    Cancel,
    Context,
    Fail,
    Outage,
    Relevo,
    RelevoError,
    Retry,
    perform,
)
from relevo_apps.evaluations.mails import one_line, write_invitation
from relevo_apps.evaluations.model.cycles import DEFAULT_DISPATCH, NOTIFICATION_KIND
from relevo_apps.evaluations.model.invitation import Invitation
from relevo_apps.evaluations.postbox import Postbox
from relevo_apps.evaluations.store.delivery import read_invitation

if TYPE_CHECKING:
    from relevo.integrations.smtp import Mail

SCALE: Final = "RELEVO_BACKOFF_SCALE"
"""The variable that shortens or stretches the waits between retries, for demonstrations."""

LARGEST_SCALE: Final = 100.0

Ending = dict[str, str] | Retry | Fail | Cancel | Outage


class BadScale(RelevoError):
    """The variable that scales the waits holds no usable number."""

    template = (
        "RELEVO_BACKOFF_SCALE is %(value)s, and it has to be a number above 0 and up to 100; "
        "leave it out for the usual waits"
    )


def backoff_scale(environment: Mapping[str, str] | None = None) -> float:
    """Read by how much the waits between retries are multiplied; 1 is usual.

    Raises:
        BadScale: The variable holds something else than a number in bounds.
    """
    text = (os.environ if environment is None else environment).get(SCALE, "").strip() or "1"
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 0 < scale <= LARGEST_SCALE:
        raise BadScale(value=text)
    return scale


def scaled(rule: Backoff, scale: float) -> Backoff:
    """Answer the same rule with every wait multiplied."""
    return Backoff(rule.base * scale, rule.factor, rule.cap * scale, rule.jitter)


def declare_notifications(
    app: Relevo, postbox: Postbox | None = None, *, scale: float = 1.0
) -> None:
    """Let an application deliver the notifications of activated cycles.

    Args:
        app: Whose workers deliver.
        postbox: Where mails are handed in; None makes one that reads the environment.
        scale: What the waits between retries are multiplied by; the workers say so at the
            first delivery when it is not 1.
    """
    box = postbox or Postbox()
    unusual = [] if scale == 1 else [scale]
    app.on_stop(box.close)

    @app.job(
        NOTIFICATION_KIND,
        queue=DEFAULT_DISPATCH.queue,
        retry=scaled(DELIVERY, scale),
        max_attempts=DEFAULT_DISPATCH.max_attempts,
        priority=DEFAULT_DISPATCH.priority,
        # The unique index reads these rows for as long as the cycle exists.
        retention=KEEP,
    )
    async def deliver_notification(ctx: Context, evaluator_id: UUID) -> object:
        if unusual:
            times = unusual.pop()
            ctx.log.warning("%s is %g: retries wait %g times as long as usual", SCALE, times, times)
        return await notify(ctx, evaluator_id, box)


async def notify(ctx: Context, evaluator_id: UUID, postbox: Postbox) -> Ending:
    """Write to one person about the evaluations that a cycle asks of them.

    Args:
        ctx: The start of the job; its aggregate is the cycle.
        evaluator_id: Whom to write to.
        postbox: Where the mail is handed in.
    """
    cycle_id = UUID(ctx.aggregate_id)
    async with ctx.connection() as connection:
        reading = read_invitation(ctx.tenant_id, cycle_id, evaluator_id)
        invitation = await perform(connection, reading)
    if invitation is None:
        return Fail(f"there is no cycle {cycle_id} or no person {evaluator_id} any more")
    if reason := invitation.is_obsolete:
        return Cancel(reason)
    if reason := invitation.is_undeliverable:
        return Fail(reason)
    return await postbox.post(
        lambda domain: _address(invitation, ctx.tenant_id, cycle_id, evaluator_id, domain)
    )


def _address(
    invitation: Invitation, tenant_id: UUID, cycle_id: UUID, evaluator_id: UUID, domain: str
) -> "Mail":
    """Address the letter, under a name that is the same on every try."""
    from relevo.integrations.smtp import Mail, Mailbox, message_id  # noqa: PLC0415 -- an extra

    letter = write_invitation(invitation)
    return Mail(
        to=Mailbox(invitation.email or "", one_line(invitation.full_name)),
        subject=letter.subject,
        text=letter.text,
        html=letter.html,
        language=letter.language,
        message_id=message_id(tenant_id, NOTIFICATION_KIND, cycle_id, evaluator_id, domain=domain),
    )
