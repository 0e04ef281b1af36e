"""F-111: one bad address must not send everybody the mail again."""

from datetime import timedelta

from delivery_support import an_active_cycle, jobs, relay, reviewers, wait_until_ended
from relevo.integrations.smtp.sink import Sink, by_address
from workers import running


def test_f111_a_bad_address_is_retried_alone_and_everybody_gets_one_mail(database: str):
    """Mechanism: the activation writes one job per evaluator, so only that job is retried."""
    an_active_cycle(database, reviewers(100))

    with Sink(by_address(temporary={"person37@example.com": 2})) as sink:
        quick = {"poll": timedelta(milliseconds=50), "concurrency": 16}
        with running(relay(sink), database, queues=("mail",), **quick):
            wait_until_ended(database)
        delivered = [mail.recipient for mail in sink.received]

    assert len(delivered) == 100
    assert len(set(delivered)) == 100
    starts = {job["email"]: job["attempt"] for job in jobs(database)}
    assert starts.pop("person37@example.com") == 3
    assert set(starts.values()) == {1}
