"""What a demonstration tells: people come in, a cycle is prepared, rehearsed and activated.

Each step is the service that the commands use, as the role of the web.
"""

import time
from dataclasses import dataclass
from typing import Final

from relevo import RelevoError, perform, set_tenant, wake
from relevo_apps.evaluations import service
from relevo_apps.evaluations.commands.desk import Desk
from relevo_apps.evaluations.demo.counting import Count, counted
from relevo_apps.evaluations.importer import ImportReport, PeopleFile
from relevo_apps.evaluations.model.cycles import Cycle, Dispatch
from relevo_apps.evaluations.model.reports import Activation, Generated, Preflight
from relevo_apps.evaluations.service.measuring import record_cost

# Nobody wants to wait ten minutes to see mails go out; a real activation does.
AT_ONCE: Final = Dispatch(hold=Dispatch().hold * 0)


@dataclass(frozen=True, slots=True)
class Activated:
    """An activation and what it cost.

    Attributes:
        done: What it did.
        statements: How many statements it sent between BEGIN and COMMIT.
        seconds: How long it took.
    """

    done: Activation
    statements: int
    seconds: float


def bring_in(desk: Desk, file: PeopleFile) -> ImportReport:
    """Import the people, all or none."""
    return desk.do(service.import_people(desk.tenant_id, file))


def prepare(desk: Desk, name: str) -> tuple[Cycle, Generated]:
    """Create a draft in which everybody takes part, with its evaluations."""
    tenant_id, actor = desk.tenant_id, desk.actor
    draft = desk.do(service.create_cycle(tenant_id, name, actor=actor))
    desk.do(service.add_participants(tenant_id, draft.id, None, actor=actor))
    return draft, desk.do(service.generate_evaluations(tenant_id, draft.id, actor=actor))


def rehearse(desk: Desk, draft: Cycle) -> Preflight:
    """Do the activation and take it back."""
    rehearsal = service.preflight(desk.tenant_id, draft.id, actor=desk.actor, dispatch=AT_ONCE)
    return desk.do(rehearsal, keep=False)


def activate(desk: Desk, draft: Cycle) -> Activated:
    """Activate the cycle in one transaction, and record what it cost in another."""
    activation = service.activate(
        desk.tenant_id, draft.id, actor=desk.actor, dispatch=AT_ONCE, wake=wake
    )
    count = Count()
    began = time.perf_counter()
    with desk.connection.transaction():
        perform(desk.connection, counted(set_tenant(desk.tenant_id), count))
        done = perform(desk.connection, counted(activation, count))
    seconds = time.perf_counter() - began
    cost = record_cost(
        desk.tenant_id, draft.id, statements=count.statements, seconds=seconds, actor=desk.actor
    )
    desk.do(cost)
    return Activated(done, count.statements, seconds)


def try_again(desk: Desk, cycle: Cycle) -> RelevoError | None:
    """Activate a second time; answer the refusal, which is recorded, or None if there was none."""
    again = service.activate(desk.tenant_id, cycle.id, actor=desk.actor, dispatch=AT_ONCE)
    try:
        desk.do(again)
    except RelevoError as refusal:
        desk.do(service.record_refusal(desk.tenant_id, cycle.id, refusal, actor=desk.actor))
        return refusal
    return None
