"""Turn what became of a mail into what the job's handler returns."""

from typing import TypeAlias

from relevo.integrations.smtp.channel import SmtpChannel
from relevo.integrations.smtp.mail import Mail
from relevo.integrations.smtp.verdict import (
    ChannelDown,
    Delivered,
    PermanentRefusal,
    TemporaryRefusal,
    Withheld,
)
from relevo.model.outcome import Fail, Outage, Retry

MailResult: TypeAlias = dict[str, str]
"""What a completed job keeps: `accepted` with the server's reply, or `withheld` with the reason."""


async def deliver(channel: SmtpChannel, mail: Mail) -> MailResult | Retry | Fail | Outage:
    """Try once to send a mail and answer the handler's outcome.

    A refusal for now follows the kind's own retries, a refusal for good ends the job with
    a reason that can be read, and an outage pauses the queue and spends no attempt.

    Args:
        channel: Where to send it.
        mail: What to send; it carries the Message-ID that is the same on every try.
    """
    delivery = await channel.send(mail)
    match delivery:
        case Delivered(reply):
            return {"accepted": reply}
        case Withheld(reason):
            return {"withheld": reason}
        case TemporaryRefusal(code, text):
            return Retry(reason=f"mail refused for now: {_said(code, text)}")
        case PermanentRefusal(code, text):
            return Fail(f"mail refused: {_said(code, text)}")
        case ChannelDown(reason):
            return Outage(reason, channel.pause)


def _said(code: int | None, text: str) -> str:
    return text if code is None else f"{code} {text}".rstrip()
