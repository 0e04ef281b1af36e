"""One connection through the proxy: a socket for each end, and what a fault does to them."""

import asyncio
import re
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

from faults.proxy.blackhole import make_deaf, make_hear
from faults.proxy.faults import Direction, Fault, Kind
from faults.proxy.wire import ASKS, DONE, IDLE, READY, Messages, program_of

PIECE = 65536
SLOW = 1.0
"""Seconds for one byte."""

CHANGES_NOTHING = (b"BEGIN", b"START TRANSACTION", b"ROLLBACK", b"SET", b"RESET", b"LISTEN")


class Link:
    """A client and its session.

    Args:
        client: The socket to the client.
        server: The socket to the server.
        named: Called once, when it is known who the client is.

    Attributes:
        program: Who the client is, as it said itself; None before it did.
        lost: What the server had done when its answer was lost, such as COMMIT.
        has_lost: Set when it was.
    """

    def __init__(
        self, client: socket.socket, server: socket.socket, named: Callable[["Link"], None]
    ) -> None:
        self._client, self._server, self._named = client, server, named
        self._messages = {
            Direction.TO_SERVER: Messages(has_startup=True),
            Direction.TO_CLIENT: Messages(has_startup=False),
        }
        self._faults: dict[Direction, Fault | None] = dict.fromkeys(Direction)
        self._changed = asyncio.Event()
        self._is_ended: set[Direction] = set()
        self._has_swallowed = self._is_closed = False
        self._armed: Fault | None = None
        self._held: bytes | None = None
        self._done = b""
        self._pumps: list[asyncio.Task[None]] = []
        self.program: str | None = None
        self.lost: str | None = None
        self.has_lost = asyncio.Event()

    async def run(self) -> None:
        """Pass bytes until both directions have ended, or the connection is cut."""
        self._pumps = [
            asyncio.create_task(self._pump(Direction.TO_SERVER, self._client, self._server)),
            asyncio.create_task(self._pump(Direction.TO_CLIENT, self._server, self._client)),
        ]
        is_reset = False
        try:
            # A direction that fails takes the other one with it.
            await asyncio.gather(*self._pumps)
        except (OSError, asyncio.CancelledError):
            is_reset = True
        finally:
            self.cut()
            await asyncio.wait(self._pumps)
            # Not before: the loop still watched the sockets for them.
            self._close(is_reset=is_reset)

    def refuse(self) -> None:
        """Close both ends before anything has passed."""
        self._close(is_reset=False)

    def begin(self, fault: Fault) -> None:
        """Let a fault happen from now on, or at once where it is over at once."""
        if self._is_closed:
            # It ended a moment ago, and the proxy is about to forget it.
            return
        match fault.kind:
            case Kind.RESET:
                self.cut()
            case Kind.HALF_CLOSE:
                for direction in fault.directions:
                    self._end(direction)
            case Kind.LOST_ANSWER:
                self._armed = fault
            case _:
                for direction in fault.directions:
                    self._faults[direction] = fault
                    if fault.kind is Kind.BLACKHOLE:
                        make_deaf(self._source(direction))
                self._tell()

    def end(self, fault: Fault) -> None:
        """Let bytes pass again."""
        if self._is_closed:
            return
        self._armed = None
        for direction in Direction:
            if self._faults[direction] is fault:
                self._faults[direction] = None
                if fault.kind is Kind.BLACKHOLE:
                    make_hear(self._source(direction))
        self._tell()
        if self._has_swallowed:
            self.cut()

    def cut(self) -> None:
        """Reset both ends."""
        for pump in self._pumps:
            pump.cancel()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _source(self, direction: Direction) -> socket.socket:
        return self._client if direction is Direction.TO_SERVER else self._server

    async def _pump(
        self, direction: Direction, source: socket.socket, target: socket.socket
    ) -> None:
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(source, PIECE):
            if direction is Direction.TO_SERVER:
                self._read_questions(data)
                await self._pass(direction, data, target)
            elif self._held is None:
                for _ in self._read_answers(data):
                    pass
                await self._pass(direction, data, target)
            else:
                await self._hold(data, target)
        await self._pass(direction, b"", target)
        self._end(direction)

    def _read_questions(self, data: bytes) -> None:
        for letter, body in self._messages[Direction.TO_SERVER].feed(data):
            if not letter:
                self.program = program_of(body)
                self._named(self)
            elif letter in ASKS and self._armed and self._held is None:
                self._held = self._done = b""

    def _read_answers(self, data: bytes) -> list[bytes]:
        """Answer how the session stood after each question that is answered by now."""
        stood = []
        for letter, body in self._messages[Direction.TO_CLIENT].feed(data):
            if letter == DONE:
                self._done = body.rstrip(b"\0")
            elif letter == READY:
                stood.append(body)
        return stood

    async def _hold(self, data: bytes, target: socket.socket) -> None:
        """Keep an answer back until it is whole, and lose it where it was of a commit."""
        assert self._held is not None
        self._held += data
        stood = self._read_answers(data)
        if not stood:
            return
        if IDLE in stood and self._is_wanted(self._done):
            self.lost = self._done.decode()
            self.has_lost.set()
            self.cut()
            return
        held, self._held = self._held, None
        await self._pass(Direction.TO_CLIENT, held, target)

    def _is_wanted(self, done: bytes) -> bool:
        if self._armed is None or not done or done.startswith(CHANGES_NOTHING):
            return False
        return re.search(self._armed.of, done.decode()) is not None

    async def _pass(self, direction: Direction, data: bytes, target: socket.socket) -> None:
        """Bring a piece to its end, or do to it what happens in this direction."""
        while fault := self._faults[direction]:
            changed = self._changed
            if fault.kind is Kind.SWALLOW:
                self._has_swallowed = self._has_swallowed or bool(data)
                return
            if fault.kind is Kind.LATENCY:
                await asyncio.sleep(fault.delay)
                break
            if fault.kind is Kind.THROTTLE:
                await self._send(direction, data[:1], target)
                data = data[1:]
                if not data:
                    return
            with suppress(TimeoutError):
                await asyncio.wait_for(
                    changed.wait(), SLOW if fault.kind is Kind.THROTTLE else None
                )
        await self._send(direction, data, target)

    async def _send(self, direction: Direction, data: bytes, target: socket.socket) -> None:
        if data and direction not in self._is_ended:
            await asyncio.get_running_loop().sock_sendall(target, data)

    def _end(self, direction: Direction) -> None:
        """Say to the end that nothing more comes; it may go on speaking."""
        self._is_ended.add(direction)
        target = self._server if direction is Direction.TO_SERVER else self._client
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def _close(self, *, is_reset: bool) -> None:
        self._is_closed = True
        for end in (self._client, self._server):
            if is_reset:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.close()
