"""How the sink treats an address: always the same for the same address and seed.

Pure choices, so that a demonstration can foretell what its server will do.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import TypeAlias


class Choice(StrEnum):
    """What becomes of an address."""

    ACCEPT = "accept"
    TEMPORARY = "temporary"
    PERMANENT = "permanent"


@dataclass(frozen=True, slots=True)
class Shares:
    """Which part of all addresses is refused, each between 0 and 1."""

    temporary: float = 0.08
    permanent: float = 0.02


@dataclass(frozen=True, slots=True)
class Temper:
    """What an address meets.

    Attributes:
        refuse_first: How many tries are refused for now before one is accepted.
        refuse: Whether every try is refused for good.
        stall_first: How many accepted messages get no answer after the final dot.
    """

    refuse_first: int = 0
    refuse: bool = False
    stall_first: int = 0


Tempers: TypeAlias = Callable[[str], Temper]


def choose(address: str, seed: int, shares: Shares | None = None) -> Choice:
    """Draw what becomes of an address: the same for the same address and seed.

    Args:
        address: Whose mail it is; case does not matter.
        seed: Another seed draws other addresses.
        shares: How many are refused.
    """
    drawn_from = shares or Shares()
    digest = sha256(f"{seed}:{address.lower()}".encode()).digest()
    drawn = int.from_bytes(digest[:6], "big") / 2**48
    if drawn < drawn_from.permanent:
        return Choice.PERMANENT
    if drawn < drawn_from.permanent + drawn_from.temporary:
        return Choice.TEMPORARY
    return Choice.ACCEPT


def by_share(seed: int, shares: Shares | None = None, times: int = 2) -> Tempers:
    """Treat addresses as `choose` draws them, refusing the temporary ones so many times."""

    def temper(address: str) -> Temper:
        choice = choose(address, seed, shares)
        return Temper(
            refuse_first=times if choice is Choice.TEMPORARY else 0,
            refuse=choice is Choice.PERMANENT,
        )

    return temper


def by_address(
    temporary: Mapping[str, int] | None = None,
    permanent: Collection[str] = (),
    stalled: Mapping[str, int] | None = None,
) -> Tempers:
    """Treat the named addresses as said and accept everybody else.

    Args:
        temporary: How many tries of an address are refused for now.
        permanent: Addresses that are always refused.
        stalled: How many accepted messages of an address get no answer.
    """

    def temper(address: str) -> Temper:
        return Temper(
            refuse_first=(temporary or {}).get(address, 0),
            refuse=address in permanent,
            stall_first=(stalled or {}).get(address, 0),
        )

    return temper
