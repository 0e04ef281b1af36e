"""Encryption and login against a real server with throw-away certificates."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trustme
from aiosmtpd.smtp import SMTP, AuthResult
from smtp_scripted import a_mail, some_settings

from relevo.integrations.smtp import ChannelDown, Delivered, Secret, SmtpChannel, Tls
from relevo.integrations.smtp.sink import LocalServer

PASSWORD = "correct ñ horse"  # noqa: S105 -- a test's


class Keeps:
    """Counts the messages that come in over TLS, logged in or not."""

    def __init__(self) -> None:
        self.encrypted: list[bool] = []
        self.logins: list[bytes] = []

    async def handle_DATA(self, server, session, envelope) -> str:  # noqa: N802 -- aiosmtpd's name
        self.encrypted.append(server.transport.get_extra_info("sslcontext") is not None)
        return "250 taken"

    def authenticate(self, server, session, envelope, mechanism, data) -> AuthResult:
        self.logins.append(data.login)
        right = data.password == PASSWORD.encode()
        return AuthResult(success=right, handled=False)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority, tmp_path):
    file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    return file


@contextmanager
def server(certificate: trustme.LeafCert, keeps: Keeps, *, implicit: bool) -> Iterator[LocalServer]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)

    def make(loop) -> SMTP:
        return SMTP(
            keeps,
            hostname="localhost",
            loop=loop,
            tls_context=None if implicit else context,
            require_starttls=not implicit,
            # aiosmtpd only knows that STARTTLS happened, not that TLS was there before.
            auth_require_tls=not implicit,
            authenticator=keeps.authenticate,
        )

    running = LocalServer(make, tls=context if implicit else None)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def settings(port: int, tls: Tls, **changes):
    return some_settings(port, **{"tls": tls} | changes)


BOTH = pytest.mark.parametrize("tls", [Tls.IMPLICIT, Tls.STARTTLS])


@BOTH
async def test_a_trusted_server_gets_the_mail_encrypted_and_the_login(authority, trusted, tls):
    keeps = Keeps()
    login = {"user": "hr", "password": Secret(PASSWORD)}
    certificate = authority.issue_cert("127.0.0.1")
    with server(certificate, keeps, implicit=tls is Tls.IMPLICIT) as running:
        async with SmtpChannel(settings(running.port, tls, ca_file=trusted, **login)) as channel:
            first = await channel.send(a_mail())
            second = await channel.send(a_mail())

    assert isinstance(first, Delivered)
    assert isinstance(second, Delivered)
    assert keeps.encrypted == [True, True]
    assert keeps.logins == [b"hr"]


@BOTH
async def test_a_certificate_of_an_unknown_authority_is_an_outage(authority, tls):
    keeps = Keeps()
    with server(authority.issue_cert("127.0.0.1"), keeps, implicit=tls is Tls.IMPLICIT) as running:
        async with SmtpChannel(settings(running.port, tls)) as channel:
            delivery = await channel.send(a_mail())

    assert isinstance(delivery, ChannelDown)
    assert "certificate that is not trusted" in delivery.reason
    assert keeps.encrypted == []


@BOTH
async def test_a_certificate_for_another_name_is_an_outage(authority, trusted, tls):
    keeps = Keeps()
    certificate = authority.issue_cert("mail.example.com")
    with server(certificate, keeps, implicit=tls is Tls.IMPLICIT) as running:
        async with SmtpChannel(settings(running.port, tls, ca_file=trusted)) as channel:
            delivery = await channel.send(a_mail())

    assert isinstance(delivery, ChannelDown)
    assert "127.0.0.1" in delivery.reason


@BOTH
async def test_a_wrong_password_is_an_outage_that_shows_no_password(authority, trusted, tls):
    keeps = Keeps()
    login = {"user": "hr", "password": Secret("wrong one")}
    certificate = authority.issue_cert("127.0.0.1")
    with server(certificate, keeps, implicit=tls is Tls.IMPLICIT) as running:
        async with SmtpChannel(settings(running.port, tls, ca_file=trusted, **login)) as channel:
            delivery = await channel.send(a_mail())

    assert isinstance(delivery, ChannelDown)
    assert "535" in delivery.reason
    assert "wrong one" not in delivery.reason
    assert keeps.encrypted == []


async def test_tls_spoken_to_a_server_that_knows_none_is_an_outage(authority):
    with server(authority.issue_cert("127.0.0.1"), Keeps(), implicit=False) as running:
        async with SmtpChannel(settings(running.port, Tls.IMPLICIT)) as channel:
            delivery = await channel.send(a_mail())

    assert isinstance(delivery, ChannelDown)
    assert "TLS" in delivery.reason
