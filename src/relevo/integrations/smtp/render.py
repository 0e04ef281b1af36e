"""Turn a mail into what a server is handed: an envelope and bytes.

Bodies travel as quoted-printable, so no line is too long, no byte needs eight
bits, and no dot ends the mail early. Non-ASCII headers are encoded words unless
an address itself needs SMTPUTF8.
"""

from dataclasses import dataclass
from datetime import datetime
from email import policy
from email.message import EmailMessage

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


def render(mail: Mail, sender: Mailbox, now: datetime) -> EmailMessage:
    """Write a mail as a message.

    Args:
        mail: The checked mail.
        sender: Who it is from.
        now: When this try is made, with its time zone.
    """
    message = EmailMessage(policy.SMTP)
    message["From"] = sender.header()
    message["To"] = mail.to.header()
    message["Subject"] = mail.subject
    message["Date"] = now
    message["Message-ID"] = mail.message_id
    message["Auto-Submitted"] = "auto-generated"
    message["Content-Language"] = mail.language
    for name, value in mail.headers.items():
        message[name] = value
    message.set_content(mail.text, cte="quoted-printable")
    if mail.html is not None:
        message.add_alternative(mail.html, subtype="html", cte="quoted-printable")
    return message


def envelope(mail: Mail, sender: Mailbox, now: datetime) -> Envelope:
    """Address and serialise a mail for one try."""
    utf8 = sender.needs_utf8 or mail.to.needs_utf8
    rules = policy.SMTPUTF8 if utf8 else policy.SMTP
    return Envelope(
        sender=sender.wire,
        recipient=mail.to.wire,
        content=render(mail, sender, now).as_bytes(policy=rules),
        sender_needs_utf8=sender.needs_utf8,
        recipient_needs_utf8=mail.to.needs_utf8,
    )
