"""The local server: what it refuses, what it writes down, and that it can go away."""

import json
import socket
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from smtp_scripted import a_mail

from relevo.integrations.smtp import SmtpChannel, settings_from_environment
from relevo.integrations.smtp.sink import Choice, Shares, Sink, Temper, by_share, choose

PEOPLE = [f"person{number}@example.com" for number in range(4000)]


def channel_to(sink: Sink) -> SmtpChannel:
    environment = {"RELEVO_SMTP_URL": sink.url, "RELEVO_SMTP_FROM": "hr@example.com"}
    return SmtpChannel(settings_from_environment(environment))


@given(st.emails(), st.integers())
def test_a_choice_is_the_same_for_the_same_address_and_seed(address, seed):
    assert choose(address, seed) == choose(address.upper(), seed)


def test_choices_follow_the_shares():
    drawn = Counter(
        choose(address, 7, Shares(temporary=0.25, permanent=0.05)) for address in PEOPLE
    )

    assert drawn[Choice.TEMPORARY] == pytest.approx(1000, rel=0.15)
    assert drawn[Choice.PERMANENT] == pytest.approx(200, rel=0.3)
    assert drawn.total() == 4000


def test_another_seed_draws_other_addresses():
    assert [choose(a, 1) for a in PEOPLE] != [choose(a, 2) for a in PEOPLE]


def test_an_address_meets_what_was_drawn_for_it():
    temper = by_share(7, times=3)
    expected = {
        Choice.ACCEPT: Temper(),
        Choice.TEMPORARY: Temper(refuse_first=3),
        Choice.PERMANENT: Temper(refuse=True),
    }

    assert all(temper(address) == expected[choose(address, 7)] for address in PEOPLE)


async def test_every_message_is_on_disk_before_it_is_answered(tmp_path):
    log = tmp_path / "deliveries.jsonl"
    with Sink(log=log) as sink:
        async with channel_to(sink) as channel:
            for address in PEOPLE[:3]:
                await channel.send(a_mail(address))
                last = json.loads(log.read_text(encoding="utf-8").splitlines()[-1])
                assert last["recipient"] == address
                assert last["message_id"] == a_mail(address).message_id

        assert sink.wait_for(3, timeout=0)
        assert [message.recipient for message in sink.received] == PEOPLE[:3]
        assert all(message.content == b"" for message in sink.received)


async def test_a_sink_counts_its_refusals():
    everybody = by_share(1, Shares(temporary=1.0, permanent=0.0), times=2)
    nobody = by_share(1, Shares(temporary=0.0, permanent=1.0))
    with Sink(everybody) as later, Sink(nobody) as never:
        async with channel_to(later) as channel:
            for _ in range(3):
                await channel.send(a_mail())
        async with channel_to(never) as channel:
            await channel.send(a_mail())

    assert (later.refused_for_now, later.refused_for_good, len(later.received)) == (2, 0, 1)
    assert (never.refused_for_now, never.refused_for_good, len(never.received)) == (0, 1, 0)


def test_a_sink_that_is_down_refuses_connections_and_comes_back_on_its_port():
    with Sink() as sink:
        host, port = sink.url.removeprefix("smtp://").split(":")
        sink.down()
        sink.down()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), 5)
        sink.up()
        sink.up()

        with socket.create_connection((host, int(port)), 5) as connection:
            assert connection.recv(3) == b"220"


def test_a_sink_that_stops_breaks_its_connections():
    with Sink() as sink:
        host, port = sink.url.removeprefix("smtp://").split(":")
        connection = socket.create_connection((host, int(port)), 5)
        assert connection.recv(3) == b"220"

    connection.settimeout(5)
    try:
        while connection.recv(100):
            pass
    except ConnectionResetError:
        pass
    connection.close()
