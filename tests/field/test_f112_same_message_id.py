"""F-112: a server that accepts and never answers must not make two different mails."""

from datetime import timedelta
from pathlib import Path

from delivery_support import an_active_cycle, jobs, relay, wait_until_ended
from relevo.integrations.smtp import Timeouts
from relevo.integrations.smtp.sink import Sink, by_address
from workers import running

ONE = "id,name,email\n1,Ana Álvarez,ana@example.com\n"


def test_f112_a_second_send_after_a_lost_answer_has_the_same_message_id(database: str):
    """Mechanism: the Message-ID is made of tenant, kind, cycle and person, not of the try."""
    an_active_cycle(database, ONE)
    patience = Timeouts(message=timedelta(milliseconds=300))

    with Sink(by_address(stalled={"ana@example.com": 1})) as sink:
        quick = {"poll": timedelta(milliseconds=50)}
        with running(relay(sink, timeouts=patience), database, queues=("mail",), **quick):
            wait_until_ended(database)
        taken = sink.received

    assert len(taken) == 2
    assert len({mail.message_id for mail in taken}) == 1
    (job,) = jobs(database)
    assert (job["state"], job["attempt"]) == ("completed", 2)
    assert "may have been delivered" in job["last_error"]


def test_f112_the_documentation_names_the_limit():
    """Mechanism: whoever reads how to send mail learns that delivery is at least once."""
    page = Path(__file__).parents[2] / "docs" / "how-to" / "send-mail.md"

    text = page.read_text(encoding="utf-8")

    assert "at least once" in text
    assert "same `Message-ID`" in text
