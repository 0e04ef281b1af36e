"""How large each figure is measured, and where: the one table that all campaigns read."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

Numbers = Mapping[str, int]


class Size(StrEnum):
    """How much a run is allowed to cost."""

    PULL_REQUEST = "pull-request"
    NIGHTLY = "nightly"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class Figure:
    """Something that is published with its seed, commit and command.

    Attributes:
        what: What it says.
        sizes: Its numbers at each size; a size that is left out does not measure it.
        where: `module:function` below `faults`, called as `function(size, seed, directory)`
            and answering a `faults.measured.Measured`; empty where the engine does not yet
            have what the figure is about.
    """

    what: str
    sizes: Mapping[Size, Numbers]
    where: str = ""


def _sizes(pull_request: Numbers, nightly: Numbers, release: Numbers) -> Mapping[Size, Numbers]:
    given = zip(Size, (pull_request, nightly, release), strict=True)
    return {size: numbers for size, numbers in given if numbers}


FIGURES: Mapping[str, Figure] = {
    "R1": Figure(
        "workers killed under load: nothing lost, nothing twice, starts within their number",
        _sizes(
            {"kills": 50, "jobs": 10_000},
            {"kills": 1000, "jobs": 200_000},
            {"kills": 5000, "jobs": 1_000_000},
        ),
        "campaigns.kill:measure",
    ),
    "R2": Figure(
        "backends of the engine terminated: the same",
        _sizes({"cuts": 50}, {"cuts": 1000}, {"cuts": 5000}),
        "campaigns.terminate:measure",
    ),
    "R3": Figure(
        "crash points: every statement boundary in four ways",
        _sizes({"whole": 0, "ways": 4}, {"whole": 1, "ways": 4}, {"whole": 1, "ways": 4}),
        "crash.enumerate:measure",
    ),
    "R4": Figure(
        "the server stopped at once and started under load",
        _sizes({"stops": 3}, {"stops": 100}, {"stops": 200}),
        "campaigns.server:measure_stops",
    ),
    "R5": Figure(
        "an unrelated backend killed, so that the whole server restarts",
        _sizes({"kills": 3}, {"kills": 50}, {"kills": 100}),
        "campaigns.server:measure_kills",
    ),
    "R6": Figure(
        "faults of the network between workers and server",
        _sizes({"seconds": 120}, {"seconds": 3600}, {"seconds": 21_600}),
        "campaigns.network:measure",
    ),
    "R7": Figure(
        "workers frozen beyond their lease: no late completion is accepted",
        _sizes({"freezes": 20}, {"freezes": 500}, {"freezes": 2000}),
        "campaigns.stop:measure",
    ),
    "R8": Figure(
        "from a kill to the next start, from the server's return to the first completion",
        _sizes(
            {},
            {"kills": 100, "shipped": 5, "stops": 20},
            {"kills": 500, "shipped": 20, "stops": 100},
        ),
        "campaigns.recovery:measure",
    ),
    "R9": Figure(
        "a soak: memory, claims and dead rows stay where they are",
        _sizes({}, {"seconds": 3600}, {"seconds": 43_200}),
        "campaigns.soak:measure",
    ),
    "R10": Figure(
        "activation, recall, changes and crashes of cycles, interleaved at random",
        _sizes({"interleavings": 500}, {"interleavings": 10_000}, {"interleavings": 50_000}),
        "campaigns.cycles:measure",
    ),
    "R11": Figure(
        "runs of random graphs",
        _sizes({"graphs": 200}, {"graphs": 5000}, {"graphs": 20_000}),
    ),
    "R12": Figure(
        "steps of the state machine over the public interface, beside a model",
        _sizes({"steps": 20_000}, {"steps": 1_000_000}, {"steps": 5_000_000}),
        "model.machine:measure",
    ),
    "R13": Figure(
        "schedules beside an oracle",
        _sizes({"expressions": 20}, {"expressions": 200}, {"expressions": 200}),
    ),
    "R14": Figure(
        "payloads at random: no dead worker, nothing comes back changed",
        _sizes({"examples": 10_000}, {"examples": 1_000_000}, {"examples": 1_000_000}),
        "campaigns.fuzz:measure",
    ),
    "R15": Figure(
        "mutants of the engine that the checker names",
        _sizes({"mutants": 10}, {"mutants": 1000}, {"mutants": 1000}),
        "mutants.run:measure",
    ),
    "R16": Figure(
        "no disk, no connection, other clocks: no job charged, quick recovery",
        _sizes({}, {"rounds": 1}, {"rounds": 1}),
        "campaigns.scarcity:measure",
    ),
    "R17": Figure(
        "an upgrade under load with workers of both versions",
        _sizes({"rows": 20_000}, {"rows": 5_000_000}, {"rows": 5_000_000}),
        "campaigns.upgrade:measure",
    ),
    "F005": Figure(
        "with shipped settings: from a kill of a worker until all its jobs run elsewhere",
        _sizes({}, {"jobs": 20}, {"jobs": 20}),
        "campaigns.default_lease:measure",
    ),
}


def numbers(figure: str, size: Size) -> Numbers:
    """Answer the numbers of a figure; none where the size does not measure it."""
    return FIGURES[figure].sizes.get(size, {})
