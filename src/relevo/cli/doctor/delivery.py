"""Checks of delivery itself: the worker's session, the claim's plan, LISTEN, who works."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from uuid import uuid4

import psycopg
from psycopg import sql

from relevo.api import perform
from relevo.cli.database import reason_of
from relevo.cli.doctor.finding import Check, Connection, Finding, Patient, fail, ok, read, warn
from relevo.cli.language import gettext as _
from relevo.cli.language import ngettext
from relevo.db.connect import with_patience
from relevo.db.dsn import ENGINE_SETTINGS, WORKER_ROLE
from relevo.engine.jobs import inspect
from relevo.engine.jobs.claim import claim
from relevo.model.ring import Ring

CLAIM_INDEX: Final = "jobs_claim"
HEARD_WITHIN: Final = 3.0


def _session(patient: Patient) -> Finding:
    with patient.database.connect(WORKER_ROLE, settings=ENGINE_SETTINGS) as connection:
        rows = read(connection, "read_session", {"settings": list(ENGINE_SETTINGS)})
    user = rows[0][0]
    lost = [name for _user, name, value in rows if value != ENGINE_SETTINGS[name]]
    if user != WORKER_ROLE or lost:
        return fail(
            _("a worker's session works as %(user)s and does not keep: %(names)s")
            % {"user": user, "names": ", ".join(lost) or "role"},
            _(
                "a pooler drops the start-up options: let it pass `options`, or set role and "
                "settings with ALTER ROLE on the worker's own login"
            ),
        )
    return ok(_("a worker's session has its role and its settings"))


def _claim_plan(patient: Patient) -> Finding:
    with patient.database.connect(WORKER_ROLE, settings=ENGINE_SETTINGS) as connection:
        plan = _explain_claim(connection)
    bad = [
        f"{node['Node Type']} ({node.get('Index Name') or node.get('Relation Name') or '-'})"
        for node in _nodes(plan)
        if _is_bad(node)
    ]
    if bad:
        return fail(
            _("the claim does not walk its index: %(nodes)s") % {"nodes": ", ".join(bad)},
            _("see the checks `indexes` and `session`, then ANALYZE relevo.jobs"),
        )
    return ok(_("the claim walks its index without a sort"))


def _explain_claim(connection: Connection) -> Mapping[str, Any]:
    """Plan the claim as a worker does, prepared and without its values; runs nothing."""
    statement = next(claim(0, "default", [], 1, Ring())).statement
    name = sql.Identifier(f"relevo_doctor_{uuid4().hex}")
    values = sql.SQL(", ").join([sql.SQL("NULL")] * len(statement.parameters))
    # One transaction, so that a pooler keeps the three statements on one server session.
    with connection.transaction():
        connection.execute(b"PREPARE %b AS %b" % (name.as_bytes(), statement.numbered.encode()))
        explain = sql.SQL("EXPLAIN (FORMAT JSON) EXECUTE {} ({})").format(name, values)
        rows = connection.execute(explain).fetchall()
        connection.execute(sql.SQL("DEALLOCATE {}").format(name))
    found = rows[0][0]
    plans = json.loads(found) if isinstance(found, str) else found
    plan: Mapping[str, Any] = plans[0]["Plan"]
    return plan


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _is_bad(node: Mapping[str, Any]) -> bool:
    if node["Node Type"] in {"Sort", "Incremental Sort"}:
        return True
    if node.get("Relation Name") != "jobs" or node["Node Type"] in {"ModifyTable", "Tid Scan"}:
        return "Bitmap" in node["Node Type"]
    return node.get("Index Name") != CLAIM_INDEX


def _listen(patient: Patient) -> Finding:
    database = patient.database
    if database.listen_dsn == "":
        return warn(
            _("LISTEN is switched off, so an idle worker finds jobs only when it polls"),
            _("set RELEVO_LISTEN_DSN to a direct connection if that is too slow"),
        )
    fix = _(
        "give a direct connection with RELEVO_LISTEN_DSN or --listen-dsn, "
        "or an empty one to poll only"
    )
    try:
        listener = psycopg.connect(
            with_patience(database.listen_dsn or database.dsn), autocommit=True
        )
    except psycopg.OperationalError as error:
        return warn(_("no connection for LISTEN: %(reason)s") % {"reason": reason_of(error)}, fix)
    channel = f"relevo_doctor_{uuid4().hex}"
    with listener:
        listener.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        patient.connection.execute("SELECT pg_notify(%s, '')", [channel])
        heard = any(
            note.channel == channel
            for note in listener.notifies(timeout=HEARD_WITHIN, stop_after=1)
        )
    if not heard:
        return warn(
            _(
                "a notification did not arrive: a pooler between here and the server, or another "
                "database; an idle worker finds jobs only when it polls"
            ),
            fix,
        )
    return ok(_("a notification arrives"))


def _workers(patient: Patient) -> Finding:
    with patient.database.connect(WORKER_ROLE) as connection:
        workers = perform(connection, inspect.list_workers())
    live = [worker for worker in workers if worker.is_live and not worker.stopping]
    if not live:
        return warn(_("no worker is running"), _("start one with `relevo worker`"))
    queues = sorted({queue for worker in live for queue in worker.queues})
    text = ngettext(
        "%(count)d worker serves %(queues)s",
        "%(count)d workers serve %(queues)s",
        len(live),
    )
    return ok(text % {"count": len(live), "queues": ", ".join(queues)})


CHECKS: Final = (
    Check("session", "worker's session", _session),
    Check("claim_plan", "claim's plan", _claim_plan),
    Check("listen", "LISTEN", _listen, needs_schema=False),
    Check("workers", "workers", _workers),
)
