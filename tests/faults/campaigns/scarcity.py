"""R16: no disk, no connections, and workers whose clocks are wrong.

None of this is a job's fault: no start is charged for it, neither what the engine cannot do
itself nor what a handler is told by a full database, and work goes on when it is over.
"""

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from glob import glob
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from faults.campaigns.ground import Ground, Server, a_ground, a_server, await_that
from faults.campaigns.nursery import Nursery, a_nursery
from faults.campaigns.server import is_answering
from faults.campaigns.verdict import Verdict, count, keep
from faults.checker import check
from faults.checker.story import Story, is_loss, tell
from faults.evidence import Event, History, read_history
from faults.measured import Measured
from faults.sizes import Size, numbers

WORKERS = 2
BACKLOG = 60
LEASE = 3.0
LONG = 10.0
"""Where some connections are left, who has them lives and may end the others when their leases
are over: two thirds of a lease, less the wait of a heartbeat for its next try, have to last."""

LASTS = 3.0
"""For how many seconds something is missing."""

WITHIN = 30.0
"""How soon after its return jobs end again, in seconds."""

ROOM = 400 * 2**20
PIECE = 2**20
HOUR = 3600

FAKETIME = "/usr/lib/*/faketime/libfaketime.so.1"

LOGIN = "scarce"
HOG = "hog"
CUT = """
SELECT count(pg_terminate_backend(pid))
FROM pg_stat_activity
WHERE usename = %s
  AND state = 'idle'
"""
"""Only who asks for nothing at the moment: to cut others is R2."""

REFUSED = re.compile("too many connections|remaining connection slots")

# The kinds that ask for no second start of their own; whose database refuses is not asked.
# Losses are counted in the evidence, of all kinds.
CHARGED = """
SELECT
    j.kind,
    a.outcome,
    left(coalesce(a.error, ''), 80),
    CASE
        WHEN a.error ~ 'AdminShutdown|server closed the connection' THEN 'handlers_cut'
        ELSE 'charged'
    END,
    count(*)
FROM relevo.attempts AS a
JOIN relevo.jobs AS j
    ON j.tenant_id = a.tenant_id
   AND j.id = a.job_id
WHERE a.outcome IN ('retried', 'failed')
  AND j.kind IN ('mixed.inside', 'mixed.function', 'mixed.outside', 'load.held', 'load.late')
GROUP BY 1, 2, 3, 4
"""


class Missing(Exception):
    """What a part of this needs is not here."""


class NotAllowed(Missing):
    """It may be here, and only root may use it."""


def measure(size: Size, seed: int, directory: Path) -> Measured:
    """Let each thing be missing as often as the size says."""
    verdict = Verdict()
    for number in range(numbers("R16", size)["rounds"]):
        for name, part in PARTS.items():
            part(directory / f"{name}{number}", seed + number, verdict)
    return verdict.measured()


def without_disk(directory: Path, seed: int, verdict: Verdict) -> None:
    """Fill the disk of the server, and free it; a server that ended meanwhile is started."""
    # So that the log needs new files, too.
    few = {"max_wal_size": "64MB", "min_wal_size": "32MB", "wal_recycle": "off"}
    with (
        a_small_disk() as disk,
        a_server(is_durable=True, place=str(disk), more=few) as server,
        a_ground(server, directory, seed, lease=LEASE) as ground,
    ):
        _run(ground)
        ballast = disk / "ballast"
        _fill(ballast)
        until = time.monotonic() + LASTS
        while time.monotonic() < until:
            # What was freed by the server itself meanwhile.
            _fill(ballast)
            ground.pause(0.1)
        ended = not is_answering(ground.dsn)
        ballast.unlink()
        back_at = _now()
        if ended and not _comes_back(ground.dsn):
            server.start()
        verdict.counts["servers_ended_without_disk"] += ended
        _judge("disk", ground, back_at, verdict)


def without_connections(directory: Path, seed: int, verdict: Verdict) -> None:
    """Refuse connections: to the role that workers log in as, and to everybody."""
    few = {"max_connections": "40"}
    with (
        a_server(is_durable=False, more=few) as server,
        psycopg.connect(server.dsn(), autocommit=True) as owner,
    ):
        for name in (LOGIN, HOG):
            owner.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
        owner.execute(f"GRANT relevo_worker TO {LOGIN}")
        for what, refuse, lease in (("role", _limit_role, LONG), ("all", _take_all, LEASE)):
            with a_ground(
                server, directory / what, seed, to_worker=_as_login, to_load=_as_login, lease=lease
            ) as ground:
                _run(ground)
                with refuse(owner, server):
                    time.sleep(LASTS)
                _judge(f"connections_of_{what}", ground, _now(), verdict)
                said = (directory / what / "workers.log").read_text()
                verdict.counts["connections_refused"] += len(REFUSED.findall(said))


def with_wrong_clocks(directory: Path, seed: int, verdict: Verdict) -> None:
    """Let one worker be an hour ahead, one an hour behind, and one be right."""
    if not (libraries := glob(FAKETIME)):  # noqa: PTH207 -- from the root, a pattern of a place
        msg = "libfaketime is not installed (Debian: faketime)"
        raise Missing(msg)
    with (
        a_server(is_durable=False) as server,
        a_ground(server, directory, seed, lease=LEASE) as ground,
        ExitStack() as stack,
    ):
        others: dict[int, Nursery] = {}
        for name, offset in (("ahead", HOUR), ("behind", -HOUR)):
            variables = {
                "LD_PRELOAD": libraries[0],
                "FAKETIME": f"{offset:+d}",
                # What measures durations is right on every machine.
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }
            rules = {"lease": LEASE, "prefix": name, "variables": variables}
            others[offset] = stack.enter_context(a_nursery(ground.dsn, directory, **rules))
            others[offset].bear()
        _run(ground, workers=1)
        ground.run_until(ground.finished() + 5 * BACKLOG)
        for nursery in others.values():
            ground.problems += nursery.stop()
        _judge("clocks", ground, 0, verdict, others)


PARTS: dict[str, Callable[[Path, int, Verdict], None]] = {
    "disk": without_disk,
    "connections": without_connections,
    "clocks": with_wrong_clocks,
}


@contextmanager
def a_small_disk() -> Iterator[Path]:
    """Lend a file system that is soon full.

    Raises:
        NotAllowed: Only root may mount one.
        Missing: This root may not either.
    """
    with tempfile.TemporaryDirectory(prefix="relevo-scarce-") as place:
        Path(place).chmod(0o755)
        options = ["-t", "tmpfs", "-o", f"size={ROOM},mode=755", "none", place]
        done = subprocess.run(["mount", *options], capture_output=True, check=False)
        if done.returncode:
            msg = f"no file system can be mounted: {done.stderr.decode().strip()}"
            raise Missing(msg) if os.geteuid() == 0 else NotAllowed(msg)
        try:
            yield Path(place)
        finally:
            subprocess.run(["umount", "--lazy", place], check=True)


def _fill(ballast: Path) -> None:
    with suppress(OSError), ballast.open("ab", buffering=0) as file:
        for piece in (PIECE, 4096):
            with suppress(OSError):
                while file.write(b"\0" * piece) == piece:
                    pass


def _as_login(dsn: str) -> str:
    return make_conninfo(dsn, user=LOGIN)


@contextmanager
def _limit_role(owner: psycopg.Connection, server: Server) -> Iterator[None]:
    owner.execute(f"ALTER ROLE {LOGIN} CONNECTION LIMIT 2".encode())
    owner.execute(CUT.encode(), [LOGIN])
    yield
    owner.execute(f"ALTER ROLE {LOGIN} CONNECTION LIMIT -1".encode())


@contextmanager
def _take_all(owner: psycopg.Connection, server: Server) -> Iterator[None]:
    """Take every connection that comes free."""
    with ExitStack() as taken:
        until = time.monotonic() + LASTS
        while time.monotonic() < until:
            owner.execute(CUT.encode(), [LOGIN])
            with suppress(psycopg.OperationalError):
                while True:
                    hog = psycopg.connect(make_conninfo(server.dsn(), user=HOG))
                    taken.enter_context(hog)
            time.sleep(0.1)
        yield


def _run(ground: Ground, workers: int = WORKERS) -> None:
    ground.begin(workers, backlog=BACKLOG)
    ground.run_until(2 * BACKLOG)


def _comes_back(dsn: str) -> bool:
    """Whether the server starts again by itself."""
    try:
        return await_that(lambda: is_answering(dsn), "the server's return", 5.0)
    except AssertionError:
        return False


def _now() -> int:
    return time.time_ns() // 1000


def _judge(
    what: str,
    ground: Ground,
    back_at: int,
    verdict: Verdict,
    others: dict[int, Nursery] | None = None,
) -> None:
    """Hold a round against what is promised."""
    await_that(lambda: ground.finished() > 0, "the server's answer")
    ground.run_until(ground.finished() + BACKLOG)
    ground.settle()
    history = _history(ground, others or {})
    violations = check(history, allow={"I7"} if others else ())
    if violations or ground.problems:
        keep(history, violations, ground.directory / "evidence.txt")
    verdict.violations += violations
    verdict.problems += ground.problems
    verdict.counts.update(count(history))
    verdict.counts[f"unknown_enqueues_{what}"] += ground.load.unknown
    _charge(what, ground, verdict)
    losses = charged_losses(history)
    verdict.counts["charged"] += len(losses)
    if losses:
        story = "\n".join(tell(*losses))
        verdict.problems.append(f"{what}: {len(losses)} starts were charged as lost:\n{story}")
    if others:
        # Nothing was away that could return.
        return
    ends = [event.at for event in history.events if event.state == "completed"]
    seconds = min(at - back_at for at in ends if at > back_at) / 1e6
    verdict.counts[f"recovery_ms_{what}"] = round(seconds * 1000)
    if seconds > WITHIN:
        verdict.problems.append(f"{what}: the first job ended after {seconds:.1f} s")


def charged_losses(history: History) -> list[Event]:
    """Answer the starts that were lost and not excused: each counts, whatever the kind."""
    return [
        event
        for before, event in Story(history).steps
        if before is not None and is_loss(before, event) and event.excused == before.excused
    ]


def _charge(what: str, ground: Ground, verdict: Verdict) -> None:
    """Count the starts that jobs were charged with although they had done nothing wrong."""
    with psycopg.connect(ground.dsn, autocommit=True) as owner:
        verdict.counts["charged"] += 0
        for kind, outcome, error, how, times in owner.execute(CHARGED.encode()).fetchall():
            # Cut are those that were idle when they were chosen, and in use a moment later.
            verdict.counts[how] += times
            if how == "charged":
                verdict.problems.append(f"{what}: {times} of {kind} were {outcome} for {error!r}")


def _history(ground: Ground, others: dict[int, Nursery]) -> History:
    """Read the evidence, and set the witnesses right whose clocks are known to be wrong."""
    wrong = {path.name: by for by, nursery in others.items() for path in nursery.witnesses}
    paths = [path for nursery in others.values() for path in nursery.witnesses]
    history = read_history(
        ground.dsn, [ground.load.witness.path, *ground.nursery.witnesses, *paths]
    )
    notes = tuple(
        replace(note, at=note.at - wrong.get(note.source, 0) * 1_000_000) for note in history.notes
    )
    return replace(history, notes=notes)
