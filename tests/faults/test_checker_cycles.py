"""A cycle is activated as a whole or not at all, and the checker names every half."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from faults.evidence.records import CycleChange, History
from faults.tale import Break, Tale, named

CYCLE, ANNA, BEN, OTHER = (UUID(int=number) for number in range(100, 104))


class CycleTale(Tale):
    """A cycle with two evaluations; each method is one transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.cycles: list[CycleChange] = []
        self.sessions[1] = replace(self.sessions[1], kinds=("cycle.dispatched",))
        self.move("cycle", None, "draft", 1)
        self.move("evaluations", None, "draft", 2)

    def move(self, what: str, old: str | None, new: str, rows: int, xact: int = 0) -> None:
        at = self._tick()
        people = (ANNA, BEN)[:rows] if what == "evaluations" else ()
        about = {"what": what, "cycle_id": CYCLE, "at": at, "xact": xact or self._seq}
        if old is not None:
            self.cycles.append(CycleChange(self._seq, state=old, gone=rows, **about))
        self.cycles.append(CycleChange(self._seq, state=new, come=rows, evaluators=people, **about))

    def activate(self, people: tuple[UUID, ...] = (ANNA, BEN), rows: int = 2) -> int:
        self.move("cycle", "draft", "active", 1)
        xact = self._seq
        self.move("evaluations", "draft", "active", rows, xact)
        for number, person in enumerate(people, start=1):
            columns = {"kind": "cycle.dispatched", "aggregate_id": str(CYCLE)}
            self.enqueue(number, evaluator=str(person), **columns)
            self.break_last(number, xact=xact)
        return xact

    def recall(self) -> None:
        self.move("cycle", "active", "draft", 1)
        xact = self._seq
        self.move("evaluations", "active", "draft", 2, xact)
        for job in (1, 2):
            if self.last(job).is_live:
                self.change(job, state="cancelled", finished_at=self.now, xact=xact)

    def history(self, **changes: Any) -> History:
        later = {event.job_id for event in self.events}
        for job in later:
            if self.last(job).is_live:
                self.change(job, available_at=self.now * 2)
        return super().history(cycles=tuple(self.cycles), **changes)


def test_a_cycle_is_activated_recalled_and_activated_again() -> None:
    tale = CycleTale()
    tale.activate()
    tale.claim(1)
    tale.finish(1)
    tale.recall()
    tale.move("cycle", "draft", "active", 1)
    xact = tale._seq
    tale.move("evaluations", "draft", "active", 2, xact)
    tale.requeue(2, xact=xact)
    tale.note("sample", **a_sample(state="active", others=2, asked=2, told=2, live=1))
    tale.note("sample", **a_sample(drafts=2))

    assert named(tale.history()) == set()


def a_sample(**seen: Any) -> dict[str, Any]:
    plain = {"state": "draft", "drafts": 0, "others": 0, "asked": 0, "live": 0, "told": 0}
    return {"cycle_id": str(CYCLE), **plain, **seen}


@pytest.mark.parametrize(
    "breaks",
    [
        pytest.param(lambda tale: tale.activate(rows=1), id="half of the evaluations"),
        pytest.param(lambda tale: tale.activate(people=(ANNA,)), id="a person is not told"),
        pytest.param(
            lambda tale: tale.activate(people=(ANNA, BEN, OTHER)), id="somebody else is told"
        ),
        pytest.param(
            lambda tale: (
                tale.activate(people=(ANNA,)),
                tale.enqueue(
                    2, kind="cycle.dispatched", aggregate_id=str(CYCLE), evaluator=str(BEN)
                ),
            ),
            id="notified in another transaction",
        ),
        pytest.param(lambda tale: tale.move("cycle", "draft", "active", 1), id="only the cycle"),
        pytest.param(
            lambda tale: tale.move("evaluations", "draft", "active", 2), id="only evaluations"
        ),
        pytest.param(
            lambda tale: (
                tale.activate(),
                tale.move("cycle", "active", "draft", 1),
                tale.move("evaluations", "active", "draft", 2, tale._seq),
            ),
            id="recalled, and still to be sent",
        ),
        pytest.param(
            lambda tale: tale.note("sample", **a_sample(others=1)), id="a draft seen half active"
        ),
        pytest.param(
            lambda tale: tale.note("sample", **a_sample(state="active", drafts=1)),
            id="an active one seen half a draft",
        ),
        pytest.param(
            lambda tale: tale.note("sample", **a_sample(state="active", asked=2, told=1)),
            id="seen active with too few notifications",
        ),
    ],
)
def test_a_half_activated_cycle_is_named(breaks: Break) -> None:
    tale = CycleTale()

    breaks(tale)

    assert named(tale.history()) == {"I13"}
