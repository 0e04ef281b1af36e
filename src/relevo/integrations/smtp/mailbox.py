"""Who a mail is from or for: an address that is safe to write, with a name beside it.

Internationalised domains travel as ASCII wherever that keeps their meaning, so
that a server without SMTPUTF8 can still be asked. Nothing here resolves a name.
"""

import re
from dataclasses import dataclass
from typing import Final

from relevo.integrations.smtp.errors import BadMailbox
from relevo.integrations.smtp.text import unsafe_in_header

MAX_LOCAL: Final = 64
MAX_LABEL: Final = 63
MAX_ADDRESS: Final = 254

# Quoted local parts and address literals are refused: nobody's mailbox needs them, and they
# are how a parameter is smuggled onto a command line.
_LOCAL = re.compile(r"[^\s<>()\[\],;:\\\"@.]+(\.[^\s<>()\[\],;:\\\"@.]+)*")
_LABEL = re.compile(r"[^\W_]([\w-]*[^\W_])?")
_NAMED = re.compile(r"\s*(?P<name>[^<>]*?)\s*<(?P<address>[^<>]*)>\s*")
# IDNA 2003, which Python speaks, maps these to other letters: that would be another domain.
_DEVIATIONS: Final = frozenset("ßς\u200c\u200d")


@dataclass(frozen=True, slots=True)
class Mailbox:
    """A checked address and the name shown beside it.

    Attributes:
        address: `local@domain`, as its owner writes it.
        name: The name to show; may be empty, may have accents.

    Raises:
        BadMailbox: The address is not one, or the name would break a header.
    """

    address: str
    name: str = ""

    def __post_init__(self) -> None:
        """Refuse what no server could be asked about."""
        problem = _problem(self.address) or unsafe_in_header(self.name)
        if problem:
            raise BadMailbox(address=self.address, problem=problem)

    @classmethod
    def parse(cls, text: str) -> "Mailbox":
        """Read `ana@example.com` or `Ana Núñez <ana@example.com>`."""
        if named := _NAMED.fullmatch(text):
            return cls(named["address"].strip(), named["name"].strip('"'))
        return cls(text.strip())

    @property
    def local(self) -> str:
        """What stands before the at sign."""
        return self.address.rpartition("@")[0]

    @property
    def domain(self) -> str:
        """The domain as it travels: ASCII where that is the same domain."""
        return _travelling(self.address.rpartition("@")[2])

    @property
    def wire(self) -> str:
        """The address as it is said to a server."""
        return f"{self.local}@{self.domain}"

    @property
    def needs_utf8(self) -> bool:
        """Whether only a server with SMTPUTF8 can take this address."""
        return not self.wire.isascii()


def _problem(address: str) -> str:
    """Say what is wrong with an address, or nothing."""
    if problem := unsafe_in_header(address):
        return problem
    local, at, domain = address.rpartition("@")
    if not at:
        return "it has no '@'"
    if not _LOCAL.fullmatch(local):
        return "the part before '@' is empty or has characters that are not allowed"
    return _domain_problem(local, domain)


def _domain_problem(local: str, domain: str) -> str:
    if not all(_LABEL.fullmatch(label) for label in domain.split(".")):
        return "the domain is empty or has characters that are not allowed"
    try:
        travelling = _travelling(domain)
    except UnicodeError:
        return "the domain cannot be written in ASCII"
    if any(len(label.encode()) > MAX_LABEL for label in travelling.split(".")):
        return f"a part of the domain is longer than {MAX_LABEL} bytes"
    if len(local.encode()) > MAX_LOCAL or len(f"{local}@{travelling}".encode()) > MAX_ADDRESS:
        return f"it is longer than {MAX_LOCAL} bytes before '@' or {MAX_ADDRESS} in all"
    return ""


def _travelling(domain: str) -> str:
    if domain.isascii() or _DEVIATIONS.intersection(domain):
        return domain.lower()
    return domain.encode("idna").decode("ascii").lower()
