"""The proxy: a port of its own on the loopback, a loop on a thread of its own."""

import asyncio
import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from faults.proxy.faults import LASTING, Fault, Kind
from faults.proxy.link import Link

HERE = "127.0.0.1"


class Proxy:
    """Accepts clients and brings each to the server.

    Args:
        port: Where the server listens, on the loopback.

    Attributes:
        port: Where the proxy listens.
        hits: How many connections each kind of fault has met.
        lost: What the server had done when its answers were lost, by the program that asked.
    """

    def __init__(self, port: int) -> None:
        self._upstream = port
        self._listener = socket.create_server((HERE, 0), backlog=200)
        self._listener.settimeout(0)
        self._loop = asyncio.new_event_loop()
        self._links: dict[asyncio.Task[None], Link] = {}
        self._active: list[Fault] = []
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._stop = asyncio.Event()
        self.port: int = self._listener.getsockname()[1]
        self.hits: Counter[Kind] = Counter()
        self.lost: Counter[tuple[str, str]] = Counter()

    def start(self) -> None:
        """Accept clients."""
        self._thread.start()

    def close(self) -> None:
        """Cut every connection and listen no more."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._listener.close()

    def inflict(self, fault: Fault) -> "Future[int]":
        """Let a fault begin, last and end; the answer is how many connections it met."""
        return asyncio.run_coroutine_threadsafe(self._inflict(fault), self._loop)

    def programs(self) -> list[str]:
        """Answer who is connected."""

        async def ask() -> list[str]:
            return [link.program for link in self._links.values() if link.program is not None]

        return asyncio.run_coroutine_threadsafe(ask(), self._loop).result()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        accepting = asyncio.create_task(self._accept())
        await self._stop.wait()
        tasks = [accepting, *self._links]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self) -> None:
        while True:
            client, _ = await self._loop.sock_accept(self._listener)
            client.settimeout(0)
            server = socket.socket()
            server.settimeout(0)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = Link(client, server, self._meet)
            task = asyncio.create_task(self._connect(link, client, server))
            self._links[task] = link
            task.add_done_callback(self._forget)

    async def _connect(self, link: Link, client: socket.socket, server: socket.socket) -> None:
        try:
            await self._loop.sock_connect(server, (HERE, self._upstream))
        except (OSError, asyncio.CancelledError):
            # As the server itself would refuse it.
            link.refuse()
            return
        await link.run()

    def _forget(self, task: "asyncio.Task[None]") -> None:
        link = self._links.pop(task)
        if link.lost is not None:
            self.lost[link.program or "", link.lost.split()[0]] += 1
            self.hits[Kind.LOST_ANSWER] += 1
        with contextlib.suppress(asyncio.CancelledError):
            task.result()

    def _meet(self, link: Link) -> None:
        """Let those who come meet what lasts."""
        for fault in self._active:
            if fault.meets_newcomers and fault.meets(link.program or ""):
                link.begin(fault)
                self.hits[fault.kind] += 1

    async def _inflict(self, fault: Fault) -> int:
        met = [one for one in self._links.values() if fault.meets(one.program or "")]
        if fault.kind in LASTING:
            self._active.append(fault)
        for link in met:
            link.begin(fault)
        if fault.kind is Kind.LOST_ANSWER:
            return await self._await_lost(fault, met)
        self.hits[fault.kind] += len(met)
        if fault.kind in LASTING:
            await asyncio.sleep(fault.lasts)
            self._active.remove(fault)
            for link in list(self._links.values()):
                link.end(fault)
        return len(met)

    async def _await_lost(self, fault: Fault, met: list[Link]) -> int:
        """Wait for the first of them to lose an answer; the others keep theirs."""
        losing = [asyncio.create_task(link.has_lost.wait()) for link in met]
        if losing:
            await asyncio.wait(losing, timeout=fault.lasts, return_when=asyncio.FIRST_COMPLETED)
        for waiting in losing:
            waiting.cancel()
        # Those that are cut are counted when they have gone.
        if going := [task for task, link in self._links.items() if link.lost is not None]:
            await asyncio.wait(going)
        for link in met:
            link.end(fault)
        return sum(link.lost is not None for link in met)


@contextmanager
def a_proxy(port: int) -> Iterator[Proxy]:
    """Lend a proxy in front of a port; it is gone at the end with all its connections."""
    proxy = Proxy(port)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.close()
