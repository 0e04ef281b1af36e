"""Who is measured, and what each needs to be installed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

BASE: Final = "raw"
"""Everybody is compared with this one."""

_PSYCOPG: Final = "psycopg[binary,pool]==3.3.9"
_ASYNCPG: Final = "asyncpg==0.32.0"


@dataclass(frozen=True, slots=True, eq=False)
class Contender:
    """One side of the comparison.

    Attributes:
        name: How it is called.
        stem: The name of its driver's file, without the ending.
        requirements: What its own environment holds; empty is the project's environment.
        python: The oldest Python that it runs on.
        variables: What its processes find in their environment.
    """

    name: str
    stem: str
    requirements: tuple[str, ...] = ()
    python: tuple[int, int] = (3, 11)
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def driver(self) -> Path:
        """Its driver."""
        return Path(__file__).parent.parent / "peers" / f"{self.stem}.py"


OURS: Final = (Contender(BASE, "raw_"), Contender("relevo", "relevo_"))
"""Always measured."""

_DELETE: Final = {"BENCH_RAW": "delete"}

PEERS: Final = (
    Contender("raw-delete", "raw_", variables=_DELETE),
    Contender("raw-asyncpg", "raw_asyncpg_"),
    Contender("raw-asyncpg-delete", "raw_asyncpg_", variables=_DELETE),
    Contender("pgqueuer", "pgqueuer_", ("pgqueuer[asyncpg]==1.6.0", _ASYNCPG)),
    Contender("awa", "awa_", ("awa-pg==0.6.9",)),
    Contender("chancy", "chancy_", ("chancy==0.26.0", _PSYCOPG)),
    Contender("oban", "oban_", ("oban==0.7.0", _PSYCOPG), python=(3, 12)),
    Contender("procrastinate", "procrastinate_", ("procrastinate==3.10.0", _PSYCOPG)),
)
"""Measured with PEERS=1; the raw loops here are for peers that delete, or use asyncpg."""
