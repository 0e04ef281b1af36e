"""The mails that evaluation cycles send, written in the reader's language."""

from relevo_apps.evaluations.mails.invitation import write_invitation
from relevo_apps.evaluations.mails.letter import Letter, one_line

__all__ = ["Letter", "one_line", "write_invitation"]
