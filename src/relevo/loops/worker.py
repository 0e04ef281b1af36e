"""One worker process: who runs on which thread, and how it stops.

Threads: the engine's loop (claim, settle, listen, rescue), the handlers' loop, the
heartbeat, the time-outs, and one thread for each plain handler that runs. Connections:
six of the engine's own (claim, settle, rescue, prune, listen, heartbeat) and at most twice
`connections` for the handlers.
"""

import asyncio
import faulthandler
import logging
import os
import sys
import threading
import time
from collections.abc import Awaitable, Sequence
from typing import Final

import psycopg

from relevo.db.connect import EngineConnection, with_patience
from relevo.db.dsn import ENGINE_SETTINGS, HANDLER_SETTINGS, WORKER_ROLE, with_session
from relevo.db.pools import HandlerPools
from relevo.engine.jobs import session
from relevo.engine.jobs.rescue import rescue_lost_jobs
from relevo.loops.claimer import CLAIM_TIMEOUT, Claimer
from relevo.loops.handlers import Closer, Handlers
from relevo.loops.heartbeat import Heartbeat
from relevo.loops.listener import Listener
from relevo.loops.pruner import Pruner
from relevo.loops.rescuer import Rescuer
from relevo.loops.settings import EXIT_HUNG, WorkerSettings
from relevo.loops.settler import LOCK_TIMEOUT, Settler
from relevo.loops.signals import Signal
from relevo.loops.supervise import Pulse, supervise
from relevo.model.registry import Registry

_LOG: Final = logging.getLogger("relevo.worker")

HANGS: Final = 30.0
CLAIM_WITHIN: Final = 3 * CLAIM_TIMEOUT
"""A claim is a few statements, each of which the server ends: what is later is not coming."""

SLEPT: Final = 0.5
"""A watch that looks every 0.2 s or less and finds such a gap was stopped itself."""


class Worker:
    """Claims jobs, runs their handlers and settles what came of them.

    Args:
        registry: The kinds that it can run; jobs of other kinds are left alone.
        settings: Where and how.
        closers: Run on the handlers' loop when the worker stops.
    """

    def __init__(
        self, registry: Registry, settings: WorkerSettings, closers: Sequence[Closer] = ()
    ) -> None:
        self._registry = registry
        self._closers = closers
        self._settings = settings
        self._stop_asked = threading.Event()
        self._stopped = threading.Event()
        self._engine = Pulse("engine", limit=HANGS)
        self._thread = threading.Thread(target=self._run, name="relevo-engine", daemon=True)
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Start the threads; jobs are claimed as soon as a session is open."""
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Ask for a graceful stop: nothing more starts, what runs may end within the grace."""
        self._stop_asked.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the worker has stopped; answer False where the time ran out, in seconds.

        Raises:
            BaseException: What made the worker fail.
        """
        end = None if timeout is None else time.monotonic() + timeout
        looked_at = time.monotonic()
        while not self._stopped.wait(0.2):
            if _has_slept(looked_at):
                self._engine.beat()
            looked_at = time.monotonic()
            if self._engine.is_silent():
                self._give_up()
            if end is not None and time.monotonic() > end:
                return False
        if self._failure is not None:
            raise self._failure
        return True

    def run(self) -> None:
        """Start, and wait until the worker has stopped."""
        self.start()
        self.wait()

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001 -- wait() raises it where somebody looks
            self._failure = error
        finally:
            self._stopped.set()

    async def _main(self) -> None:
        settings, kinds = self._settings, self._registry.names()
        loop = asyncio.get_running_loop()
        changed, answered = Signal(loop), Signal(loop)
        # Whoever rests until the next sweep is due looks at once when it is told of a job.
        woken = Signal(loop, also=changed)
        settler_connection = EngineConnection(self._dsn("settle", lock_timeout=LOCK_TIMEOUT))
        claim_connection = EngineConnection(self._dsn("claim", CLAIM_TIMEOUT), within=CLAIM_WITHIN)
        rescue_connection = EngineConnection(self._dsn("rescue"))
        prune_connection = EngineConnection(self._dsn("prune"))

        def settled() -> None:
            changed.set()
            # What ended may be what others waited for: a permit, or their turn.
            if claimer.is_limited or settings.drain:
                woken.set()

        settler = Settler(settler_connection, answered, settled)
        pools = HandlerPools(self._handler_dsn(), settings.connections)
        handlers = Handlers(
            self._registry,
            pools,
            settings.concurrency,
            settler.put,
            changed.set,
            closers=self._closers,
        )

        def opened() -> None:
            changed.set()
            # Nobody tells a session that has not been idle yet, so it looks by itself.
            woken.set()

        heartbeat = Heartbeat(
            settings,
            self._dsn("heartbeat", settings.lease.total_seconds() / 3),
            kinds,
            opened,
            lambda ended: handlers.hand_back("worker lost", ended),
        )
        claimer = Claimer(
            settings=settings,
            connection=claim_connection,
            heartbeat=heartbeat,
            handlers=handlers,
            settler=settler,
            changed=changed,
            woken=woken,
            kinds=self._registry.kinds(),
            on_idle=self._on_idle,
        )
        sweeping = threading.Event()
        sweeper = threading.Thread(
            target=handlers.sweep_forever, args=(sweeping,), name="relevo-timeouts", daemon=True
        )
        heartbeat.start()
        sweeper.start()
        rescuer = Rescuer(settings, rescue_connection, self._registry.kept(), heartbeat)
        loops = {
            "claim": claimer.run,
            "settle": settler.run,
            "rescue": rescuer.run,
            "prune": Pruner(prune_connection).run,
        }
        if (listen_dsn := self._listen_dsn()) is not None:
            loops["listen"] = Listener(listen_dsn, settings.queues, woken).run
        limit = HANGS + settings.poll.total_seconds() + settings.lease.total_seconds()
        tasks = {
            name: asyncio.create_task(supervise(run, Pulse(name, limit)))
            for name, run in loops.items()
        }
        try:
            await self._watch(heartbeat, handlers)
        finally:
            claimer.stopping = True
            changed.set()
            woken.set()
            await self._finish(heartbeat, handlers, settler, tasks, rescue_connection)
            sweeping.set()
            handlers.close()
            for connection in (
                settler_connection,
                claim_connection,
                rescue_connection,
                prune_connection,
            ):
                await connection.close()

    async def _watch(self, heartbeat: Heartbeat, handlers: Handlers) -> None:
        """Hold the engine's pulse until a stop is asked for, and distrust a lease unproved."""
        trusted = False
        looked_at = time.monotonic()
        while not self._stop_asked.is_set():
            self._engine.beat()
            if _has_slept(looked_at):
                heartbeat.pulse.beat()
            looked_at = time.monotonic()
            if trusted and not heartbeat.is_proved():
                _LOG.warning("the lease cannot be proved, running jobs are cancelled")
                handlers.hand_back("lease could not be proved")
            trusted = heartbeat.is_proved()
            if not heartbeat.is_alive():
                self._give_up()
            await asyncio.sleep(0.05)

    async def _finish(
        self,
        heartbeat: Heartbeat,
        handlers: Handlers,
        settler: Settler,
        tasks: "dict[str, asyncio.Task[None]]",
        connection: EngineConnection,
    ) -> None:
        for name in ("listen", "rescue", "prune"):
            if name in tasks:
                await _cancel(tasks[name])
        # A claim under way ends by itself; cancelling it would leave its jobs in doubt.
        await asyncio.wait({tasks["claim"]}, timeout=CLAIM_TIMEOUT)
        self._engine.beat()
        if heartbeat.worker is not None:
            announcing = connection.run(session.stop_taking(heartbeat.worker))
            await _within(5.0, announcing, "the stop could not be announced")
        handlers.hand_back_waiting("the worker stopped")
        until = time.monotonic() + self._settings.grace.total_seconds()
        # A lease that runs out meanwhile ends the grace: the jobs may be others' by then.
        while handlers.running and time.monotonic() < until and heartbeat.is_proved():
            self._engine.beat()
            await asyncio.sleep(0.02)
        if handlers.running:
            handlers.hand_back("the worker stopped")
        self._engine.beat()
        await _cancel(tasks["claim"])
        await _cancel(tasks["settle"])
        await _within(5.0, settler.flush(), "answers could not be written")
        self._engine.beat()
        # Whatever could not be written: a heartbeat that went on would hold the jobs for ever.
        worker = await asyncio.to_thread(heartbeat.stop)
        self._engine.beat()
        if worker is not None:
            closing = connection.run(session.close_session(worker, self._settings.queues))
            await _within(5.0, closing, "the session could not be closed")
            rescuing = connection.run(rescue_lost_jobs(self._registry.kept()), in_transaction=True)
            await _within(5.0, rescuing, "what the session held is left to other workers")

    def _on_idle(self) -> None:
        if self._settings.drain:
            self.ask_to_stop()

    def _dsn(
        self, purpose: str, timeout: float | None = None, lock_timeout: float | None = None
    ) -> str:
        settings = dict(ENGINE_SETTINGS)
        if timeout is not None:
            settings["statement_timeout"] = f"{timeout:.3f}s"
        if lock_timeout is not None:
            settings["lock_timeout"] = f"{lock_timeout:.3f}s"
        name = f"relevo {purpose} {self._settings.name}"[:63]
        return with_session(
            self._settings.dsn, role=WORKER_ROLE, settings=settings, application_name=name
        )

    def _handler_dsn(self) -> str:
        name = f"relevo handlers {self._settings.name}"[:63]
        dsn = with_session(
            self._settings.dsn, role=WORKER_ROLE, settings=HANDLER_SETTINGS, application_name=name
        )
        return with_patience(dsn)

    def _listen_dsn(self) -> str | None:
        if self._settings.listen_dsn == "":
            return None
        dsn = self._settings.listen_dsn or self._settings.dsn
        return with_session(dsn, application_name=f"relevo listen {self._settings.name}"[:63])

    def _give_up(self) -> None:
        _LOG.critical("a loop of the worker hangs and cannot be started again, the process ends")
        faulthandler.dump_traceback(file=sys.stderr)
        os._exit(EXIT_HUNG)


def _has_slept(looked_at: float) -> bool:
    """Whether the one who looks was stopped itself, and so cannot say who is silent."""
    return time.monotonic() - looked_at > SLEPT


async def _within(seconds: float, work: Awaitable[object], failure: str) -> None:
    try:
        async with asyncio.timeout(seconds):
            await work
    except (TimeoutError, psycopg.Error) as error:
        _LOG.warning("%s, the lease will run out: %s", failure, str(error) or "no answer in time")


async def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=2.0)
