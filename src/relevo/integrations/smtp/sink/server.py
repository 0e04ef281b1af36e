"""Run an SMTP server on this machine, in a thread of its own, that can go down and come back.

While it is down its port stays reserved and connections to it are refused, as
they are where a server has stopped. What the server says belongs to its handler.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine
from threading import Thread
from typing import Any, TypeVar

from aiosmtpd.smtp import SMTP

T = TypeVar("T")

_START_TIMEOUT = 30.0


class LocalServer:
    """A server for demonstrations and tests, reachable from this machine only.

    Args:
        make: Makes the protocol of one connection, on the loop that it is given.
        tls: Encrypts from the first byte; STARTTLS is the protocol's own matter.
    """

    def __init__(
        self,
        make: Callable[[asyncio.AbstractEventLoop], SMTP],
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._make = make
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._run, name="relevo-smtp-sink", daemon=True)
        self._reserved = _reserve(0)
        self._server: asyncio.Server | None = None
        self._open: list[SMTP] = []
        self.host, self.port = self._reserved.getsockname()[:2]

    def start(self) -> None:
        """Start the thread and listen."""
        self._thread.start()
        self.up()

    def up(self) -> None:
        """Listen again on the same port."""
        self._call(self._listen())

    def down(self) -> None:
        """Break every connection and refuse new ones."""
        self._call(self._fall())

    def stop(self) -> None:
        """Break every connection, end the thread and give the port back."""
        self._call(self._fall())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._reserved.close()

    def _run(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_START_TIMEOUT)

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await self._loop.create_server(
                self._connected, sock=self._reserved, ssl=self._tls
            )

    def _connected(self) -> SMTP:
        protocol = self._make(self._loop)
        self._open = [known for known in self._open if known.transport is not None]
        self._open.append(protocol)
        return protocol

    async def _fall(self) -> None:
        if self._server is None:
            return
        self._server.close()
        self._server = None
        self._reserved = _reserve(self.port)
        for protocol in self._open:
            if isinstance(protocol.transport, asyncio.WriteTransport):
                protocol.transport.abort()
        self._open = []
        if talks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(talks, timeout=_START_TIMEOUT)


def _reserve(port: int) -> socket.socket:
    """Hold a port without listening: whoever connects is refused, and nobody else gets it."""
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", port))
    return held
