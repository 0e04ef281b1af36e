"""Turn a mail into what a server is handed: an envelope and bytes.

Bodies travel as quoted-printable, so no line is too long, no byte needs eight
bits, and no dot ends the mail early. Accents in a header are encoded words; only
an address that has no other spelling asks for SMTPUTF8.
"""

from dataclasses import dataclass
from datetime import datetime
from email import policy
from email.message import EmailMessage
from email.utils import format_datetime

from relevo.integrations.smtp.headers import mailbox_header, text_header
from relevo.integrations.smtp.mail import Mail
from relevo.integrations.smtp.mailbox import Mailbox


@dataclass(frozen=True, slots=True)
class Envelope:
    """What the dialogue needs to know.

    Attributes:
        sender: The address for MAIL FROM.
        recipient: The address for RCPT TO.
        content: The message, lines ended by CRLF, not yet dot-stuffed.
        sender_needs_utf8: Whether every mail of this channel needs SMTPUTF8.
        recipient_needs_utf8: Whether this mail does because of its recipient.
    """

    sender: str
    recipient: str
    content: bytes
    sender_needs_utf8: bool = False
    recipient_needs_utf8: bool = False

    @property
    def needs_utf8(self) -> bool:
        """Whether the server must offer SMTPUTF8."""
        return self.sender_needs_utf8 or self.recipient_needs_utf8


def envelope(mail: Mail, sender: Mailbox, now: datetime) -> Envelope:
    """Address and write a mail for one try.

    Args:
        mail: The checked mail.
        sender: Who it is from.
        now: When this try is made, with its time zone.
    """
    return Envelope(
        sender=sender.wire,
        recipient=mail.to.wire,
        content=_head(mail, sender, now).encode() + _body(mail),
        sender_needs_utf8=sender.needs_utf8,
        recipient_needs_utf8=mail.to.needs_utf8 or (mail.reply_to or sender).needs_utf8,
    )


def _head(mail: Mail, sender: Mailbox, now: datetime) -> str:
    lines = [
        mailbox_header("From", sender),
        mailbox_header("To", mail.to),
        text_header("Subject", mail.subject),
        f"Date: {format_datetime(now)}\r\n",
        f"Message-ID: {mail.message_id}\r\n",
        "Auto-Submitted: auto-generated\r\n",
        f"Content-Language: {mail.language}\r\n",
    ]
    if mail.reply_to is not None:
        lines.append(mailbox_header("Reply-To", mail.reply_to))
    lines += [text_header(name, value) for name, value in mail.headers.items()]
    return "".join(lines)


def _body(mail: Mail) -> bytes:
    """Write the text, and its alternative, with the headers that say how to read them."""
    message = EmailMessage(policy.SMTP)
    message.set_content(mail.text, cte="quoted-printable")
    if mail.html is not None:
        message.add_alternative(mail.html, subtype="html", cte="quoted-printable")
    return message.as_bytes()
