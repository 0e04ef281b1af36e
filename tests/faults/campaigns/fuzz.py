"""R14: payloads at random: what a handler receives is what was enqueued, and no worker dies of it.

Values come from Hypothesis. What the engine accepts has to arrive unchanged, and what it refuses
has to be refused in words. What comes by SQL is counted by itself: PostgreSQL refuses some, what
it takes has to arrive as its row reads, and what fits no handler ends its job and nothing else.
"""

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from faults.campaigns.ground import a_server, await_that
from faults.measured import Measured
from faults.sizes import Size, numbers
from relevo import DEFAULT_TENANT, Context, JobKind, Relevo, RelevoError
from workers import running

BATCH = 500
"""So many wait for the worker at once."""

PATIENCE = 10.0
"""So many seconds a thread may take to end that was told to."""

LARGEST = 20
TOLD = 10
"""So many problems are told; the directory has all."""

SHOWN = 200
"""So much of a value is told."""


class Colour(Enum):
    """An enum that is written by its value."""

    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Point:
    """A dataclass that a handler may take."""

    x: int
    label: str
    at: datetime | None = None


TEXTS = st.text(st.characters(codec=None), max_size=LARGEST)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(TEXTS, inner, max_size=6),
    max_leaves=LARGEST,
)
ODD = st.binary(max_size=9) | st.complex_numbers() | st.sets(st.integers()) | st.just(object)
MOMENTS = st.datetimes(timezones=st.just(UTC)) | st.datetimes()
POINTS = st.builds(Point, st.integers(), TEXTS, st.none() | MOMENTS)
TYPED = st.fixed_dictionaries(
    {
        "number": st.integers(),
        "ratio": st.floats() | st.integers(),
        "text": TEXTS,
        "amount": st.decimals(),
        "at": MOMENTS,
        "day": st.dates(),
        "wait": st.timedeltas(),
        "id_": st.uuids(),
        "colour": st.sampled_from(Colour),
        "points": st.lists(POINTS, max_size=3),
        "table": st.dictionaries(TEXTS, st.lists(st.integers() | st.floats(), max_size=3)),
    }
)

EXAMPLES = st.one_of(
    st.tuples(st.just("fuzz.plain"), PLAIN | ODD),
    st.tuples(st.just("fuzz.typed"), TYPED),
    st.tuples(st.just("fuzz.raises"), PLAIN),
    st.tuples(st.just("sql"), PLAIN),
)
CHUNK = 10_000
"""So many values from one seed: Hypothesis keeps what it has drawn, and slows down with it."""

AT_ONCE = 20
"""A draw takes Hypothesis as long as a few values, so each has several."""

INSERT = """
INSERT INTO relevo.jobs (tenant_id, kind, max_attempts, payload)
SELECT %s, kind, 1, payload::jsonb
FROM (VALUES ('fuzz.by_sql', %s), ('fuzz.any', %s), ('fuzz.typed', %s)) AS given (kind, payload)
RETURNING id, kind, payload
"""
STATES = "SELECT id, state FROM relevo.jobs WHERE id = ANY (%s)"
LIVE = "SELECT count(*) FROM relevo.jobs WHERE live"


@dataclass
class Found:
    """What was received, and what is counted.

    Attributes:
        received: By the number under which it was sent.
        by_job: By the job's id, for what came by SQL.
    """

    received: dict[int, object] = field(default_factory=dict)
    by_job: dict[int, object] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def fuzz_app(found: Found) -> tuple[Relevo, dict[str, JobKind[..., Any]]]:
    """Answer an application whose handlers keep what they are given."""
    app = Relevo()

    @app.job("fuzz.plain", max_attempts=1)
    async def plain(ctx: Context, number: int, value: Any) -> object:
        found.received[number] = value
        return value

    @app.job("fuzz.by_sql", max_attempts=1)
    async def by_sql(ctx: Context, number: int, value: Any) -> object:
        # Its number is a value like any other, perhaps that of something sent.
        found.by_job[ctx.job_id] = {"number": number, "value": value}
        return value

    @app.job("fuzz.any", max_attempts=1)
    async def anything(ctx: Context, value: Any) -> object:
        found.by_job[ctx.job_id] = {"value": value}
        return value

    @app.job("fuzz.typed", max_attempts=1)
    def typed(  # noqa: PLR0917 -- one parameter for each type
        ctx: Context,
        sent: int,
        number: int,
        ratio: float,
        text: str,
        amount: Decimal,
        at: datetime,
        day: date,
        wait: timedelta,
        id_: UUID,
        colour: Colour,
        points: list[Point],
        table: dict[str, list[float]],
    ) -> str:
        given = dict(locals())
        found.received[sent] = {name: given[name] for name in given if name not in NOT_SENT}
        return text

    @app.job("fuzz.raises", max_attempts=1)
    async def raises(ctx: Context, number: int, value: Any) -> None:
        found.received[number] = value
        raise ValueError(value, "\0", "\ud800")

    return app, {job.kind.name: job for job in (plain, typed, raises)}


NOT_SENT = {"ctx", "sent", "found", "given"}


def measure(size: Size, seed_: int, directory: Path) -> Measured:
    """Send as many payloads as the size says."""
    return measure_payloads(numbers("R14", size)["examples"], seed_, directory)


def measure_payloads(examples: int, seed_: int, directory: Path) -> Measured:
    """Send so many payloads from a seed."""
    found = Found()
    app, kinds = fuzz_app(found)
    with a_server(is_durable=False) as server:
        dsn = server.create("fuzz", "template_faults")
        with (
            logged_to(directory / "worker.log"),
            psycopg.connect(dsn, autocommit=True) as connection,
            running(app, dsn, concurrency=16) as worker,
        ):
            sender = Sender(connection, kinds, found)
            for first in range(0, examples, CHUNK):
                generate(min(CHUNK, examples - first), seed_ + first // CHUNK, sender.send)
            sender.await_all()
            found.counts["dead_workers"] = int(worker.wait(0))
        found.problems += threads_left()
    (directory / "problems").write_text("\n".join(found.problems), errors="backslashreplace")
    counts = {"examples": 0, "unequal": 0, **found.counts, "wrong": len(found.problems)}
    return Measured(counts, (), found.problems[:TOLD])


def threads_left() -> list[str]:
    """Tell of the worker's threads that do not end; they are told to, and end a moment later."""

    def left() -> list[str]:
        return [one.name for one in threading.enumerate() if one.name.startswith("relevo-")]

    until = time.monotonic() + PATIENCE
    while left() and time.monotonic() < until:
        time.sleep(0.01)
    return [f"a thread {name} was left" for name in left()]


@contextmanager
def logged_to(path: Path) -> Iterator[None]:
    """Keep what the worker says of all these starts in a file."""
    log = logging.getLogger("relevo")
    handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    log.addHandler(handler)
    log.propagate = False
    try:
        yield
    finally:
        log.propagate = True
        log.removeHandler(handler)
        handler.close()


def generate(examples: int, seed_: int, send: Callable[[str, Any], None]) -> None:
    """Let Hypothesis think of at least so many values, several in one draw, and send each."""

    @seed(seed_)
    @settings(
        max_examples=-(-examples // AT_ONCE),
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(EXAMPLES, min_size=AT_ONCE, max_size=AT_ONCE))
    def each(drawn: list[tuple[str, Any]]) -> None:
        for example in drawn:
            send(*example)

    each()


class Sender:
    """Enqueues values and compares what arrives.

    Args:
        connection: Commits by itself.
        kinds: The kinds by name.
        found: What their handlers keep.
    """

    def __init__(
        self, connection: psycopg.Connection, kinds: dict[str, JobKind[..., Any]], found: Found
    ) -> None:
        self._connection, self._kinds, self._found = connection, kinds, found
        self._numbers = count()
        self._sent: dict[int, tuple[str, Any]] = {}
        self._inserted: dict[int, tuple[str, Any]] = {}

    def send(self, kind: str, value: Any) -> None:
        """Send one value; it is refused in words, or waited for."""
        number = next(self._numbers)
        self._found.counts["examples"] += 1
        if kind == "sql":
            self._send_by_sql(value)
        else:
            self._enqueue(kind, number, value)
        if len(self._sent) >= BATCH:
            self.await_all()

    def _enqueue(self, kind: str, number: int, value: Any) -> None:
        try:
            if kind == "fuzz.typed":
                self._kinds[kind].enqueue(self._connection, sent=number, **value)
                self._sent[number] = kind, value
            else:
                self._kinds[kind].enqueue(self._connection, number=number, value=value)
                self._sent[number] = kind, value
            self._found.counts["accepted"] += 1
        except RelevoError as error:
            self._found.counts["refused"] += 1
            if not str(error):
                self._found.problems.append(_tell(kind, value, "was refused without a word"))
        except Exception as error:  # noqa: BLE001 -- whatever it is, PostgreSQL's too, it is no refusal
            self._found.problems.append(_tell(kind, value, f"raised {error!r}"))

    def _send_by_sql(self, value: Any) -> None:
        """Whatever JSON PostgreSQL takes, also what fits no handler."""
        text = json.dumps(value)
        given = {"number": value, "value": value}
        texts = [json.dumps(given), json.dumps({"value": value}), text]
        try:
            rows = self._connection.execute(INSERT, [DEFAULT_TENANT, *texts]).fetchall()
        except psycopg.DataError:
            self._found.counts["refused_by_postgresql"] += 1
            return
        self._found.counts["accepted_by_sql"] += 1
        self._inserted |= {job_id: (kind, payload) for job_id, kind, payload in rows}

    def await_all(self) -> None:
        """Wait until everything has ended, and compare."""
        await_that(lambda: self._connection.execute(LIVE).fetchone() == (0,), "the last payload")
        for number, (kind, value) in self._sent.items():
            if number not in self._found.received:
                self._found.problems.append(_tell(kind, value, "never reached its handler"))
            elif not is_same(value, received := self._found.received.pop(number)):
                self._found.counts["unequal"] += 1
                self._found.problems.append(_tell(kind, value, f"arrived as {received!r}"))
        self._sent.clear()
        self._compare_inserted()

    def _compare_inserted(self) -> None:
        """What has a handler reached it as its row reads; all else failed."""
        rows = self._connection.execute(STATES, [list(self._inserted)]).fetchall()
        states: dict[int, str] = dict(rows)
        for job_id, (kind, payload) in self._inserted.items():
            received = self._found.by_job.pop(job_id, None)
            if why := judge_inserted(kind, payload, received, states[job_id]):
                self._found.counts["unequal"] += received is not None
                self._found.problems.append(_tell(f"{kind} by SQL", payload, why))
            self._found.counts["compared_by_sql"] += received is not None
            self._found.counts["failed_by_sql"] += received is None
        self._inserted.clear()


def judge_inserted(kind: str, payload: Any, received: object, state: str) -> str:
    """Answer what is wrong with how a payload that came by SQL ended, or nothing.

    Args:
        kind: Its kind; `fuzz.any` takes whatever there is.
        payload: As its row reads.
        received: The arguments of its handler; None where none was called.
        state: How its job ended.
    """
    if received is None:
        if kind == "fuzz.any" or (kind == "fuzz.by_sql" and type(payload["number"]) is int):
            return "never reached its handler"
        return "" if state == "failed" else f"reached no handler and is {state}"
    if not is_same(payload, received):
        return f"arrived as {received!r}"
    return "" if state == "completed" else f"arrived and is {state}"


def _tell(kind: str, value: object, what: str) -> str:
    return ascii(f"{kind}: {value!r:.{SHOWN}} {what[:SHOWN]}")


def is_same(given: object, received: object) -> bool:
    """Whether a value arrived as it was, down to its types.

    Two things may differ, as JSON has one of each: a tuple is a list, and a whole number
    where a float is taken is that float. A float that is whole may be an int of that value.
    """
    if isinstance(given, dict) and isinstance(received, dict):
        return given.keys() == received.keys() and all(
            is_same(value, received[key]) for key, value in given.items()
        )
    if isinstance(given, list | tuple) and isinstance(received, list | tuple):
        return len(given) == len(received) and all(map(is_same, given, received))
    if given is None or isinstance(given, bool):
        return received is given
    if isinstance(given, int | float):
        return isinstance(received, int | float) and given == received
    return type(given) is type(received) and given == received
