"""Settings from a URL and from the environment; no error shows what it could not read."""

import pickle
import traceback
from datetime import timedelta

import pytest
from smtp_scripted import some_settings

from relevo.integrations.smtp import (
    BadMailSetting,
    Mailbox,
    Rate,
    Secret,
    SmtpSettings,
    Timeouts,
    Tls,
    settings_from_environment,
    settings_from_url,
)

SENDER = Mailbox("hr@example.com")
PASSWORD = "pa:s@s/w#rd?ñ"  # noqa: S105 -- a test's
ENCODED = "pa%3As%40s%2Fw%23rd%3F%C3%B1"
USUAL = {"RELEVO_SMTP_URL": "smtp://127.0.0.1", "RELEVO_SMTP_FROM": "HR <hr@example.com>"}


def test_a_url_is_taken_apart():
    settings = settings_from_url(f"smtp://h%40r:{ENCODED}@mail.example.com:2525", SENDER)

    assert (settings.host, settings.port) == ("mail.example.com", 2525)
    assert (settings.user, settings.password.reveal()) == ("h@r", PASSWORD)
    assert settings.tls is Tls.STARTTLS


@pytest.mark.parametrize(
    ("url", "port", "tls"),
    [
        ("smtp://mail.example.com", 587, Tls.STARTTLS),
        ("smtp://mail.example.com?starttls=off", 587, Tls.OFF),
        ("smtp://mail.example.com:25/?starttls=required", 25, Tls.STARTTLS),
        ("smtps://mail.example.com", 465, Tls.IMPLICIT),
        ("smtp://localhost:1025", 1025, Tls.OFF),
        ("smtp://[::1]:1025", 1025, Tls.OFF),
        ("smtp://127.0.0.1:1025?starttls=required", 1025, Tls.STARTTLS),
    ],
)
def test_starttls_is_required_unless_the_server_is_this_machine(url, port, tls):
    settings = settings_from_url(url, SENDER)

    assert (settings.port, settings.tls) == (port, tls)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mail.example.com",
        "http://mail.example.com",
        "smtp://",
        "smtp://mail.example.com:port",
        "smtp://mail.example.com:99999",
        "smtp://mail.example.com?starttls=maybe",
        "smtp://mail.example.com?verify=off",
        "smtp://mail.example.com?nonsense",
        "smtp://[mail.example.com",
        # A password that was not percent-encoded lands anywhere in the URL.
        "smtp://hr:sEcr#et@mail.example.com:587",
        "smtp://hr:12#sEcret@mail.example.com:587",
        "smtp://hr:sEcr/et@mail.example.com:587",
        "smtp://hr:12/sEcret@mail.example.com:587",
        "smtp://hr:sEcr?et@mail.example.com:587",
        "smtp://hr:12?sEcret=1@mail.example.com:587",
        "smtp://hr:sEcr[et@mail.example.com:587",
        "smtp://hr:sEcret@mail.example.com:587?starttls=off",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_being_repeated(url):
    """Mechanism: errors name the variable only; quoting the bad port would quote the password."""
    with pytest.raises(BadMailSetting, match="RELEVO_SMTP_URL") as refused:
        settings_from_url(url, SENDER)

    told = "".join(traceback.format_exception(refused.value))
    source = traceback.extract_tb(refused.value.__traceback__)
    for frame in source:
        told = told.replace(frame.line or "", "")
    assert "Ecr" not in told
    assert "et@" not in told


def test_a_password_goes_unencrypted_to_another_machine_only_when_that_is_said():
    url = "smtp://hr:x@mail.example.com?starttls=off"

    with pytest.raises(BadMailSetting, match="unencrypted"):
        settings_from_url(url, SENDER)

    assert settings_from_url(f"{url}&plain_auth=allow", SENDER).plain_auth
    assert settings_from_url("smtp://hr:x@127.0.0.1", SENDER).user == "hr"


def test_a_password_is_shown_nowhere():
    settings = settings_from_url("smtps://hr:s3cret@mail.example.com", SENDER)

    assert "s3cret" not in f"{settings!r} {settings} {settings.password}"
    with pytest.raises(TypeError):
        pickle.dumps(settings.password)


def test_a_password_comes_from_its_variable_or_its_file(tmp_path):
    file = tmp_path / "password"
    file.write_text("from the file\n", encoding="utf-8")
    url = {"RELEVO_SMTP_URL": "smtps://hr:inside@mail.example.com"}

    inside = settings_from_environment(USUAL | url)
    filed = settings_from_environment(USUAL | url | {"RELEVO_SMTP_PASSWORD_FILE": str(file)})
    given = settings_from_environment(USUAL | url | {"RELEVO_SMTP_PASSWORD": "given"})

    assert inside.password.reveal() == "inside"
    assert filed.password.reveal() == "from the file"
    assert given.password.reveal() == "given"


def test_every_variable_is_read():
    settings = settings_from_environment(
        USUAL
        | {
            "RELEVO_SMTP_HELO": "me.example.com",
            "RELEVO_SMTP_RATE": "300/min",
            "RELEVO_SMTP_CONNECTIONS": "2",
            "RELEVO_SMTP_CONNECT_TIMEOUT": "1.5",
            "RELEVO_SMTP_REPLY_TIMEOUT": "2s",
            "RELEVO_SMTP_MESSAGE_TIMEOUT": "3",
            "RELEVO_MAIL_REDIRECT": "qa@example.com",
            "RELEVO_MAIL_ALLOW": "Ana@Example.com, example.org @example.net",
        }
    )

    assert settings.sender == Mailbox("hr@example.com", "HR")
    assert settings.greeting == "me.example.com"
    assert settings.rate == Rate(300, timedelta(minutes=1))
    assert settings.connections == 2
    assert settings.timeouts == Timeouts(*(timedelta(seconds=s) for s in (1.5, 2, 3)))
    assert settings.routing.redirect == Mailbox("qa@example.com")
    assert settings.routing.allow is not None
    assert settings.routing.allow.entries == {"ana@example.com", "@example.org", "@example.net"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RELEVO_SMTP_URL", ""),
        ("RELEVO_SMTP_FROM", ""),
        ("RELEVO_SMTP_FROM", "nobody"),
        ("RELEVO_SMTP_FROM", "H\nR <hr@example.com>"),
        ("RELEVO_SMTP_HELO", "two words"),
        ("RELEVO_SMTP_RATE", "fast"),
        ("RELEVO_SMTP_RATE", "0/s"),
        ("RELEVO_SMTP_RATE", "10/day"),
        ("RELEVO_SMTP_CONNECTIONS", "0"),
        ("RELEVO_SMTP_CONNECTIONS", "many"),
        ("RELEVO_SMTP_REPLY_TIMEOUT", "0"),
        ("RELEVO_SMTP_REPLY_TIMEOUT", "soon"),
        ("RELEVO_SMTP_PASSWORD_FILE", "/no/such/file"),
        ("RELEVO_MAIL_REDIRECT", "nobody"),
        ("RELEVO_MAIL_ALLOW", "ana@ example.org"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(name, value):
    with pytest.raises(BadMailSetting, match=name):
        settings_from_environment(USUAL | {name: value})


@pytest.mark.parametrize(
    ("rate", "bucket"),
    [
        (Rate(10, timedelta(seconds=1)), (10, 1)),
        (Rate(600, timedelta(minutes=1)), (10, 1)),
        (Rate(30, timedelta(minutes=1)), (1, 2)),
    ],
)
def test_a_rate_never_bursts_beyond_the_share_of_a_second(rate, bucket):
    assert rate.bucket == pytest.approx(bucket)


def test_a_file_of_certificates_that_cannot_be_read_is_said(tmp_path):
    empty = tmp_path / "empty.pem"
    empty.touch()

    for file in (empty, tmp_path / "missing.pem"):
        settings = some_settings(465, tls=Tls.IMPLICIT, ca_file=file)
        with pytest.raises(BadMailSetting, match="certificates"):
            settings.tls_context()


def test_an_empty_secret_says_so():
    assert repr(Secret()) == "Secret()"
    assert SmtpSettings(host="h", port=25, sender=SENDER).spelled_secrets() == ()
