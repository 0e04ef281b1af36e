"""Activated cycles, and workers that deliver them to a mail server of the test's own."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any
from uuid import UUID

import psycopg

from relevo import Relevo
from relevo.db.drivers import run
from relevo.integrations.smtp import Mailbox, SmtpSettings, settings_from_url
from relevo.integrations.smtp.sink import Received, Sink
from relevo_apps.evaluations import service
from relevo_apps.evaluations.importer import read_people
from relevo_apps.evaluations.jobs import declare_notifications
from relevo_apps.evaluations.model.cycles import Cycle, Dispatch, Relation
from relevo_apps.evaluations.postbox import Postbox
from workers import query, wait_until

TENANT = UUID(int=1)
ACTOR = "hr@example.com"
SENDER = Mailbox("evaluations@example.com", "Evaluations")
QUICK = 0.002
"""Waits of 40, 80, 160 … milliseconds instead of 20, 40, 80 … seconds."""

FOUR = """id,name,email,manager,language
1,Ana Álvarez,ana@example.com,,es
2,Bruno Díaz,bruno@example.com,1,pt
3,Célia Nóbrega,celia@example.com,1,en
4,Dan Young,dan@example.com,2,
"""


def reviewers(count: int) -> str:
    """A people file of so many people who all evaluate themselves."""
    rows = (f"{n},Person {n:03},person{n}@example.com" for n in range(1, count + 1))
    return "\n".join(["id,name,email", *rows])


def a_draft(dsn: str, people: str, **options: Any) -> Cycle:
    """A draft in which everybody of the file takes part."""
    rules: Sequence[Relation] = options.pop("rules", tuple(Relation)[:3])
    with psycopg.connect(dsn) as connection:
        report = run(connection, service.import_people(TENANT, read_people(people.encode())))
        assert report.applied
        creating = service.create_cycle(
            TENANT, options.pop("name", "2025"), actor=ACTOR, rules=rules, **options
        )
        cycle = run(connection, creating)
        run(connection, service.add_participants(TENANT, cycle.id, None, actor=ACTOR))
        run(connection, service.generate_evaluations(TENANT, cycle.id, actor=ACTOR))
    return cycle


def activate(dsn: str, cycle: Cycle, hold: timedelta = timedelta(0)) -> None:
    with psycopg.connect(dsn) as connection:
        activation = service.activate(TENANT, cycle.id, actor=ACTOR, dispatch=Dispatch(hold=hold))
        run(connection, activation)


def an_active_cycle(dsn: str, people: str = FOUR, **options: Any) -> Cycle:
    """A cycle whose notifications are due."""
    cycle = a_draft(dsn, people, **options)
    activate(dsn, cycle)
    return cycle


def a_due_day() -> date:
    return date(2026, 3, 31)


def relay(sink: Sink, **changes: Any) -> Relevo:
    """An application that delivers notifications to the sink, with short waits."""
    app = Relevo()
    declare_notifications(app, Postbox(lambda: settings(sink, **changes)), scale=QUICK)
    return app


def settings(sink: Sink, **changes: Any) -> SmtpSettings:
    return replace(settings_from_url(sink.url, SENDER), **changes)


def jobs(dsn: str) -> list[dict[str, Any]]:
    """Every notification with the address it is for, by address."""
    rows = query(
        dsn,
        "SELECT person.email, job.state, job.attempt, job.excused, job.last_error"
        " FROM relevo.jobs AS job JOIN evaluations.people AS person"
        " ON person.id = (job.payload ->> 'evaluator_id')::uuid ORDER BY person.email",
    )
    names = ("email", "state", "attempt", "excused", "last_error")
    return [dict(zip(names, row, strict=True)) for row in rows]


def pause(dsn: str) -> tuple[Any, ...] | None:
    """Until when the queue rests, and why."""
    rows = query(
        dsn,
        "SELECT paused_until, reason FROM relevo.pauses"
        " WHERE name = 'mail' AND paused_until > now()",
    )
    return rows[0] if rows else None


def end_pause(dsn: str) -> None:
    """Let the queue be claimed from now on, as the passing of time does."""
    query(dsn, "UPDATE relevo.pauses SET paused_until = now() WHERE name = 'mail'")


def wait_until_ended(dsn: str) -> None:
    """Wait until no notification is pending."""
    wait_until(
        lambda: query(dsn, "SELECT count(*) FROM relevo.jobs WHERE live") == [(0,)],
        what="the end of every notification",
    )


def opened(received: Received) -> EmailMessage:
    """The message as a mail program reads it."""
    message = message_from_bytes(received.content, policy=default)
    assert isinstance(message, EmailMessage)
    return message


def body(received: Received, kind: str = "plain") -> str:
    part = opened(received).get_body((kind,))
    assert part is not None
    return str(part.get_content())
