"""Read a channel's settings from a URL and from environment variables.

An error names the variable and never repeats its value: what stands where the
port should be may be the end of a password.
"""

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from relevo.integrations.smtp.errors import BadMailbox, BadMailSetting
from relevo.integrations.smtp.mailbox import Mailbox
from relevo.integrations.smtp.routing import AllowList, Routing
from relevo.integrations.smtp.settings import (
    DEFAULT_CONNECTIONS,
    Rate,
    Secret,
    SmtpSettings,
    Timeouts,
    Tls,
    is_loopback,
)

URL: Final = "RELEVO_SMTP_URL"
FROM: Final = "RELEVO_SMTP_FROM"

T = TypeVar("T")

_SCHEMES: Final = {"smtp": 587, "smtps": 465}
_OPTIONS: Final = {"starttls", "plain_auth", "ca"}
_RATE = re.compile(r"(?P<mails>\d+(\.\d+)?)(/(?P<unit>s|sec|second|m|min|minute|h|hour))?")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600}
_ENCODE: Final = "percent-encode @ : / ? # in the user and the password"


def settings_from_environment(environment: Mapping[str, str] | None = None) -> SmtpSettings:
    """Read every variable of the channel.

    Args:
        environment: The variables; None takes the process's own.

    Raises:
        BadMailSetting: A variable is missing or cannot be used; its value is not repeated.
    """
    env = os.environ if environment is None else environment
    if not (url := env.get(URL, "").strip()):
        raise BadMailSetting(
            name=URL, problem="is not set", remedy="set it, as in smtp://user:password@host:587"
        )
    if not (sent_by := env.get(FROM, "").strip()):
        raise BadMailSetting(
            name=FROM, problem="is not set", remedy="set it, as in Evaluations <hr@example.com>"
        )
    sender = _mailbox(FROM, sent_by)
    return _settings(url, sender, env)


def settings_from_url(url: str, sender: Mailbox) -> SmtpSettings:
    """Read a URL alone: `smtp://user:password@host:587?starttls=required` or `smtps://…`.

    Args:
        url: The scheme says how TLS starts; user and password are percent-encoded.
        sender: Who the mails are from.

    Raises:
        BadMailSetting: The URL cannot be used; it is not repeated.
    """
    return _settings(url, sender, {})


def _settings(url: str, sender: Mailbox, env: Mapping[str, str]) -> SmtpSettings:
    parts, port = _split(url)
    options = _options(parts.query)
    host = parts.hostname or ""
    return SmtpSettings(
        host=host,
        port=port or _SCHEMES[parts.scheme],
        sender=sender,
        tls=_tls(parts.scheme, host, options.get("starttls", "")),
        user=unquote(parts.username or ""),
        password=_password(unquote(parts.password or ""), env),
        plain_auth=_one_of("plain_auth", options, {"": False, "refuse": False, "allow": True}),
        ca_file=Path(options["ca"]) if "ca" in options else None,
        helo=env.get("RELEVO_SMTP_HELO", ""),
        rate=_rate(env),
        connections=_whole("RELEVO_SMTP_CONNECTIONS", env, DEFAULT_CONNECTIONS),
        timeouts=_timeouts(env),
        routing=_routing(env),
    )


def _split(url: str) -> tuple[SplitResult, int | None]:
    """Take the URL apart without ever quoting a piece of it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise BadMailSetting(name=URL, problem="is not a URL", remedy=_ENCODE) from None
    if parts.scheme not in _SCHEMES:
        raise BadMailSetting(
            name=URL, problem="begins with neither smtp:// nor smtps://", remedy="use one of them"
        )
    if not parts.hostname:
        raise BadMailSetting(name=URL, problem="names no host", remedy=_ENCODE)
    if parts.path not in {"", "/"} or parts.fragment:
        raise BadMailSetting(name=URL, problem="goes on after the host and port", remedy=_ENCODE)
    return parts, port


def _options(query: str) -> dict[str, str]:
    try:
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=True))
    except ValueError:
        options = {"": ""} if query else {}
    if not options.keys() <= _OPTIONS:
        raise BadMailSetting(
            name=URL,
            problem="has an option that is not known",
            remedy="use ca, plain_auth or starttls, and percent-encode @ : / ? # in the user "
            "and the password",
        )
    return options


def _tls(scheme: str, host: str, starttls: str) -> Tls:
    if scheme == "smtps":
        return Tls.IMPLICIT
    by_default = Tls.OFF if is_loopback(host) else Tls.STARTTLS
    choices = {"": by_default, "required": Tls.STARTTLS, "off": Tls.OFF}
    return _one_of("starttls", {"starttls": starttls}, choices)


def _one_of(name: str, options: Mapping[str, str], choices: Mapping[str, T]) -> T:
    given = options.get(name, "")
    if given not in choices:
        raise BadMailSetting(
            name=URL,
            problem="has an option with an unknown value",
            remedy="write starttls=required or starttls=off, and plain_auth=refuse or "
            "plain_auth=allow",
        )
    return choices[given]


def _password(in_url: str, env: Mapping[str, str]) -> Secret:
    """Take the password from its own variable, its file, or the URL, in this order."""
    if password := env.get("RELEVO_SMTP_PASSWORD", ""):
        return Secret(password)
    if not (file := env.get("RELEVO_SMTP_PASSWORD_FILE", "")):
        return Secret(in_url)
    try:
        return Secret(Path(file).read_text(encoding="utf-8").rstrip("\r\n"))
    except (OSError, UnicodeDecodeError):
        raise BadMailSetting(
            name="RELEVO_SMTP_PASSWORD_FILE",
            problem="names a file that cannot be read as text",
            remedy="give a file that this user can read",
        ) from None


def _mailbox(name: str, text: str) -> Mailbox:
    try:
        return Mailbox.parse(text)
    except BadMailbox:
        raise BadMailSetting(
            name=name,
            problem="holds no mail address",
            remedy="write ana@example.com or Ana <ana@example.com>",
        ) from None


def _routing(env: Mapping[str, str]) -> Routing:
    redirect = env.get("RELEVO_MAIL_REDIRECT", "").strip()
    allow = env.get("RELEVO_MAIL_ALLOW", "").strip()
    return Routing(
        redirect=_mailbox("RELEVO_MAIL_REDIRECT", redirect) if redirect else None,
        allow=_allow(allow) if allow else None,
    )


def _allow(text: str) -> AllowList:
    try:
        return AllowList.parse(text)
    except BadMailbox:
        raise BadMailSetting(
            name="RELEVO_MAIL_ALLOW",
            problem="has an entry that is neither an address nor a domain",
            remedy="write entries such as ana@example.com and example.com, with commas between",
        ) from None


def _rate(env: Mapping[str, str]) -> Rate | None:
    text = env.get("RELEVO_SMTP_RATE", "").replace(" ", "")
    if not text:
        return None
    found = _RATE.fullmatch(text)
    if not found or not float(found["mails"]):
        raise BadMailSetting(
            name="RELEVO_SMTP_RATE", problem="is not a rate", remedy="write 10/s, 300/min or 5000/h"
        )
    unit = (found["unit"] or "s")[0]
    return Rate(float(found["mails"]), timedelta(seconds=_UNITS[unit]))


def _timeouts(env: Mapping[str, str]) -> Timeouts:
    usual = Timeouts()
    return Timeouts(
        connect=_seconds("RELEVO_SMTP_CONNECT_TIMEOUT", env, usual.connect),
        reply=_seconds("RELEVO_SMTP_REPLY_TIMEOUT", env, usual.reply),
        message=_seconds("RELEVO_SMTP_MESSAGE_TIMEOUT", env, usual.message),
    )


def _seconds(name: str, env: Mapping[str, str], usual: timedelta) -> timedelta:
    text = env.get(name, "").strip().removesuffix("s")
    if not text:
        return usual
    if not re.fullmatch(r"\d{1,6}(\.\d+)?", text) or not float(text):
        raise BadMailSetting(
            name=name, problem="is not a number of seconds", remedy="write a number such as 30"
        )
    return timedelta(seconds=float(text))


def _whole(name: str, env: Mapping[str, str], usual: int) -> int:
    text = env.get(name, "").strip()
    if not text:
        return usual
    if not re.fullmatch(r"[1-9]\d{0,2}", text):
        raise BadMailSetting(
            name=name, problem="is not a number from 1 to 999", remedy="write a number such as 4"
        )
    return int(text)
