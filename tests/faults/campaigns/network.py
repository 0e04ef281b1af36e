"""R6: what a network does to those who use the database, one thing after the other under load.

Workers and the enqueuer reach the server through a proxy; whoever watches reaches it directly.
Nobody starts a worker again: each has to notice by itself, and to go on when it can.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from psycopg.conninfo import make_conninfo

from faults.campaigns.ground import Ground, Server, a_ground, a_server
from faults.campaigns.load import PROGRAM
from faults.campaigns.verdict import Verdict
from faults.measured import Measured
from faults.proxy import BOTH, EVERYBODY, Direction, Fault, Kind, Proxy, a_proxy
from faults.proxy.proxy import HERE
from faults.sizes import Size, numbers
from relevo.db.connect import with_patience

WORKERS = 3
BACKLOG = 60
SECONDS_OF_A_ROUND = 90
"""A history is held in memory."""

PURPOSES = ("claim", "settle", "handlers", "heartbeat", "rescue", "listen")
MOST_PAUSE = 1.0

LASTS = {
    Kind.LATENCY: (0.5, 3.0),
    Kind.THROTTLE: (2.0, 6.0),
    Kind.BLACKHOLE: (1.0, 16.0),
    Kind.SWALLOW: (1.0, 10.0),
    Kind.HALF_CLOSE: (0.0, 0.0),
    Kind.RESET: (0.0, 0.0),
    Kind.LOST_ANSWER: (2.0, 2.0),
}
"""For how many seconds. A black hole is noticed after 10 to 13, so both happen."""

SHARES = {
    Kind.LATENCY: 2,
    Kind.THROTTLE: 2,
    Kind.BLACKHOLE: 3,
    Kind.SWALLOW: 3,
    Kind.HALF_CLOSE: 5,
    Kind.RESET: 5,
    Kind.LOST_ANSWER: 16,
}
"""How often each comes; those that take no time are cheap."""


def measure(size: Size, seed: int, directory: Path) -> Measured:
    """Let faults happen for as long as the size says."""
    return measure_seconds(numbers("R6", size)["seconds"], seed, directory)


def measure_seconds(
    seconds: float, seed: int, directory: Path, *, longest: float = 16.0
) -> Measured:
    """Let faults happen for so many seconds.

    Args:
        seconds: How long, without what it takes to settle afterwards.
        seed: Of the faults, and of what is enqueued.
        directory: Where the evidence is kept.
        longest: For how many seconds one of them may last.
    """
    verdict = Verdict()
    rounds = -(-round(seconds) // SECONDS_OF_A_ROUND)
    with a_server(is_durable=False, is_on_network=True) as server:
        for number in range(rounds):
            script = draw(Random(seed + number), seconds / rounds, longest)  # noqa: S311 -- no secret
            _play(server, list(script), directory / str(number), seed + number, verdict)
    return verdict.measured()


def through(dsn: str, proxy: Proxy) -> str:
    """Answer the address of the same database behind the proxy."""
    return make_conninfo(
        dsn,
        host=HERE,
        port=str(proxy.port),
        password=Server.PASSWORD,
        sslmode="disable",
        gssencmode="disable",
    )


def draw(random: Random, seconds: float, longest: float) -> Iterator[Fault]:
    """Draw what happens, each kind first once, and then by chance."""
    kinds = random.sample(list(Kind), len(Kind))
    at = random.uniform(0, MOST_PAUSE)
    while at < seconds:
        kind = kinds.pop() if kinds else random.choices(list(SHARES), list(SHARES.values()))[0]
        lasts = min(random.uniform(*LASTS[kind]), longest)
        whom = _draw_whom(random, kind)
        yield Fault(
            kind,
            whom,
            lasts=lasts,
            at=at,
            directions=random.choice([BOTH, *({one} for one in Direction)]),  # type: ignore[arg-type]
            delay=random.uniform(0.005, 0.3),
            # Who only looks how much waits has lost nothing.
            of="COMMIT" if PROGRAM in whom else "",
        )
        at += lasts + random.uniform(0, MOST_PAUSE)


def _draw_whom(random: Random, kind: Kind) -> str:
    """One worker, all connections of a purpose, the enqueuer, or everybody."""
    somebody = [rf"^relevo .* w{number}$" for number in range(1, WORKERS + 1)]
    purposes = [f"^relevo {purpose} " for purpose in PURPOSES]
    whom = random.choice([*purposes, *somebody, f"^{PROGRAM}$", EVERYBODY])
    # The answers that are worth losing: of an enqueue, a claim, an end.
    told = [f"^{PROGRAM}$", *purposes[:3], *somebody]
    return random.choice(told) if kind is Kind.LOST_ANSWER else whom


def _play(
    server: Server, script: list[Fault], directory: Path, seed: int, verdict: Verdict
) -> None:
    with (
        a_proxy(server.port) as proxy,
        a_ground(
            server,
            directory,
            seed,
            # The enqueuer is an application that knows about networks.
            to_worker=lambda dsn: through(dsn, proxy),
            to_load=lambda dsn: with_patience(through(dsn, proxy)),
        ) as ground,
    ):
        ground.begin(WORKERS, backlog=BACKLOG)
        ground.run_until(BACKLOG)
        _inflict(ground, proxy, script, verdict)
        verdict.judge(ground)
        verdict.counts["unknown_outcomes"] += proxy.lost.total()
        for (program, done), times in proxy.lost.items():
            purpose = program.split()[1] if " " in program else program
            verdict.counts[f"answers_lost_of_{purpose}_{done.lower()}"] += times


def _inflict(ground: Ground, proxy: Proxy, script: list[Fault], verdict: Verdict) -> None:
    begun_at = time.monotonic()
    for fault in script:
        time.sleep(max(0.0, begun_at + fault.at - time.monotonic()))
        if ground.load.failure is not None:
            raise ground.load.failure
        before = proxy.hits[fault.kind]
        proxy.inflict(fault).result()
        if met := proxy.hits[fault.kind] - before:
            verdict.counts["faults"] += 1
            verdict.counts[f"faults_{fault.kind}"] += 1
            verdict.counts["connections_met"] += met
