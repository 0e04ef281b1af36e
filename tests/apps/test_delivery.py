"""Notifications are delivered by mail: to whom, in which words, and what failures mean."""

from datetime import timedelta

import psycopg

from delivery_support import (
    ACTOR,
    FOUR,
    TENANT,
    a_draft,
    a_due_day,
    activate,
    an_active_cycle,
    body,
    end_pause,
    jobs,
    opened,
    pause,
    relay,
    settings,
    wait_until_ended,
)
from relevo import Relevo
from relevo.db.drivers import run
from relevo.integrations.smtp.sink import Sink, by_address
from relevo_apps.evaluations import service
from relevo_apps.evaluations.jobs import declare_notifications
from relevo_apps.evaluations.postbox import Postbox
from workers import drain, query, running, wait_until

MAIL = ("mail",)


def recall(dsn: str, cycle_id):
    with psycopg.connect(dsn) as connection:
        return run(connection, service.recall(TENANT, cycle_id, actor=ACTOR))


def status(dsn: str, cycle_id):
    with psycopg.connect(dsn) as connection:
        return run(connection, service.cycle_status(TENANT, cycle_id))


def test_everybody_gets_one_mail_in_their_own_language(database: str):
    an_active_cycle(database, due_on=a_due_day())

    with Sink(keep_content=True) as sink:
        drain(relay(sink), database, queues=MAIL)
        mails = {mail.recipient: mail for mail in sink.received}

    assert sorted(mails) == [f"{name}@example.com" for name in ("ana", "bruno", "celia", "dan")]
    assert "Hola, Ana Álvarez:" in body(mails["ana@example.com"])
    assert "a más tardar el 31 de marzo de 2026" in body(mails["ana@example.com"])
    assert "Olá, Bruno Díaz," in body(mails["bruno@example.com"])
    assert "até 31 de março de 2026" in body(mails["bruno@example.com"])
    assert "Hello Célia Nóbrega," in body(mails["celia@example.com"])
    assert "by March 31, 2026" in body(mails["celia@example.com"])
    assert opened(mails["bruno@example.com"])["Content-Language"] == "pt"


def test_the_mail_lists_everybody_who_is_to_be_evaluated_with_the_relation(database: str):
    an_active_cycle(database)

    with Sink(keep_content=True) as sink:
        drain(relay(sink), database, queues=MAIL)
        mails = {mail.recipient: mail for mail in sink.received}

    celia = body(mails["celia@example.com"])
    assert "- Célia Nóbrega (your self-evaluation)" in celia
    assert "- Ana Álvarez (your manager)" in celia
    assert "Bruno" not in celia
    ana = body(mails["ana@example.com"])
    assert ana.index("- Bruno Díaz (es de su equipo)") < ana.index("- Célia Nóbrega")
    assert "<li>Bruno Díaz (es de su equipo)</li>" in body(mails["ana@example.com"], "html")


def test_a_name_cannot_become_markup(database: str):
    people = "id,name,email\n1,<script>alert(1)</script> & co,one@example.com\n"
    an_active_cycle(database, people, name="<b>2025</b>")

    with Sink(keep_content=True) as sink:
        drain(relay(sink), database, queues=MAIL)
        html = body(sink.received[0], "html")

    assert "<script>" not in html
    assert "<b>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; co" in html


def test_a_refusal_for_now_is_retried_and_one_for_good_ends_readable(database: str):
    cycle = an_active_cycle(database)
    temper = by_address(temporary={"bruno@example.com": 2}, permanent=["dan@example.com"])

    with Sink(temper) as sink, running(relay(sink), database, queues=MAIL):
        wait_until_ended(database)

    assert {job["email"]: (job["state"], job["attempt"]) for job in jobs(database)} == {
        "ana@example.com": ("completed", 1),
        "bruno@example.com": ("completed", 3),
        "celia@example.com": ("completed", 1),
        "dan@example.com": ("failed", 1),
    }
    seen = status(database, cycle.id)
    assert [(each.full_name, each.last_error) for each in seen.troubled] == [
        ("Dan Young", "mail refused: 550 5.1.1 no such mailbox here")
    ]
    assert seen.notifications.retried == 1


def test_five_retries_and_then_it_is_failed_with_the_last_error(database: str):
    an_active_cycle(database, "id,name,email\n1,Ana,ana@example.com\n")

    with Sink(by_address(temporary={"ana@example.com": 99})) as sink:
        with running(relay(sink), database, queues=MAIL, poll=timedelta(milliseconds=50)):
            wait_until_ended(database)
        refused = sink.refused_for_now

    (job,) = jobs(database)
    assert (job["state"], job["attempt"], refused) == ("failed", 6, 6)
    assert "451 4.7.1 the mailbox is busy" in job["last_error"]


def test_an_outage_pauses_the_queue_and_spends_no_attempt(database: str):
    an_active_cycle(database)

    with Sink() as sink:
        sink.down()
        with running(relay(sink), database, queues=MAIL, poll=timedelta(milliseconds=50)):
            wait_until(lambda: pause(database), what="the pause")
            wait_until(
                lambda: (
                    all(job["last_error"] for job in jobs(database))
                    or sum(job["excused"] for job in jobs(database)) > 0
                ),
                what="a job that came back",
            )
            seen = jobs(database)
            reason = pause(database)
            sink.up()
            end_pause(database)
            wait_until_ended(database)
        delivered = [mail.recipient for mail in sink.received]

    assert reason is not None
    assert "refused the connection" in reason[1]
    assert all(job["attempt"] == job["excused"] for job in seen if job["state"] == "available")
    assert len(delivered) == len(set(delivered)) == 4
    assert all(job["attempt"] - job["excused"] == 1 for job in jobs(database))


def test_a_worker_without_a_mail_server_pauses_and_loses_nothing(database: str, monkeypatch):
    monkeypatch.delenv("RELEVO_SMTP_URL", raising=False)
    an_active_cycle(database)
    app = Relevo()
    declare_notifications(app)

    drain(app, database, queues=MAIL)

    resting = pause(database)
    assert resting is not None
    assert resting[1].startswith("this worker cannot send mail: RELEVO_SMTP_URL is not set")
    assert {(job["state"], job["attempt"] - job["excused"]) for job in jobs(database)} == {
        ("available", 0)
    }


def test_nothing_leaves_during_the_hold_and_a_recall_cancels_it(database: str):
    cycle = a_draft(database, FOUR)
    activate(database, cycle, hold=timedelta(minutes=10))

    with Sink() as sink:
        drain(relay(sink), database, queues=MAIL)
        taken_back = recall(database, cycle.id)
        query(database, "UPDATE relevo.jobs SET available_at = now()")
        drain(relay(sink), database, queues=MAIL)
        assert sink.received == []

    assert (taken_back.cancelled, taken_back.mailed) == (4, ())
    assert {(job["state"], job["attempt"]) for job in jobs(database)} == {("cancelled", 0)}


def test_a_message_whose_cycle_was_recalled_in_the_meantime_is_cancelled(database: str):
    cycle = an_active_cycle(database)
    # What a recall leaves while a worker holds the job: the cycle is a draft again.
    query(
        database,
        "UPDATE evaluations.cycles SET state = 'draft', activated_at = NULL,"
        " activated_by = NULL, hold_until = NULL WHERE id = %s",
        cycle.id,
    )

    with Sink() as sink:
        drain(relay(sink), database, queues=MAIL)
        assert sink.received == []

    assert {(job["state"], job["last_error"]) for job in jobs(database)} == {
        ("cancelled", "cycle '2025' was recalled before this message was sent")
    }


def test_whoever_left_or_lost_the_address_ends_failed_in_words(database: str):
    an_active_cycle(database)
    query(database, "UPDATE evaluations.people SET active = false WHERE external_id = '2'")
    query(database, "UPDATE evaluations.people SET email = NULL WHERE external_id = '3'")

    with Sink() as sink:
        drain(relay(sink), database, queues=MAIL)
        delivered = sorted(mail.recipient for mail in sink.received)

    assert delivered == ["ana@example.com", "dan@example.com"]
    errors = {job["last_error"] for job in jobs(database) if job["state"] == "failed"}
    assert {error.split(";")[0] for error in errors} == {
        "Bruno Díaz has left",
        "Célia Nóbrega has no e-mail address",
    }


def test_the_worker_says_that_waits_are_not_the_usual_ones(database: str, caplog):
    an_active_cycle(database)

    with Sink() as sink:
        drain(relay(sink), database, queues=MAIL)

    said = [record.getMessage() for record in caplog.records]
    assert sum("RELEVO_BACKOFF_SCALE is 0.002" in line for line in said) == 1


def test_the_worker_says_once_why_no_mail_goes_out(database: str, caplog, monkeypatch):
    monkeypatch.delenv("RELEVO_SMTP_URL", raising=False)
    an_active_cycle(database)
    app = Relevo()
    declare_notifications(app)

    drain(app, database, queues=MAIL)

    said = [record.getMessage() for record in caplog.records]
    assert sum("no mail goes out for now: this worker cannot send" in line for line in said) == 1


def test_a_worker_that_stops_takes_leave_of_the_mail_server(database: str):
    an_active_cycle(database)
    app = Relevo()

    with Sink() as sink:
        box = Postbox(lambda: settings(sink))
        declare_notifications(app, box)
        drain(app, database, queues=MAIL)

        assert len(sink.received) == 4
    assert len(box._channels) == 0


async def test_a_closed_postbox_opens_again():
    with Sink() as sink:
        box = Postbox(lambda: settings(sink))
        channel = box._channel()
        await box.close()

        assert box._channel() is not channel
        await box.close()
