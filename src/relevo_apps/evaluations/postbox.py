"""Keep the way to the mail server: one channel for each event loop that sends.

The settings are read when the first mail is to go out. A way that does not exist yet,
for want of a setting or of a package, pauses the queue with words that say what to
mend; no mail is lost and nobody's attempt is spent. The worker's log says it once.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from relevo import Fail, Outage, Retry

if TYPE_CHECKING:
    from relevo.integrations.smtp import Mail, MailResult, SmtpChannel, SmtpSettings

_LOG: Final = logging.getLogger("relevo.evaluations")

UNREADY_FOR: Final = timedelta(seconds=30)
"""How long the queue rests when this process has no way to send."""


class Postbox:
    """Where handlers hand in their mails.

    Args:
        settings: Where the settings come from; None reads the environment.
    """

    def __init__(self, settings: "Callable[[], SmtpSettings] | None" = None) -> None:
        self._settings = settings
        self._trouble: str | None = None
        self._channels: WeakKeyDictionary[asyncio.AbstractEventLoop, SmtpChannel] = (
            WeakKeyDictionary()
        )

    async def post(self, write: "Callable[[str], Mail]") -> "MailResult | Retry | Fail | Outage":
        """Write a mail and try once to send it.

        Args:
            write: Makes the mail, given the sender's domain for its Message-ID.

        Returns:
            The handler's answer.
        """
        answer = await self._post(write)
        self._report(answer.reason if isinstance(answer, Outage) else None)
        return answer

    async def close(self) -> None:
        """Take leave of the server on this event loop; the next mail opens a new channel."""
        channel = self._channels.pop(asyncio.get_running_loop(), None)
        if channel is not None:
            await channel.close()

    def _report(self, trouble: str | None) -> None:
        """Say when mail stops going out, and when it goes out again; once each."""
        if trouble != self._trouble:
            if trouble is None:
                _LOG.info("mail goes out again")
            else:
                _LOG.warning("no mail goes out for now: %s", trouble)
        self._trouble = trouble

    async def _post(self, write: "Callable[[str], Mail]") -> "MailResult | Retry | Fail | Outage":
        try:
            # An extra; only who sends mail needs it.
            from relevo.integrations.smtp import BadMail, BadMailbox, BadMailSetting, deliver  # noqa: PLC0415
        except ModuleNotFoundError as missing:
            return Outage(
                f"this worker cannot send mail, the package {missing.name} is missing: "
                "install relevo[mail] and start the worker again",
                UNREADY_FOR,
            )
        try:
            channel = self._channel()
        except BadMailSetting as unready:
            return Outage(f"this worker cannot send mail: {unready}", UNREADY_FOR)
        try:
            mail = write(channel.settings.domain)
        except (BadMail, BadMailbox) as refused:
            return Fail(str(refused))
        return await deliver(channel, mail)

    def _channel(self) -> "SmtpChannel":
        loop = asyncio.get_running_loop()
        channel = self._channels.get(loop)
        if channel is None:
            from relevo.integrations.smtp import SmtpChannel, settings_from_environment  # noqa: PLC0415

            channel = SmtpChannel((self._settings or settings_from_environment)())
            self._channels[loop] = channel
        return channel
