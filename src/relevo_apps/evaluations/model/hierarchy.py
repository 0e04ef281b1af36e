"""Find loops in who reports to whom.

A person has at most one manager, so each loop is met exactly once by walking up.
"""

from collections.abc import Iterable, Mapping


def find_loops(managers: Mapping[str, str], starts: Iterable[str]) -> list[list[str]]:
    """Answer every loop that is reached from one of the starts.

    Args:
        managers: The manager of each person who has one.
        starts: Where to walk up from; a loop begins at the first of them inside it.

    Returns:
        Each loop once, as the people on it in walking order, without the repetition.
    """
    order = list(starts)
    rank = {person: place for place, person in enumerate(order)}
    seen: set[str] = set()
    loops: list[list[str]] = []
    for start in order:
        path: list[str] = []
        at: str | None = start
        while at is not None and at not in seen:
            seen.add(at)
            path.append(at)
            at = managers.get(at)
        if at is not None and at in path:
            loop = path[path.index(at) :]
            first = min(loop, key=lambda person: rank.get(person, len(rank)))
            turn = loop.index(first)
            loops.append(loop[turn:] + loop[:turn])
    return loops
