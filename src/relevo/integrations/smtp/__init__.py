"""Mail over SMTP: a channel, the mails, and what becomes of them.

Needs the extra `mail`. A handler makes a `Mail`, gives it to `deliver` and returns
the answer; retries, pauses and the job's end follow from it.
"""

from relevo.integrations.smtp.breaker import Breaker
from relevo.integrations.smtp.channel import SmtpChannel
from relevo.integrations.smtp.deliver import MailResult, deliver
from relevo.integrations.smtp.environment import settings_from_environment, settings_from_url
from relevo.integrations.smtp.errors import (
    BadMail,
    BadMailbox,
    BadMailSetting,
    MailChannelClosed,
)
from relevo.integrations.smtp.mail import Mail, message_id
from relevo.integrations.smtp.mailbox import Mailbox
from relevo.integrations.smtp.routing import AllowList, Routing
from relevo.integrations.smtp.settings import Rate, Secret, SmtpSettings, Timeouts, Tls
from relevo.integrations.smtp.verdict import (
    ChannelDown,
    Delivered,
    Delivery,
    PermanentRefusal,
    TemporaryRefusal,
    Withheld,
)

__all__ = [
    "AllowList",
    "BadMail",
    "BadMailSetting",
    "BadMailbox",
    "Breaker",
    "ChannelDown",
    "Delivered",
    "Delivery",
    "Mail",
    "MailChannelClosed",
    "MailResult",
    "Mailbox",
    "PermanentRefusal",
    "Rate",
    "Routing",
    "Secret",
    "SmtpChannel",
    "SmtpSettings",
    "TemporaryRefusal",
    "Timeouts",
    "Tls",
    "Withheld",
    "deliver",
    "message_id",
    "settings_from_environment",
    "settings_from_url",
]
