"""Go through every point of a scenario in every way, and hold the points against the log."""

import logging
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from unittest.mock import patch

import psycopg

from faults.checker import Violation, check
from faults.crash.names import LINES
from faults.crash.points import Point, Points, watched
from faults.crash.scenarios import PULL_REQUEST, SCENARIOS
from faults.crash.server import Server, a_server
from faults.crash.ways import Killed, Way, failure
from faults.crash.world import Scenario, World
from faults.evidence import install, read_history
from faults.measured import Measured
from faults.sizes import Size, numbers
from relevo.db.migrate import MigrationError, migrate
from relevo.loops import settler

EXPECTED = (psycopg.OperationalError, psycopg.InterfaceError, MigrationError, Killed)
"""What the caller of a failed statement may see; anything else is a fault of the engine."""

QUICK = (Way.CLIENT_KILLED, Way.BACKEND_KILLED, Way.ANSWER_DROPPED)
"""These need no server that is durable."""

GOES_ON = (Way.BACKEND_KILLED, Way.ANSWER_DROPPED)
"""After these the process may live, and goes on with what it remembers."""

SAMPLED = 5
"""So many points of a small run meet a stop of the server."""


@dataclass(frozen=True, slots=True)
class Run:
    """One point that failed in one way.

    Attributes:
        number: Which point, from 1.
        point: What was to be sent there.
        way: How it failed.
        goes_on: Whether the process lived on, instead of another taking over.
        violations: What the checker says of it.
        problems: What else was not as it should be.
    """

    number: int
    point: Point
    way: Way
    goes_on: bool = False
    violations: Sequence[Violation] = ()
    problems: Sequence[str] = ()

    def __str__(self) -> str:
        after = ", and the process went on" if self.goes_on else ""
        return f"point {self.number}, {self.point.role} {self.point.name}: {self.way}{after}"


@dataclass(slots=True)
class Listing:
    """What one scenario consists of, and what came of failing there.

    Attributes:
        name: The scenario's.
        points: Every point in order, as the driver met them.
        logged: The same as the server logged them.
        runs: One for each point and way.
    """

    name: str
    points: list[Point]
    logged: list[Point]
    runs: list[Run] = field(default_factory=list)

    def differences(self) -> list[str]:
        """Say where driver and server disagree about what was sent."""
        if self.points == self.logged:
            return []
        met, told = Counter(self.points), Counter(self.logged)
        words = [f"only the driver: {p.role} {p.name}" for p in (met - told).elements()]
        words += [f"only the server: {p.role} {p.name}" for p in (told - met).elements()]
        return [f"{self.name}: {word}" for word in words or ["another order"]]

    def gaps(self, ways: Sequence[Way]) -> list[str]:
        """Say which statement that the server logged has not failed in which way."""
        wanted = {(point, way) for point in self.logged for way in ways}
        failed = {(run.point, run.way) for run in self.runs if not run.goes_on}
        words = [f"not tried: {p.role} {p.name}, {way}" for p, way in sorted(wanted - failed)]
        for way in ways:
            count = sum(run.way is way and not run.goes_on for run in self.runs)
            # More is no harm: what a claim's pace makes of a slow moment is one look more.
            if count < len(self.points):
                words.append(f"only {count} runs for {len(self.points)} points, {way}")
        strange = {point for point, _ in failed} - set(self.logged)
        words += [f"not logged: {p.role} {p.name}" for p in sorted(strange)]
        return [f"{self.name}: {word}" for word in words]

    def words(self) -> str:
        """Say how much it was."""
        distinct = len(set(self.points))
        on = sum(run.goes_on for run in self.runs)
        return f"{len(self.points)} points ({distinct} distinct), {len(self.runs) - on} + {on} runs"

    def violations(self) -> list[Violation]:
        """Answer what the checker said, each with the point."""
        return [
            replace(found, message=f"{self.name}, {run}: {found.message}")
            for run in self.runs
            for found in run.violations
        ]

    def problems(self) -> list[str]:
        """Answer what else was wrong, each with the point."""
        return [f"{self.name}, {run}: {word}" for run in self.runs for word in run.problems]


class Enumeration:
    """Runs scenarios on one server.

    Args:
        server: A server of its own.
        directory: Where witnesses are kept.
    """

    def __init__(self, server: Server, directory: Path) -> None:
        self._server = server
        self._directory = directory
        self._templates: set[str] = set()
        self._numbers = 0

    def list_points(self, scenario: Scenario) -> Listing:
        """Run a scenario to its end, and answer what it consists of."""
        with self._world(scenario, Points(), is_logged=True) as (name, world):
            scenario.act(world)
            logged = self._server.logged(name, world.slices)
            return Listing(scenario.name, world.points.seen, logged)

    def fail_everywhere(
        self, scenario: Scenario, ways: Sequence[Way], *, goes_on: bool = False
    ) -> list[Run]:
        """Fail at every point in every way, until there is no such point any more."""
        runs = []
        for way in ways:
            number = 1
            while run := self.fail(scenario, number, way, goes_on=goes_on):
                runs.append(run)
                number += 1
        return runs

    def fail(
        self, scenario: Scenario, number: int, way: Way, *, goes_on: bool = False
    ) -> Run | None:
        """Fail at one point, start again, and look; None where there is no such point."""
        points = Points(number, failure(way, self._server))
        with self._world(scenario, points) as (name, world):
            try:
                scenario.act(world)
            except EXPECTED:
                if points.failed_at is None:
                    raise
            if points.failed_at is None:
                return None
            if not goes_on:
                world.close()
            if way is Way.SERVER_STOPPED:
                self._server.start_again()
            run = Run(number, points.failed_at, way, goes_on)
            if goes_on:
                world.go_on()
                return self._look(scenario, world, run)
            self._server.await_gone(name, world.name)
            after = World(
                self._server,
                world.dsn,
                world.directory,
                Points(),
                name="second",
                has_limits=scenario.has_limits,
            )
            with watched(after.points):
                return self._look(scenario, after, run)

    def _look(self, scenario: Scenario, world: World, run: Run) -> Run:
        scenario.again(world)
        world.drain(expires=not run.goes_on)
        world.close()
        witnesses = [*self._template_directory(scenario).iterdir(), *world.directory.iterdir()]
        violations = check(read_history(world.dsn, sorted(witnesses)))
        return replace(run, violations=violations, problems=scenario.problems(world))

    @contextmanager
    def _world(
        self, scenario: Scenario, points: Points, *, is_logged: bool = False
    ) -> Iterator[tuple[str, World]]:
        template = self._template(scenario)
        if scenario.is_alone:
            self._server.forget_roles()
        self._numbers += 1
        directory = self._directory / f"{scenario.name}-{self._numbers}"
        directory.mkdir()
        with self._server.clone(template, is_logged=is_logged) as (name, dsn):
            world = World(self._server, dsn, directory, points, has_limits=scenario.has_limits)
            with watched(points), patch.object(settler, "RETRY_AFTER", 0.001):
                try:
                    yield name, world
                finally:
                    world.close()

    def _template(self, scenario: Scenario) -> str:
        name = f"crash_{scenario.name}".replace(" ", "_")
        if name in self._templates:
            return name
        dsn = self._server.create(name)
        if scenario.is_migrated:
            migrate(dsn, LINES)
            install(dsn)
        directory = self._template_directory(scenario)
        directory.mkdir()
        world = World(self._server, dsn, directory, Points(), "template", scenario.has_limits)
        with watched(world.points):
            scenario.prepare(world)
            world.close()
        self._server.await_gone(name, "template")
        self._templates.add(name)
        return name

    def _template_directory(self, scenario: Scenario) -> Path:
        return self._directory / f"{scenario.name}-template"


def measure(size: Size, seed: int, directory: Path) -> Measured:
    """Fail at the points of a size in its ways; see `faults.measured`."""
    with _quiet():
        is_whole = numbers("R3", size)["whole"]
        scenarios = SCENARIOS if is_whole else PULL_REQUEST
        listings = list_and_fail(scenarios, directory / "quick", goes_on=bool(is_whole))
        _stop_server(listings, directory / "durable", None if is_whole else Random(seed))  # noqa: S311 -- repeatable
    problems = [
        word for listing in listings for word in (*listing.differences(), *listing.problems())
    ]
    ways = tuple(Way) if is_whole else QUICK
    problems += [word for listing in listings for word in listing.gaps(ways)]
    return Measured(
        {
            **count_points(listings),
            "runs": sum(len(listing.runs) for listing in listings),
            **{
                way: sum(run.way is way for listing in listings for run in listing.runs)
                for way in Way
            },
            "gone on": sum(run.goes_on for listing in listings for run in listing.runs),
            **{listing.name: listing.words() for listing in listings},
        },
        [found for listing in listings for found in listing.violations()],
        problems,
    )


def count_points(listings: Sequence[Listing]) -> dict[str, int]:
    """Count all points, and the distinct ones, however many scenarios share them."""
    return {
        "points": sum(len(listing.points) for listing in listings),
        "distinct": len({point for listing in listings for point in listing.points}),
        "statements": len({point.name for listing in listings for point in listing.points}),
    }


def list_all(scenarios: Sequence[Scenario], directory: Path) -> list[Listing]:
    """List the points of each scenario without any fault."""
    directory.mkdir()
    with a_server(is_durable=False) as server:
        enumeration = Enumeration(server, directory)
        return [enumeration.list_points(scenario) for scenario in alone_first(scenarios)]


def alone_first(scenarios: Sequence[Scenario]) -> list[Scenario]:
    """Answer the scenarios in an order in which whoever has to be alone comes first."""
    return sorted(scenarios, key=lambda one: not one.is_alone)


def list_and_fail(
    scenarios: Sequence[Scenario], directory: Path, *, goes_on: bool
) -> list[Listing]:
    """List the points of each scenario, and fail at each in the ways that are quick."""
    listings = []
    directory.mkdir()
    with a_server(is_durable=False) as server:
        enumeration = Enumeration(server, directory)
        for scenario in alone_first(scenarios):
            listing = enumeration.list_points(scenario)
            listing.runs += enumeration.fail_everywhere(scenario, QUICK)
            if goes_on and scenario.goes_on:
                listing.runs += enumeration.fail_everywhere(scenario, GOES_ON, goes_on=True)
            listings.append(listing)
            _say(f"{listing.name}: {listing.words()}")
    return listings


def _stop_server(listings: Sequence[Listing], directory: Path, random: Random | None) -> None:
    """Stop the server at every point, or at some of them, on one that keeps what it said."""
    by_name = {scenario.name: scenario for scenario in SCENARIOS}
    every = [
        (listing, number) for listing in listings for number in range(1, len(listing.points) + 1)
    ]
    directory.mkdir()
    with a_server(is_durable=True) as server:
        enumeration = Enumeration(server, directory)
        for listing, number in random.sample(every, SAMPLED) if random else every:
            run = enumeration.fail(by_name[listing.name], number, Way.SERVER_STOPPED)
            assert run is not None, f"{listing.name} has no point {number} any more"
            listing.runs.append(run)
    _say(f"server stopped at once: {len(every) if random is None else SAMPLED} runs")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


@contextmanager
def _quiet() -> Iterator[None]:
    """The loops say of every lost job that it is lost, and here most are."""
    level = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(level)
