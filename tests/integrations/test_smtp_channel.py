"""A channel on real servers: connections, rate, breaker, routing, and what a job answers."""

import asyncio
from collections import Counter
from datetime import timedelta
from email import message_from_bytes, policy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from smtp_scripted import IMPATIENT, a_mail, conversation

from relevo.integrations.smtp import (
    AllowList,
    Breaker,
    ChannelDown,
    Delivered,
    Mailbox,
    MailChannelClosed,
    PermanentRefusal,
    Rate,
    Routing,
    SmtpChannel,
    TemporaryRefusal,
    Withheld,
    deliver,
    settings_from_environment,
)
from relevo.integrations.smtp.breaker import BreakerHolder
from relevo.integrations.smtp.sink import BUSY, Sink, by_address
from relevo.model.outcome import Fail, Outage, Retry


def sink_settings(sink: Sink, **environment):
    sender = {"RELEVO_SMTP_URL": sink.url, "RELEVO_SMTP_FROM": "hr@example.com"}
    return settings_from_environment(sender | environment)


def addresses(count: int) -> list[str]:
    return [f"reviewer{number}@example.com" for number in range(count)]


async def test_mails_one_after_another_share_one_connection():
    async with conversation() as (server, channel):
        for address in addresses(5):
            assert isinstance(await channel.send(a_mail(address)), Delivered)

        assert server.connections == 1


async def test_no_more_connections_are_open_than_agreed():
    """Mechanism: the pool's slots; without them 12 mails open 12 connections."""
    async with conversation(connections=3) as (server, channel):
        server.gate.clear()
        sends = [asyncio.create_task(channel.send(a_mail(to))) for to in addresses(12)]
        await server.until(lambda: server.mails == 3)
        server.gate.set()

        deliveries = await asyncio.gather(*sends)

        assert all(isinstance(delivery, Delivered) for delivery in deliveries)
        assert server.most_open == 3


@pytest.mark.parametrize(
    "went_bad",
    [
        {"RSET": "drop"},
        {"RSET": "421 4.4.2 idle for too long"},
        {"RSET": "stall"},
        {"RSET": "500 what?"},
    ],
)
async def test_a_connection_that_went_bad_while_it_waited_is_replaced(went_bad):
    patience = {"timeouts": IMPATIENT} if "stall" in went_bad.values() else {}
    async with conversation(went_bad, {}, **patience) as (server, channel):
        first = await channel.send(a_mail())
        second = await channel.send(a_mail())

        assert isinstance(first, Delivered)
        assert isinstance(second, Delivered)
        assert server.connections == 2
        assert server.mails == 2


async def test_a_connection_that_fails_at_its_second_mail_costs_no_outage():
    """Mechanism: only what a new connection says is final. Servers limit mails per connection."""
    async with conversation() as (server, channel):
        await channel.send(a_mail())
        server.talks[0].script["MAIL FROM"] = "421 4.7.0 too many mails on this connection"

        second = await channel.send(a_mail())

        assert isinstance(second, Delivered)
        assert server.connections == 2
        assert channel.pause == timedelta(0)


async def test_a_message_is_never_offered_twice_after_it_was_handed_over():
    async with conversation({"the final dot": "drop"}) as (server, channel):
        delivery = await channel.send(a_mail())

        assert isinstance(delivery, TemporaryRefusal)
        assert server.mails == 1


async def test_a_late_answer_is_never_taken_for_the_answer_to_the_next_mail():
    """Mechanism: a connection without an answer is not used again, or RSET gets the old 250."""
    async with conversation(timeouts=IMPATIENT) as (server, channel):
        server.gate.clear()
        first = await channel.send(a_mail())
        server.gate.set()
        second = await channel.send(a_mail())

        assert isinstance(first, TemporaryRefusal)
        assert isinstance(second, Delivered)
        assert server.connections == 2
        assert b"RSET\r\n" not in server.lines


async def test_a_refused_recipient_leaves_the_connection_good_for_the_next():
    with Sink(by_address(permanent=["bad@example.com"])) as sink:
        async with SmtpChannel(sink_settings(sink)) as channel:
            refused = await channel.send(a_mail("bad@example.com"))
            taken = await channel.send(a_mail("good@example.com"))

        assert isinstance(refused, PermanentRefusal)
        assert isinstance(taken, Delivered)
        assert [message.recipient for message in sink.received] == ["good@example.com"]


async def test_a_connection_is_replaced_after_its_share_of_mails():
    async with conversation(mails_per_connection=2) as (server, channel):
        for address in addresses(5):
            await channel.send(a_mail(address))

        assert server.connections == 3


async def test_an_idle_connection_is_closed_with_a_farewell():
    async with conversation(idle_for=timedelta(milliseconds=20)) as (server, channel):
        await channel.send(a_mail())

        await server.until(lambda: server.open == 0)

        assert server.lines[-1] == b"QUIT\r\n"
        assert isinstance(await channel.send(a_mail()), Delivered)
        assert server.connections == 2


async def test_closing_lets_the_mail_under_way_end_and_takes_no_more():
    async with conversation() as (server, channel):
        server.gate.clear()
        send = asyncio.create_task(channel.send(a_mail()))
        await server.until(lambda: server.mails == 1)
        closing = asyncio.create_task(channel.close())
        server.gate.set()

        await closing

        assert isinstance(await send, Delivered)
        await server.until(lambda: server.open == 0)
        with pytest.raises(MailChannelClosed):
            await channel.send(a_mail())


async def test_a_cancelled_send_leaves_no_connection_behind():
    """Mechanism: the pool abandons a connection in mid-sentence; its next answer is not ours."""
    async with conversation(connections=1) as (server, channel):
        server.gate.clear()
        send = asyncio.create_task(channel.send(a_mail()))
        await server.until(lambda: server.mails == 1)
        send.cancel()
        with pytest.raises(asyncio.CancelledError):
            await send
        server.gate.set()

        assert isinstance(await channel.send(a_mail()), Delivered)
        await server.until(lambda: server.open == 1)
        assert server.connections == 2


async def test_mails_wait_for_the_rate():
    """Mechanism: the bucket holds 20, so 24 mails at 20/s cannot take less than 0.2 s."""
    async with conversation(rate=Rate(20, timedelta(seconds=1))) as (_, channel):
        loop = asyncio.get_running_loop()
        started = loop.time()

        await asyncio.gather(*(channel.send(a_mail(to)) for to in addresses(24)))

        assert loop.time() - started > 0.19


async def test_one_bad_address_costs_nobody_else_a_second_mail():
    """F-111. Mechanism: one mail per recipient; a loop over recipients would be retried whole."""
    people = addresses(100)
    with Sink(by_address(temporary={people[37]: 2})) as sink:
        async with SmtpChannel(sink_settings(sink)) as channel:
            tries = Counter()
            waiting = list(people)
            while waiting:
                outcomes = await asyncio.gather(*(deliver(channel, a_mail(to)) for to in waiting))
                tries.update(waiting)
                waiting = [
                    to
                    for to, outcome in zip(waiting, outcomes, strict=True)
                    if isinstance(outcome, Retry)
                ]

        assert Counter(message.recipient for message in sink.received) == Counter(people)
        assert tries == Counter(people) + Counter({people[37]: 2})


async def test_a_lost_answer_makes_a_second_mail_with_the_same_message_id():
    """F-112. Mechanism: message_id is a function of the mail; a new one each try counts as two."""
    with Sink(by_address(stalled={"ana@example.com": 1})) as sink:
        impatient = sink_settings(sink, RELEVO_SMTP_MESSAGE_TIMEOUT="0.3")
        async with SmtpChannel(impatient) as channel:
            first = await deliver(channel, a_mail())
        async with SmtpChannel(sink_settings(sink)) as channel:
            second = await deliver(channel, a_mail())

        assert isinstance(first, Retry)
        assert "may have been delivered" in first.reason
        assert isinstance(second, dict)
        assert len(sink.received) == 2
        assert len({message.message_id for message in sink.received}) == 1


async def test_an_outage_is_over_when_the_server_is_back():
    with Sink() as sink:
        async with SmtpChannel(sink_settings(sink)) as channel:
            before = await deliver(channel, a_mail())
            sink.down()
            outages = [await deliver(channel, a_mail()) for _ in range(3)]
            sink.up()
            after = await deliver(channel, a_mail())
            sink.down()
            again = await deliver(channel, a_mail())

    assert isinstance(before, dict)
    assert [outage.in_.total_seconds() for outage in outages] == [5, 10, 20]
    assert "refused the connection" in outages[0].reason
    assert isinstance(after, dict)
    assert again.in_ == timedelta(seconds=5)


async def test_mails_that_fail_together_are_one_outage():
    """Mechanism: the holder compares states; counting each mail would pause for minutes at once."""
    with Sink() as sink:
        sink.down()
        async with SmtpChannel(sink_settings(sink)) as channel:
            outages = await asyncio.gather(*(deliver(channel, a_mail(to)) for to in addresses(9)))

    assert {outage.in_ for outage in outages} == {timedelta(seconds=5)}


async def test_each_verdict_becomes_the_outcome_of_the_job():
    temper = by_address(temporary={"later@example.com": 1}, permanent=["never@example.com"])
    allow = "example.com"
    with Sink(temper) as sink:
        async with SmtpChannel(sink_settings(sink, RELEVO_MAIL_ALLOW=allow)) as channel:
            taken = await deliver(channel, a_mail())
            later = await deliver(channel, a_mail("later@example.com"))
            never = await deliver(channel, a_mail("never@example.com"))
            withheld = await deliver(channel, a_mail("ana@example.org"))
            sink.down()
            down = await deliver(channel, a_mail())

    assert taken == {"accepted": "250 2.0.0 taken as 1"}
    assert later == Retry(reason=f"mail refused for now: {BUSY}")
    assert never == Fail("mail refused: 550 5.1.1 no such mailbox here")
    assert withheld == {"withheld": "ana@example.org is not on the list of RELEVO_MAIL_ALLOW"}
    assert isinstance(down, Outage)
    assert down.in_ == timedelta(seconds=5)


@given(st.integers(min_value=1, max_value=10_000))
def test_the_pause_doubles_to_five_minutes(failures):
    pause = Breaker(failures).pause

    assert pause == min(timedelta(seconds=5) * 2 ** min(failures - 1, 20), timedelta(minutes=5))


def test_an_answer_about_a_mail_ends_the_series_and_no_answer_does_not():
    down = ChannelDown("x")

    def after(*deliveries) -> int:
        holder = BreakerHolder()
        for delivery in deliveries:
            holder.record(holder.state, delivery)
        return holder.state.failures

    assert after(down, down) == 2
    assert after(down, down, TemporaryRefusal(None, "unknown"), Withheld("x")) == 2
    for answer in (Delivered("250"), TemporaryRefusal(450, "x"), PermanentRefusal(550, "x")):
        assert after(down, down, answer) == 0


ANA = Mailbox("Ana@Example.com")
QA = Mailbox("qa@example.net")


@pytest.mark.parametrize(
    ("entries", "listed"),
    [
        ("ana@example.com", True),
        ("ANA@EXAMPLE.COM", True),
        ("example.com", True),
        ("@Example.Com", True),
        ("other@example.com", False),
        ("example.org", False),
        ("ample.com", False),
        ("com", False),
    ],
)
def test_an_entry_lists_an_address_or_a_whole_domain(entries, listed):
    assert (ANA in AllowList.parse(entries)) is listed


def test_a_domain_with_accents_is_listed_in_either_spelling():
    for entry in ("münchen.example", "xn--mnchen-3ya.example"):
        assert Mailbox("ana@MÜNCHEN.example") in AllowList.parse(entry)


@pytest.mark.parametrize(
    ("redirect", "allow", "goes_to"),
    [
        (None, None, "ana@example.com"),
        (None, "example.com", "ana@example.com"),
        (None, "example.org", None),
        (QA, None, "qa@example.net"),
        (QA, "example.com", "ana@example.com"),
        (QA, "example.org", "qa@example.net"),
    ],
)
def test_routing_sends_redirects_or_withholds(redirect, allow, goes_to):
    routing = Routing(redirect, AllowList.parse(allow) if allow else None)

    routed = routing.route(a_mail())

    assert (None if isinstance(routed, Withheld) else routed.to.address) == goes_to


async def test_a_redirected_mail_names_its_person_and_reaches_nobody_else():
    with Sink(keep_content=True) as sink:
        redirect = "QA <qa@example.net>"
        async with SmtpChannel(sink_settings(sink, RELEVO_MAIL_REDIRECT=redirect)) as channel:
            await channel.send(a_mail("ana@example.com", subject="Hola"))

        (message,) = sink.received

    read = message_from_bytes(message.content, policy=policy.default)
    assert message.recipient == "qa@example.net"
    assert read["To"] == redirect
    assert read["Subject"] == "[ana@example.com] Hola"
    assert read["X-Relevo-Original-To"] == "ana@example.com"
    assert message.message_id == a_mail("ana@example.com").message_id


async def test_a_withheld_mail_opens_no_connection():
    routing = Routing(allow=AllowList.parse("example.org"))
    async with conversation(routing=routing) as (server, channel):
        delivery = await channel.send(a_mail("ana@example.com"))

        assert isinstance(delivery, Withheld)
        assert server.connections == 0
