"""Who delivers in a demonstration: a real worker process, and a mail server that refuses.

The worker is the one that everybody runs. It is told by its environment where the mail
server is, and that waits between retries are shortened.
"""

import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from relevo import RelevoError
from relevo.cli import Progress
from relevo.integrations.smtp.sink import Shares, Sink, by_share
from relevo_apps.evaluations import service
from relevo_apps.evaluations.commands.desk import Desk
from relevo_apps.evaluations.demo.leftover import record
from relevo_apps.evaluations.demo.place import Place
from relevo_apps.evaluations.jobs import SCALE
from relevo_apps.evaluations.model.cycles import Cycle
from relevo_apps.evaluations.model.reports import CycleStatus

SENDER: Final = "Evaluations <evaluations@example.com>"
SHARES: Final = Shares(temporary=0.08, permanent=0.02)
CONNECTIONS: Final = 8

CHILD: Final = "relevo_apps.evaluations.demo.child"

_LOOK_EVERY: Final = 0.1
_STOPS_WITHIN: Final = 40.0
_STANDSTILL: Final = 60.0
_TAIL: Final = 2000
_OURS: Final = (
    "RELEVO_SMTP_",
    "RELEVO_MAIL_",
    "RELEVO_DSN",
    "RELEVO_LISTEN_DSN",
    "RELEVO_TENANTS",
    "DATABASE_URL",
)


class WorkerEnded(RelevoError):
    """The worker of the demonstration is gone before its work was done."""

    template = "the worker of the demonstration ended with code %(code)s; it said: %(said)s"


class Standstill(RelevoError):
    """Nothing was delivered for a long time."""

    template = (
        "no notification came to an end for %(seconds)s seconds, pending: %(pending)s; "
        "the worker said: %(said)s"
    )


@dataclass(frozen=True, slots=True)
class Relay:
    """A worker process and the mail server that it delivers to.

    Attributes:
        sink: The mail server.
        worker: The process.
        place: Where its log is.
    """

    sink: Sink
    worker: "subprocess.Popen[bytes]"
    place: Place

    def watch(self, desk: Desk, cycle: Cycle, show: Progress) -> CycleStatus:
        """Follow the deliveries until none is pending.

        Args:
            desk: Where to look.
            cycle: Whose notifications.
            show: Is told how many have ended.

        Raises:
            WorkerEnded: The worker is gone.
            Standstill: Nothing happened for a long time.
        """
        ended, moved_at = -1, time.monotonic()
        while True:
            status = desk.look(service.cycle_status(desk.tenant_id, cycle.id))
            sent = status.notifications
            show(sent.total - sent.pending, sent.total)
            if not sent.pending:
                return status
            if sent.total - sent.pending != ended:
                ended, moved_at = sent.total - sent.pending, time.monotonic()
            if time.monotonic() - moved_at > _STANDSTILL:
                raise Standstill(seconds=int(_STANDSTILL), pending=sent.pending, said=self._said())
            self._still_there()

    def _still_there(self) -> None:
        """Let some time pass, unless the worker ends."""
        try:
            code = self.worker.wait(_LOOK_EVERY)
        except subprocess.TimeoutExpired:
            return
        raise WorkerEnded(code=code, said=self._said())

    def _said(self) -> str:
        text = self.place.worker_log.read_text(encoding="utf-8", errors="replace")
        return text[-_TAIL:].strip()


@contextmanager
def relaying(place: Place, seed: int, scale: float) -> Generator[Relay, None, None]:
    """Run the mail server and the worker while the block runs.

    Args:
        place: The database, and the folder for the worker's log.
        seed: Decides which addresses are refused.
        scale: What the waits between retries are multiplied by.
    """
    with Sink(by_share(seed, SHARES)) as sink, place.worker_log.open("wb") as log:
        # -P: nothing in the folder at hand is imported by mistake.
        command = [sys.executable, "-P", "-m", CHILD, "worker", "--queue", "mail"]
        worker = subprocess.Popen(  # noqa: S603 -- our own program
            [*command, "--poll", "200ms"],
            # Its end closes with this process, and the worker stops then.
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=_environment(place, sink, scale),
        )
        try:
            record(worker.pid, place.worker_pid)
            yield Relay(sink, worker, place)
        finally:
            _stop(worker)


def _environment(place: Place, sink: Sink, scale: float) -> dict[str, str]:
    """Answer the worker's environment: nothing of the user's own mail settings is in it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return {
        **kept,
        "RELEVO_DSN": place.database.dsn,
        "RELEVO_SMTP_URL": sink.url,
        "RELEVO_SMTP_FROM": SENDER,
        "RELEVO_SMTP_CONNECTIONS": str(CONNECTIONS),
        SCALE: f"{scale:g}",
    }


def _stop(worker: "subprocess.Popen[bytes]") -> None:
    worker.terminate()
    try:
        worker.wait(_STOPS_WITHIN)
    except BaseException:
        worker.kill()
        worker.wait()
        raise
    finally:
        if worker.stdin is not None:
            worker.stdin.close()
