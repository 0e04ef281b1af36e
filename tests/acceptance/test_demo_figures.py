"""What makes the figures of a demonstration add up, one disturbance at a time."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from relevo_apps.evaluations.demo.figures import Figures, MailFigures
from relevo_apps.evaluations.demo.story import Activated
from relevo_apps.evaluations.model.cycles import Cycle, CycleState, EvaluationState
from relevo_apps.evaluations.model.people import Headcount
from relevo_apps.evaluations.model.reports import (
    Activation,
    CycleStatus,
    NotificationCounts,
    Preflight,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CYCLE = Cycle(UUID(int=7), "Demo", CycleState.ACTIVE, (), None, "a", NOW, "a", NOW)
DONE = Activation(
    CYCLE, evaluations=20, evaluators=8, created=8, revived=0, already_there=0, warnings=()
)
STATES = {state: 20 if state is EvaluationState.ACTIVE else 0 for state in EvaluationState}
SENT = NotificationCounts(total=8, delivered=8, failed=0, cancelled=0, pending=0, retried=1)
GOOD = Figures(
    headcount=Headcount(8, 2),
    preflight=Preflight(CYCLE, (), (), (), DONE, None),
    activated=Activated(DONE, 11, 0.1),
    is_second_refused=True,
    status=CycleStatus(CYCLE, 8, STATES, SENT),
    mail=MailFigures(8, 8, 8, 2, 0),
    seed=1,
)

Disturb = Callable[[Figures], Figures]


def sent(**changes: int) -> Disturb:
    def disturb(figures: Figures) -> Figures:
        status = figures.status
        return replace(
            figures, status=replace(status, notifications=replace(status.notifications, **changes))
        )

    return disturb


def mail(**changes: int) -> Disturb:
    return lambda figures: replace(figures, mail=replace(figures.mail, **changes))


def test_figures_that_agree_add_up():
    assert GOOD.adds_up


@pytest.mark.parametrize(
    ("disturb", "broken"),
    [
        (mail(distinct=7, accepted=7), "the_server_took_what_was_delivered"),
        (mail(accepted=9), "nobody_got_two"),
        (sent(delivered=7), "delivered_and_failed_make_the_total"),
        (sent(delivered=7, failed=1), "the_refused_failed"),
        (sent(delivered=7, pending=1), "every_notification_has_ended"),
        (sent(total=9), "one_notification_per_evaluator"),
        (
            lambda figures: replace(figures, is_second_refused=False),
            "the_second_activation_was_refused",
        ),
        (
            lambda figures: replace(
                figures,
                status=replace(figures.status, evaluations={**STATES, EvaluationState.DRAFT: 1}),
            ),
            "every_evaluation_is_active",
        ),
        (
            lambda figures: replace(figures, preflight=replace(figures.preflight, activation=None)),
            "rehearsal_equals_activation",
        ),
    ],
)
def test_a_figure_that_is_wrong_is_noticed(disturb: Disturb, broken: str):
    figures = disturb(GOOD)

    assert not figures.adds_up
    assert figures.checks()[broken] is False
