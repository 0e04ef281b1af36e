"""Every stage of the dialogue times every kind of answer, as docs/reference/mail.md says."""

import re
from pathlib import Path

import pytest
from smtp_scripted import IMPATIENT, OFFERS, a_mail, conversation, some_settings

from relevo.integrations.smtp import (
    ChannelDown,
    Delivered,
    Delivery,
    Mailbox,
    PermanentRefusal,
    Secret,
    SmtpChannel,
    TemporaryRefusal,
    Tls,
    connection,
)

PAGE = Path(__file__).parents[2] / "docs/reference/mail.md"
PASSWORD = "s3cret-of-nobody"  # noqa: S105 -- a test's


def table(name: str) -> list[list[str]]:
    """The rows of a table of the page, without its head."""
    block = PAGE.read_text(encoding="utf-8").split(f"<!-- table: {name} -->\n")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in block.splitlines()]
    return rows[2:]


ANSWERS = {"4xx": "450 4.2.1 not now", "5xx": "550 5.1.1 never", "drop": "drop", "stall": "stall"}
CELLS = [
    (stage, ANSWERS[answer], verdict)
    for stage, *verdicts in table("stages")
    for answer, verdict in zip(ANSWERS, verdicts, strict=True)
]
EXCEPTIONS = [(stage, answer, verdict) for stage, answer, verdict, _ in table("exceptions")]


def verdict_of(delivery: Delivery) -> str:
    match delivery:
        case Delivered():
            return "delivered"
        case TemporaryRefusal(code=None):
            return "unknown"
        case TemporaryRefusal():
            return "temporary"
        case PermanentRefusal():
            return "permanent"
        case ChannelDown():
            return "down"
    raise AssertionError(delivery)


async def ask(stage: str, answer: str) -> tuple[Delivery, list[bytes]]:
    changes = {
        "STARTTLS": {"tls": Tls.STARTTLS},
        "AUTH": {"user": "hr", "password": Secret(PASSWORD)},
        "QUIT": {"mails_per_connection": 1},
    }.get(stage, {})
    if answer == "stall":
        changes = changes | {"timeouts": IMPATIENT}
    offers = ("STARTTLS", *OFFERS) if stage == "STARTTLS" else OFFERS
    async with conversation({stage: answer}, offers=offers, **changes) as (server, channel):
        return await channel.send(a_mail()), server.lines


@pytest.mark.parametrize(("stage", "answer", "expected"), CELLS + EXCEPTIONS)
async def test_each_answer_at_each_stage_means_what_the_page_says(
    stage, answer, expected, monkeypatch
):
    """Mechanism: verdict.judge decides by stage and code; without it a 5xx at AUTH ends a job."""
    monkeypatch.setattr(connection, "_QUIT_TIMEOUT", 0.3)

    delivery, lines = await ask(stage, answer)

    assert verdict_of(delivery) == expected
    spoken = b"".join(lines).decode()
    assert stage == "connect" or stage.removesuffix("the final dot").split(" ")[0] in spoken


def test_the_page_has_every_stage_and_every_answer():
    assert len(CELLS) == 9 * 4


async def test_a_refusal_keeps_the_servers_own_words():
    delivery, _ = await ask("RCPT TO", "550 5.1.1 no such mailbox: ana")

    assert delivery == PermanentRefusal(550, "5.1.1 no such mailbox: ana")


async def test_the_reason_of_an_outage_names_the_server_and_the_stage():
    delivery, _ = await ask("AUTH", "535 5.7.8 bad credentials")

    assert isinstance(delivery, ChannelDown)
    assert re.fullmatch(
        r"127\.0\.0\.1:\d+ answered 535 5\.7\.8 bad credentials at AUTH; "
        r"check the user and password of RELEVO_SMTP_URL",
        delivery.reason,
    )


async def test_a_reply_that_repeats_the_password_does_not_show_it():
    delivery, lines = await ask("AUTH", f"535 you said {PASSWORD}")

    assert isinstance(delivery, ChannelDown)
    assert b"AUTH PLAIN" in b"".join(lines)
    assert PASSWORD not in delivery.reason


async def test_a_reply_of_broken_bytes_becomes_text_that_a_row_can_hold():
    delivery, _ = await ask("RCPT TO", "550 caf\udce9 \0 " + "x" * 3000)

    assert isinstance(delivery, PermanentRefusal)
    delivery.text.encode()
    assert "\0" not in delivery.text
    assert len(delivery.text) <= 400


async def test_a_reply_of_several_lines_becomes_one():
    delivery, _ = await ask("RCPT TO", "550-5.7.1 first\r\n550 5.7.1 second")

    assert delivery == PermanentRefusal(550, "5.7.1 first 5.7.1 second")


async def test_a_server_that_only_knows_helo_is_spoken_to():
    async with conversation({"EHLO": "500 what?", "HELO": "250 hello"}) as (_, channel):
        delivery = await channel.send(a_mail())

    assert isinstance(delivery, Delivered)


async def test_a_server_without_starttls_is_not_given_the_mail():
    async with conversation(tls=Tls.STARTTLS) as (server, channel):
        delivery = await channel.send(a_mail())

    assert isinstance(delivery, ChannelDown)
    assert "STARTTLS" in delivery.reason
    assert not any(line.startswith(b"MAIL") for line in server.lines)


async def test_a_name_that_does_not_resolve_is_an_outage():
    async with SmtpChannel(some_settings(25, host="no-such-host.invalid")) as channel:
        delivery = await channel.send(a_mail())

    assert isinstance(delivery, ChannelDown)


async def test_an_accented_recipient_at_a_server_without_smtputf8_is_refused_for_good():
    async with conversation(offers=("SIZE 1000",)) as (_, channel):
        accented = await channel.send(a_mail("ñandú@example.com"))
        plain = await channel.send(a_mail())

    assert isinstance(accented, PermanentRefusal)
    assert isinstance(plain, Delivered)


async def test_an_accented_sender_at_a_server_without_smtputf8_is_an_outage():
    sender = Mailbox("señal@example.com")
    async with conversation(offers=("SIZE 1000",), sender=sender) as (_, channel):
        delivery = await channel.send(a_mail())

    assert isinstance(delivery, ChannelDown)


async def test_a_line_that_is_one_dot_does_not_end_the_message():
    """Mechanism: quoted-printable keeps the dot, dot-stuffing carries it."""
    async with conversation() as (server, channel):
        delivery = await channel.send(a_mail(text="before\n.\nafter"))
        lines = list(server.lines)

    assert isinstance(delivery, Delivered)
    assert lines[-3:] == [b"before\r\n", b"..\r\n", b"after\r\n"]
