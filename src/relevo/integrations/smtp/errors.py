"""What the mail channel refuses before a word is said to a server.

No error of this module carries a password or the URL that holds one: a value
that was parsed wrongly may be a piece of the secret.
"""

from relevo.errors import RelevoError
from relevo.model.outcome import PermanentError


class BadMailSetting(RelevoError, ValueError):
    """A setting of the channel that cannot be used."""

    template = "%(name)s %(problem)s; %(remedy)s"


class BadMailbox(RelevoError, PermanentError, ValueError):
    """An address that no server could be asked about: the job ends, another try cannot help."""

    template = "%(address)r is no mail address: %(problem)s; correct the address"


class BadMail(RelevoError, PermanentError, ValueError):
    """A mail that cannot be written safely: nothing of it is sent."""

    template = "the mail's %(field)s %(problem)s; correct it where the mail is written"


class MailChannelClosed(RelevoError, RuntimeError):
    """A mail was given to a channel that this process has already closed."""

    template = (
        "the mail channel is closed; open a new one, or close it after the last job has ended"
    )
