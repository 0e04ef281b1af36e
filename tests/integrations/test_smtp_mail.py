"""What a mail may hold, how it is written, and the name it keeps."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.header import decode_header, make_header
from email.utils import parseaddr, parsedate_to_datetime
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from smtp_scripted import a_mail

from relevo.integrations.smtp import BadMail, BadMailbox, Mail, Mailbox, message_id
from relevo.integrations.smtp.render import envelope
from relevo.model.outcome import PermanentError

NOW = datetime(2025, 3, 4, 5, 6, 7, tzinfo=UTC)
SENDER = Mailbox.parse("Gestión de personas <rrhh@example.com>")


def read_back(mail: Mail, sender: Mailbox = SENDER):
    return message_from_bytes(envelope(mail, sender, NOW).content, policy=policy.default)


def test_a_mail_is_written_with_its_accents_dates_and_marks():
    mail = Mail(
        to=Mailbox("jose@example.com", "Núñez, José"),
        subject="Evaluación pendiente: ¡última semana!",
        text="Hola, José:\n\nte esperan 3 evaluaciones.",
        html="<p>Hola, José</p>",
        language="es",
        message_id="<a@example.com>",
        reply_to=Mailbox("ayuda@example.com", "Ayuda, día y noche"),
        headers={"X-Ciclo": "año 2025"},
    )

    read = read_back(mail)

    assert read["To"].addresses[0].display_name == "Núñez, José"
    assert read["To"].addresses[0].addr_spec == "jose@example.com"
    assert read["From"].addresses[0].display_name == "Gestión de personas"
    assert read["Subject"] == mail.subject
    assert read["Message-ID"] == "<a@example.com>"
    assert read["Reply-To"].addresses[0].display_name == "Ayuda, día y noche"
    assert read["X-Ciclo"] == "año 2025"
    assert parsedate_to_datetime(read["Date"]) == NOW
    assert read["Auto-Submitted"] == "auto-generated"
    assert read["Content-Language"] == "es"
    assert read.get_body(("plain",)).get_content().splitlines() == mail.text.splitlines()
    assert read.get_body(("html",)).get_content().strip() == mail.html


NAMES = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=80)


HEADERS = [
    *("From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "Content-Language"),
    *("Content-Type", "Content-Transfer-Encoding", "MIME-Version"),
]


def head(mail: Mail) -> list[str]:
    """The names of the headers as a server sees them: a line that is no continuation."""
    lines = envelope(mail, SENDER, NOW).content.split(b"\r\n\r\n")[0].split(b"\r\n")
    assert all(line.strip() for line in lines)
    assert not any(b"\n" in line or b"\r" in line or len(line) > 998 for line in lines)
    return [line.split(b":")[0].decode() for line in lines if not line.startswith(b" ")]


def decoded(text: str) -> str:
    return str(make_header(decode_header(text)))


def squeezed(text: str) -> str:
    """Folding may move spaces; nothing else may change."""
    return "".join(text.split())


@given(subject=NAMES, name=NAMES)
@example(subject="a, b; c: d", name='Núñez, José (RH) "Pepe" <x@y>')
@example(subject="=?utf-8?q?=0ABcc:_x?=", name="=?utf-8?q?=0ABcc:_x?=")
def test_a_subject_and_a_name_come_out_as_they_went_in(subject, name):
    """Mechanism: headers.py only encodes; EmailMessage would decode the examples into headers."""
    mail = a_mail(subject=subject, name=name)

    written = envelope(mail, SENDER, NOW).content
    read = message_from_bytes(written, policy=policy.compat32)

    assert head(mail) == HEADERS
    shown, address = parseaddr(read["To"])
    assert address == "ana@example.com"
    assert squeezed(decoded(shown)) == squeezed(name)
    assert squeezed(decoded(read["Subject"])) == squeezed(subject)


@given(subject=NAMES, text=st.text(st.characters(exclude_categories=("Cs",)), max_size=300))
def test_whatever_a_mail_accepts_comes_out_as_one_mail_to_one_person(subject, text):
    """Mechanism: the checks of Mail and quoted-printable bodies."""
    try:
        mail = a_mail(subject=subject, text=text)
    except BadMail:
        assert "\0" in text
        return

    written = envelope(mail, SENDER, NOW).content
    read = message_from_bytes(written, policy=policy.default)

    assert head(mail) == HEADERS
    assert read["To"] == "ana@example.com"
    assert read["Message-ID"] == mail.message_id
    assert written.isascii()
    assert max(len(line) for line in written.split(b"\r\n")) <= 998
    assert b"\n" not in written.replace(b"\r\n", b"")
    assert b"\r" not in written.replace(b"\r\n", b"")
    body = read.get_content().replace("\r\n", "\n").replace("\r", "\n")
    assert body.removesuffix("\n") == text.replace("\r\n", "\n").replace("\r", "\n").removesuffix(
        "\n"
    )


@pytest.mark.parametrize("breaker", ["\r\n", "\n", "\r", "\0", "\v", "\x85", "\u2028", "\ud800"])
def test_a_control_character_in_a_header_is_refused_before_anything_is_sent(breaker):
    evil = f"x{breaker}Bcc: everybody@example.com"

    with pytest.raises(BadMail, match="the mail's subject has"):
        a_mail(subject=evil)
    with pytest.raises(BadMail, match="the mail's header X-Note has"):
        a_mail(headers={"X-Note": evil})
    with pytest.raises(BadMail, match="the mail's header 'X-"):
        a_mail(headers={f"X-{breaker}": "x"})
    with pytest.raises(BadMailbox):
        Mailbox("ana@example.com", evil)
    with pytest.raises(BadMailbox):
        Mailbox(f"ana{breaker}@example.com")
    with pytest.raises(BadMail, match="message_id"):
        a_mail(message_id=f"<a{breaker}@b>")
    with pytest.raises(BadMail, match="language"):
        a_mail(language=f"es{breaker}")


@pytest.mark.parametrize("name", ["Bcc", "to", "FROM", "Message-ID", "Content-Type", "Date"])
def test_a_header_that_relevo_writes_cannot_be_given(name):
    with pytest.raises(BadMail, match="written by relevo"):
        a_mail(headers={name: "x"})


def test_a_bad_mail_ends_its_job_at_once():
    assert issubclass(BadMail, PermanentError)
    assert issubclass(BadMailbox, PermanentError)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ana",
        "@example.com",
        "ana@",
        "ana @example.com",
        "ana@exa mple.com",
        "ana@example..com",
        ".ana@example.com",
        "a..b@example.com",
        "ana@-example.com",
        "ana@[10.0.0.1]",
        '"ana b"@example.com',
        "ana@example.com>",
        "ana@example.com SIZE=1",
        "ana,bob@example.com",
        "a@b@example.com",
        "x" * 65 + "@example.com",
        "ana@" + "x" * 70 + ".com",
        "ana@" + "abcd." * 60 + "com",
    ],
)
def test_an_address_that_no_server_could_be_asked_about_is_refused(address):
    with pytest.raises(BadMailbox):
        Mailbox(address)


@pytest.mark.parametrize(
    ("address", "wire", "needs_utf8"),
    [
        ("o'brien+hr@Example.COM", "o'brien+hr@example.com", False),
        ("ana@localhost", "ana@localhost", False),
        ("ana@münchen.example", "ana@xn--mnchen-3ya.example", False),
        ("ñandú@example.com", "ñandú@example.com", True),
        # IDNA 2003 would make strasse of it, which is somebody else's domain.
        ("ana@straße.example", "ana@straße.example", True),
    ],
)
def test_a_domain_travels_as_ascii_where_it_stays_the_same_domain(address, wire, needs_utf8):
    mailbox = Mailbox(address)

    assert mailbox.wire == wire
    assert mailbox.needs_utf8 is needs_utf8


def test_an_accented_address_is_written_raw_for_a_server_with_smtputf8():
    written = envelope(a_mail("ñandú@example.com"), SENDER, NOW)

    assert written.needs_utf8
    assert "To: ñandú@example.com\r\n".encode() in written.content


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ana@example.com", Mailbox("ana@example.com")),
        ("Ana <ana@example.com>", Mailbox("ana@example.com", "Ana")),
        ('"Núñez, Ana" <ana@example.com>', Mailbox("ana@example.com", "Núñez, Ana")),
    ],
)
def test_a_mailbox_is_read_from_the_usual_spellings(text, expected):
    assert Mailbox.parse(text) == expected


def test_a_long_message_id_is_not_folded():
    domain = ".".join(["department"] * 12) + ".example.com"
    identity = message_id(UUID(int=1), "k", 1, 2, domain=domain)

    written = envelope(a_mail(message_id=identity), SENDER, NOW).content

    assert f"Message-ID: {identity}\r\n".encode() in written


IDENTITY = (UUID("7d444840-9dc0-11d1-b245-5ffdce74fad2"), "cycle.dispatched", UUID(int=5), "p-7")


def test_a_mail_keeps_its_name_on_every_try_in_every_process_and_version():
    golden = "<61815e8b-e486-5502-9545-a2ec048dd02b@example.com>"
    script = (
        "from uuid import UUID; from relevo.integrations.smtp import message_id; "
        f"print(message_id(*{IDENTITY!r}, domain='example.com'))"
    )

    elsewhere = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()

    assert message_id(*IDENTITY, domain="example.com") == elsewhere == golden


@given(
    st.lists(
        st.tuples(st.uuids(), st.text(max_size=9), st.uuids(), st.text(max_size=9), st.integers()),
        min_size=2,
        max_size=5,
        unique=True,
    )
)
def test_different_mails_have_different_names(identities):
    assert len({message_id(*identity) for identity in identities}) == len(identities)


def test_a_wanted_repetition_has_a_name_of_its_own():
    assert message_id(*IDENTITY) != message_id(*IDENTITY, occurrence=1)


def test_no_personal_data_can_be_read_from_a_name():
    assert "ana" not in message_id(UUID(int=1), "k", 1, "ana@example.com").partition("@")[0]
