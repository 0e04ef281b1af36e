"""Go through every point of a scenario in every way, and hold the points against the log."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from unittest.mock import patch

import psycopg

from faults.checker import Violation, check
from faults.crash.names import LINES
from faults.crash.points import Point, Points, watched
from faults.crash.server import Server, a_server
from faults.crash.ways import Killed, Way, failure
from faults.crash.world import Scenario, World
from faults.evidence import install, read_history
from relevo.db.migrate import MigrationError, migrate
from relevo.loops import settler

EXPECTED = (psycopg.OperationalError, psycopg.InterfaceError, MigrationError, Killed)
"""What the caller of a failed statement may see; anything else is a fault of the engine."""


@dataclass(frozen=True, slots=True)
class Run:
    """One point that failed in one way."""

    number: int
    point: Point
    way: Way
    violations: Sequence[Violation] = ()
    problems: Sequence[str] = ()


@dataclass(slots=True)
class Listing:
    """What one scenario consists of.

    Attributes:
        name: The scenario's.
        points: Every point in order, as the driver met them.
        logged: The same as the server logged them.
        runs: What came of failing there.
    """

    name: str
    points: list[Point]
    logged: list[Point]
    runs: list[Run] = field(default_factory=list)

    @property
    def distinct(self) -> set[Point]:
        """The points by role and statement."""
        return set(self.points)

    def differences(self) -> list[str]:
        """Say where driver and server disagree about what was sent."""
        if self.points == self.logged:
            return []
        met, told = Counter(self.points), Counter(self.logged)
        words = [f"only the driver: {p.role} {p.name}" for p in (met - told).elements()]
        words += [f"only the server: {p.role} {p.name}" for p in (told - met).elements()]
        return [f"{self.name}: {word}" for word in words or ["another order"]]


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

    def fail(self, scenario: Scenario, number: int, way: Way) -> Run | None:
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
            world.close()
            if way is Way.SERVER_STOPPED:
                self._server.start_again()
            self._server.await_gone(name, world.name)
            return self._look(scenario, world, number, way)

    def _look(self, scenario: Scenario, before: World, number: int, way: Way) -> Run:
        directory = before.directory
        after = World(
            self._server, before.dsn, directory, Points(), "second", scenario.has_limits
        )
        with watched(after.points):
            scenario.again(after)
            after.drain()
            after.close()
        witnesses = [*self._template_directory(scenario).iterdir(), *directory.iterdir()]
        violations = check(read_history(after.dsn, sorted(witnesses)))
        point = before.points.failed_at
        assert point is not None
        return Run(number, point, way, violations, scenario.problems(after))

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
            with watched(points), patch.object(settler, "RETRY_AFTER", 0.0):
                yield name, world
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
