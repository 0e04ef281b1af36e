"""Whether a demonstration adds up: what the database says beside what the mail server saw.

Every figure is read or counted; `checks/demo.sql` reads them again without this program.
"""

from dataclasses import dataclass

from relevo.integrations.smtp.sink import Choice, Sink, choose
from relevo_apps.evaluations.demo.relay import SHARES
from relevo_apps.evaluations.demo.story import Activated
from relevo_apps.evaluations.model.cycles import EvaluationState
from relevo_apps.evaluations.model.people import Headcount
from relevo_apps.evaluations.model.reports import CycleStatus, Preflight


@dataclass(frozen=True, slots=True)
class MailFigures:
    """What the mail server saw.

    Attributes:
        accepted: The mails that it took, repetitions included.
        distinct: The mails that it took, each counted once by its Message-ID.
        recipients: How many addresses got one.
        refused_for_now: How often an address was told to come back.
        refused_for_good: How often an address was told never to come back.
    """

    accepted: int
    distinct: int
    recipients: int
    refused_for_now: int
    refused_for_good: int

    @classmethod
    def of(cls, sink: Sink) -> "MailFigures":
        """Read them from the server."""
        taken = sink.received
        return cls(
            accepted=len(taken),
            distinct=len({mail.message_id for mail in taken}),
            recipients=len({mail.recipient for mail in taken}),
            refused_for_now=sink.refused_for_now,
            refused_for_good=sink.refused_for_good,
        )


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything that a demonstration ends with.

    Attributes:
        headcount: The people and managers.
        preflight: What the rehearsal had said.
        activated: What the activation did and cost.
        is_second_refused: Whether a second activation was refused.
        status: How the cycle stands at the end.
        mail: What the mail server saw.
        seed: What decided which addresses are refused.
    """

    headcount: Headcount
    preflight: Preflight
    activated: Activated
    is_second_refused: bool
    status: CycleStatus
    mail: MailFigures
    seed: int

    def checks(self) -> dict[str, bool]:
        """Answer what has to hold for the figures to add up, each by a name."""
        sent, done = self.status.notifications, self.activated.done
        foretold = [choose(each.email, self.seed, SHARES) for each in self.preflight.ready]
        return {
            "rehearsal_equals_activation": (
                self.preflight.notifications == done.notifications
                and self.preflight.evaluations == done.evaluations
            ),
            "every_evaluation_is_active": (
                sum(self.status.evaluations.values())
                == self.status.evaluations[EvaluationState.ACTIVE]
                == done.evaluations
            ),
            "one_notification_per_evaluator": sent.total == done.evaluators == done.notifications,
            "every_notification_has_ended": sent.pending == 0,
            "delivered_and_failed_make_the_total": sent.delivered + sent.failed == sent.total,
            "the_server_took_what_was_delivered": self.mail.distinct == sent.delivered,
            "nobody_got_two": self.mail.accepted == self.mail.distinct,
            "the_refused_failed": foretold.count(Choice.PERMANENT) == sent.failed,
            "the_busy_were_retried": foretold.count(Choice.TEMPORARY) <= sent.retried,
            "the_second_activation_was_refused": self.is_second_refused,
        }

    @property
    def adds_up(self) -> bool:
        """Whether every check holds."""
        return all(self.checks().values())

    def fields(self) -> dict[str, object]:
        """Answer the figures for programs."""
        sent = self.status.notifications
        return {
            "people": self.headcount.people,
            "managers": self.headcount.managers,
            "evaluations": {
                "total": sum(self.status.evaluations.values()),
                "active": self.status.evaluations[EvaluationState.ACTIVE],
            },
            "notifications": {
                "total": sent.total,
                "delivered": sent.delivered,
                "failed": sent.failed,
                "retried": sent.retried,
                "pending": sent.pending,
            },
            "second_activation": "refused" if self.is_second_refused else "accepted",
            "activation_statements": self.activated.statements,
            "activation_seconds": round(self.activated.seconds, 3),
            "mail": {
                "accepted": self.mail.accepted,
                "distinct": self.mail.distinct,
                "recipients": self.mail.recipients,
                "duplicates": self.mail.accepted - self.mail.distinct,
                "refused_for_now": self.mail.refused_for_now,
                "refused_for_good": self.mail.refused_for_good,
            },
            "checks": self.checks(),
            "adds_up": self.adds_up,
        }
