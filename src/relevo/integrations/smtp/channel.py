"""Send mails through one server, and say what became of each.

The channel decides nothing about retries: it answers a verdict. `deliver` turns
the verdict into what a job's handler returns.
"""

from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

from aiolimiter import AsyncLimiter

from relevo.integrations.smtp.breaker import BreakerHolder
from relevo.integrations.smtp.mail import Mail
from relevo.integrations.smtp.pool import Pool
from relevo.integrations.smtp.render import envelope
from relevo.integrations.smtp.settings import SmtpSettings
from relevo.integrations.smtp.verdict import Delivery, Withheld


class SmtpChannel:
    """A server, a few connections to it, a rate and a breaker.

    It belongs to the event loop of the first `send` and connects only then. Close it there,
    or use it with `async with`.

    Args:
        settings: Where the server is and who may be written to.

    Raises:
        BadMailSetting: The file of certificates cannot be read.
    """

    def __init__(self, settings: SmtpSettings) -> None:
        self.settings = settings
        self._pool = Pool(settings, settings.tls_context())
        self._limiter = AsyncLimiter(*settings.rate.bucket) if settings.rate else None
        self._breaker = BreakerHolder()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def pause(self) -> timedelta:
        """How long to leave the server alone, after the outages so far."""
        return self._breaker.state.pause

    async def send(self, mail: Mail) -> Delivery:
        """Try once to hand the mail over.

        A mail that must not leave from here is withheld before any connection is opened.

        Args:
            mail: What to send; another try sends the same value with the same Message-ID.

        Raises:
            MailChannelClosed: The channel was closed.
        """
        routed = self.settings.routing.route(mail)
        if isinstance(routed, Withheld):
            return routed
        if self._limiter is not None:
            await self._limiter.acquire()
        seen = self._breaker.state
        letter = envelope(routed, self.settings.sender, datetime.now(UTC))
        delivery = await self._pool.transmit(letter)
        self._breaker.record(seen, delivery)
        return delivery

    async def close(self) -> None:
        """Let the mails under way end and close every connection; no more are taken."""
        await self._pool.close()
