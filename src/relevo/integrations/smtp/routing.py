"""Where a mail may go from here: outside production, not to the person it names.

Either every mail goes to one address, or only listed addresses and domains get
theirs; with both, the listed get theirs and the rest is redirected. The channel
applies this on every send, so no caller can forget it.
"""

from dataclasses import dataclass, replace

from relevo.integrations.smtp.mail import Mail
from relevo.integrations.smtp.mailbox import Mailbox
from relevo.integrations.smtp.verdict import Withheld

ORIGINAL_TO = "X-Relevo-Original-To"


@dataclass(frozen=True, slots=True)
class AllowList:
    """Addresses (`ana@example.com`) and domains (`example.com`) that may be written to."""

    entries: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> "AllowList":
        """Read entries separated by commas or spaces.

        Raises:
            BadMailbox: An entry is neither an address nor a domain.
        """
        words = text.replace(",", " ").split()
        return cls(frozenset(_entry(word) for word in words))

    def __contains__(self, mailbox: object) -> bool:
        if not isinstance(mailbox, Mailbox):
            return False
        return mailbox.wire.lower() in self.entries or f"@{mailbox.domain}" in self.entries


def _entry(word: str) -> str:
    """Write an entry as `AllowList` compares it; a domain alone keeps its at sign."""
    local, _, domain = word.rpartition("@")
    wire = Mailbox(f"{local or 'anyone'}@{domain}").wire.lower()
    return wire if local else f"@{wire.rpartition('@')[2]}"


@dataclass(frozen=True, slots=True)
class Routing:
    """Who may be written to.

    Attributes:
        redirect: Where the mail of everybody who is not listed goes; None withholds it
            when there is a list, and sends it when there is none.
        allow: Who gets their own mail; None lists nobody.
    """

    redirect: Mailbox | None = None
    allow: AllowList | None = None

    def route(self, mail: Mail) -> Mail | Withheld:
        """Answer the mail that may be sent in place of this one, or why none may."""
        if self.allow is not None and mail.to in self.allow:
            return mail
        if self.redirect is not None:
            return _redirected(mail, self.redirect)
        if self.allow is not None:
            return Withheld(f"{mail.to.address} is not on the list of RELEVO_MAIL_ALLOW")
        return mail


def _redirected(mail: Mail, to: Mailbox) -> Mail:
    meant_for = mail.to.address
    return replace(
        mail,
        to=to,
        subject=f"[{meant_for}] {mail.subject}",
        headers={**mail.headers, ORIGINAL_TO: meant_for},
    )
