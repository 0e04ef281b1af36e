"""What a mail is, and the name it keeps on every try.

A mail is a value: written once, checked when it is made, sent as often as it
takes. Nothing here speaks to a server.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID, uuid5

from relevo.integrations.smtp.errors import BadMail
from relevo.integrations.smtp.mailbox import Mailbox
from relevo.integrations.smtp.text import not_text, unsafe_in_header

DEFAULT_DOMAIN: Final = "relevo.invalid"
"""Reserved by RFC 2606, so it is nobody's; pass the sender's own domain instead."""

# Never change it: it would give every mail that is still being tried a second identity.
_NAMESPACE: Final = UUID("6f0c8b8e-2d0f-5c58-9d5e-3a7a5f0d5b11")

_HEADER_NAME = re.compile(r"[!-9;-~]+")
_LANGUAGE = re.compile(r"[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*")
_MESSAGE_ID = re.compile(r"<[!-;=?A-~]+@[!-;=?A-~]+>")
_OURS: Final = frozenset(
    {
        *("from", "sender", "reply-to", "to", "cc", "bcc", "resent-to", "resent-cc", "resent-bcc"),
        *("subject", "date", "message-id", "auto-submitted", "mime-version", "return-path"),
    }
)


@dataclass(frozen=True, slots=True)
class Mail:
    """One message for one person.

    Attributes:
        to: The only recipient. There is no copy and no blind copy: one job, one person.
        subject: One line.
        text: The body that every reader can show.
        message_id: From `message_id`, so that a second try is the same mail.
        html: The same body for readers that prefer it.
        reply_to: Where answers go, if not to the sender.
        language: The tag of the language it is written in, such as `es` or `pt-BR`.
        headers: Further headers of free text. Those that this package writes are refused.

    Raises:
        BadMail: A line break in a header, a header that is not the caller's, or a text that
            cannot be encoded. Nothing has been sent.
    """

    to: Mailbox
    subject: str
    text: str
    message_id: str
    html: str | None = None
    reply_to: Mailbox | None = None
    language: str = "en"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        """Refuse the mail before anything of it is sent."""
        self._check("subject", unsafe_in_header(self.subject))
        self._check("text", not_text(self.text))
        self._check("html", not_text(self.html or ""))
        if not _LANGUAGE.fullmatch(self.language):
            self._check("language", "is not a language tag")
        if not _MESSAGE_ID.fullmatch(self.message_id):
            self._check("message_id", "is not of the form <left@right>")
        for name, value in self.headers.items():
            self._check_header(name, value)

    def _check_header(self, name: str, value: str) -> None:
        lower = name.lower()
        if not _HEADER_NAME.fullmatch(name):
            self._check(f"header {name!r}", "has a name with characters that are not allowed")
        if lower in _OURS or lower.startswith("content-"):
            self._check(f"header {name}", "is written by relevo and cannot be given")
        self._check(f"header {name}", unsafe_in_header(value))

    def _check(self, what: str, problem: str) -> None:
        if problem:
            raise BadMail(field=what, problem=problem)


def message_id(
    tenant_id: UUID,
    kind: str,
    aggregate_id: object,
    recipient_key: object,
    occurrence: int = 0,
    *,
    domain: str = DEFAULT_DOMAIN,
) -> str:
    """Name a mail by what it is about, the same on every try.

    A server or a mailbox that removes duplicates can then recognise a second send.
    The name holds a digest only, so no address or name can be read from it.

    Args:
        tenant_id: Whose mail it is.
        kind: The kind of the job that sends it.
        aggregate_id: What it is about, such as the cycle.
        recipient_key: Who gets it; the person's id rather than the address, which may change.
        occurrence: 0 for the first; a number of its own for each wanted repetition.
        domain: The right side; the sender's domain is the usual choice.
    """
    identity = [str(tenant_id), kind, str(aggregate_id), str(recipient_key), occurrence]
    return f"<{uuid5(_NAMESPACE, json.dumps(identity))}@{domain}>"
