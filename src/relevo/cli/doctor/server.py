"""Checks of the server: version, clock, isolation, connections, sessions that idle."""

import time
from typing import Final

from relevo.cli.doctor.finding import Check, Finding, Patient, fail, first, ok, read, warn
from relevo.cli.language import gettext as _
from relevo.db.migrate.session import OLDEST_SERVER

CLOCK_APART: Final = 2.0
IDLE_FOR: Final = 60.0


def _server(patient: Patient) -> Finding:
    version, number, is_standby, _isolation, is_read_only, *_rest = first(
        patient.connection, "read_server"
    )
    if number < OLDEST_SERVER:
        return fail(
            _("PostgreSQL %(version)s is older than 15") % {"version": version},
            _("upgrade the server to PostgreSQL 15 or newer"),
        )
    if is_standby or is_read_only:
        return fail(
            _("PostgreSQL %(version)s takes no writes here") % {"version": version},
            _("give the DSN of the primary, with default_transaction_read_only off"),
        )
    return ok(_("PostgreSQL %(version)s takes writes") % {"version": version})


def _isolation(patient: Patient) -> Finding:
    level = first(patient.connection, "read_server")[3]
    if level != "read committed":
        return warn(
            _(
                "transactions begin as %(level)s, so an enqueue of yours may fail with "
                "40001 and has to be repeated"
            )
            % {"level": level},
            _("set default_transaction_isolation to 'read committed', or repeat on 40001"),
        )
    return ok(_("transactions begin as read committed"))


def _clock(patient: Patient) -> Finding:
    before = time.time()
    database = first(patient.connection, "read_server")[-1]
    after = time.time()
    # Where in the round trip the server looked at its clock is unknown.
    apart = max(0.0, before - database, database - after)
    values = {"seconds": f"{apart:.1f}"}
    if apart > CLOCK_APART:
        return warn(
            _("the clocks of this machine and of the database are %(seconds)s s apart") % values,
            _("synchronise both with NTP; due times follow the database's clock"),
        )
    return ok(_("the clocks are less than %(seconds)s s apart") % {"seconds": f"{CLOCK_APART:.0f}"})


def _connections(patient: Patient) -> Finding:
    most, left, *limits = first(patient.connection, "read_connections")
    values = {"left": left, "most": most, "needs": patient.needs}
    small = [limit for limit in limits if 0 <= limit < patient.needs]
    if left < patient.needs or small:
        return warn(
            _(
                "%(left)d of %(most)d connections are free, and a worker may open %(needs)d; "
                "the login or the database may allow even fewer"
            )
            % values,
            _("raise max_connections or the CONNECTION LIMIT, or end sessions nobody needs"),
        )
    return ok(_("%(left)d of %(most)d connections are free; a worker may open %(needs)d") % values)


def _idle_transactions(patient: Patient) -> Finding:
    rows = read(patient.connection, "read_oldest_transaction")
    if rows and rows[0][1] > IDLE_FOR:
        pid, seconds, name = rows[0]
        return warn(
            _("process %(pid)d (%(name)s) has idled in its transaction for %(seconds)d s")
            % {"pid": pid, "name": name, "seconds": seconds},
            _(
                "end it with SELECT pg_terminate_backend(%(pid)d), and set "
                "idle_in_transaction_session_timeout for that application"
            )
            % {"pid": pid},
        )
    return ok(_("no session idles in a transaction"))


CHECKS: Final = (
    Check("server", "server", _server, needs_schema=False),
    Check("isolation", "isolation", _isolation, needs_schema=False),
    Check("clock", "clock", _clock, needs_schema=False),
    Check("connections", "connections", _connections, needs_schema=False),
    Check("idle_transactions", "idle transactions", _idle_transactions, needs_schema=False),
)
