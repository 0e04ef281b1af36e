"""Connection strings: whose session it is, and with which settings it begins.

Settings travel as start-up options, so that they hold from the first statement and
no statement has to repeat them.
"""

from collections.abc import Mapping
from typing import Final

from psycopg.conninfo import conninfo_to_dict, make_conninfo

WORKER_ROLE: Final = "relevo_worker"
WEB_ROLE: Final = "relevo_web"

# The claim must keep its plan though it was planned while the table was empty.
PLAN_SETTINGS: Final[Mapping[str, str]] = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}

# SKIP LOCKED helps only at this level, whatever the database's default is.
_LEVEL: Final = {
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
}

ENGINE_SETTINGS: Final[Mapping[str, str]] = {**_LEVEL, **PLAN_SETTINGS}

# A handler's statements are not the engine's: they are planned as anywhere else.
HANDLER_SETTINGS: Final[Mapping[str, str]] = {
    **_LEVEL,
    "plan_cache_mode": "auto",
    **dict.fromkeys(
        ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin"), "on"
    ),
}


def with_session(
    dsn: str,
    *,
    role: str | None = None,
    settings: Mapping[str, str] | None = None,
    application_name: str | None = None,
) -> str:
    """Answer the same connection string for another role and other session settings.

    Args:
        dsn: A libpq connection string or URI.
        role: The role that the session takes on at once; the login must be a member.
        settings: PostgreSQL settings by name.
        application_name: What `pg_stat_activity` shows.
    """
    parts = conninfo_to_dict(dsn)
    wanted = dict(settings or {})
    if role is not None:
        wanted["role"] = role
    given = parts.get("options")
    options = " ".join([*([str(given)] if given else []), *start_options(wanted)])
    if options:
        parts["options"] = options
    if application_name is not None:
        parts["application_name"] = application_name
    return make_conninfo("", **parts)


def start_options(settings: Mapping[str, str]) -> list[str]:
    """Answer settings as words of libpq's `options`, which a blank would end.

    Args:
        settings: PostgreSQL settings by name.
    """
    return [f"-c {_escape(f'{name}={value}')}" for name, value in settings.items()]


def _escape(word: str) -> str:
    return "".join(
        "\\" + letter if letter.isspace() or letter == "\\" else letter for letter in word
    )
