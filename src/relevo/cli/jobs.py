"""`relevo jobs`: look at jobs, and try them again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from textwrap import indent
from typing import Any, Final, TypeVar
from uuid import UUID

import click
import psycopg

from relevo.api import perform
from relevo.cli.database import Database
from relevo.cli.declare import Whole, group, option
from relevo.cli.exits import Exit
from relevo.cli.job_views import (
    RETRYING,
    SCHEDULED,
    attempt_fields,
    attempt_row,
    job_fields,
    job_row,
    last_stack,
    said,
    say_standing,
)
from relevo.cli.language import gettext as _
from relevo.cli.language import ngettext, say_error
from relevo.cli.shell import Shell, options, pass_shell
from relevo.cli.tenancy import tenant_option
from relevo.cli.waiting import Pause, list_resting
from relevo.db.dsn import WEB_ROLE
from relevo.engine.jobs import again, inspect
from relevo.engine.jobs.errors import JobHeld, JobNotFound, KeyHeld
from relevo.engine.tenants import resolve_tenant
from relevo.errors import RelevoError
from relevo.model.job import JobState

F = TypeVar("F", bound=Callable[..., Any])

_BATCH: Final = 200
_LARGEST: Final = 2**63 - 1
"""A job's id is a bigint; nobody has a larger one."""

_APART: Final[dict[str, dict[str, Any]]] = {
    RETRYING: {"state": JobState.AVAILABLE, "retrying": True},
    SCHEDULED: {"state": JobState.AVAILABLE, "retrying": False, "due": False},
}
"""Available jobs that people see under a word of their own, told apart as `standing` does."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which jobs are meant.

    Attributes:
        state: A state, `RETRYING` or `SCHEDULED`.
        queue: Only of this queue.
        kind: Only of this kind.
        aggregate: Only of this aggregate.
    """

    state: str | None
    queue: str | None
    kind: str | None
    aggregate: str | None

    @property
    def is_empty(self) -> bool:
        """Whether every job is meant."""
        return self == Filter(None, None, None, None)

    def page(self, tenant_id: UUID, before: int | None, limit: int) -> Any:
        """Answer the operation that reads one page of them, newest first."""
        stands = _APART.get(self.state or "") or {"state": self.state and JobState(self.state)}
        return inspect.list_page(
            tenant_id,
            queue=self.queue,
            kind=self.kind,
            aggregate_id=self.aggregate,
            before=before,
            limit=limit,
            **stands,
        )


def _filter_options(function: F) -> F:
    states = [*(state.value for state in JobState), RETRYING, SCHEDULED]
    shared = [
        options(),
        option("--aggregate", metavar="ID", help="Only jobs about this: a cycle, an order."),
        option("--kind", metavar="NAME", help="Only jobs of this kind."),
        option("-q", "--queue", metavar="NAME", help="Only jobs of this queue."),
        option("--state", type=click.Choice(states), help="Only jobs that stand so."),
        tenant_option,
    ]
    for each in shared:
        function = each(function)
    return function


@group("jobs")
@options()
def jobs() -> None:
    """Look at jobs, and try them again."""


@jobs.command("list")
@_filter_options
@option(
    "--before", type=Whole(1), metavar="ID", help="Only jobs older than this one: the next page."
)
@option(
    "--limit",
    type=Whole(1, 1000),
    default=50,
    show_default=True,
    help="At most so many jobs.",
)
@pass_shell
def list_jobs(
    shell: Shell, /, *, tenant: str | None, before: int | None, limit: int, **wanted: str | None
) -> None:
    """List jobs, newest first."""
    with shell.database() as database:
        tenant_id = _tenant(database, tenant)
        with database.transaction(WEB_ROLE, tenant_id) as connection:
            page: inspect.JobPage = perform(
                connection, Filter(**wanted).page(tenant_id, before, limit)
            )
    if shell.out.as_json:
        shell.out.json({"jobs": [job_fields(job) for job in page.jobs], "before": page.before})
        return
    if not page.jobs:
        shell.out.note(_("no jobs"))
        return
    columns = [_("id"), _("state"), _("queue"), _("kind"), _("starts"), _("time"), _("last error")]
    shell.out.table(columns, [job_row(job) for job in page.jobs])
    if page.before is not None:
        shell.out.note(_("there are more; go on with --before %(id)d") % {"id": page.before})


@jobs.command("show")
@click.argument("job_id", type=Whole(), metavar="ID")
@tenant_option
@options()
@pass_shell
def show(shell: Shell, /, *, job_id: int, tenant: str | None) -> None:
    """Show one job with its payload and the history of its starts."""
    if not 0 <= job_id <= _LARGEST:
        raise JobNotFound(id=job_id)
    with shell.database() as database:
        tenant_id = _tenant(database, tenant)
        with database.transaction(WEB_ROLE, tenant_id) as connection:
            found = perform(connection, inspect.find(tenant_id, job_id))
    job, history = found.job, found.attempts
    if shell.out.as_json:
        details = {
            "archived_at": found.archived_at,
            "attempt": job.attempt,
            "excused": job.excused,
            "payload": job.payload,
            "result": job.result,
        }
        attempts = [attempt_fields(attempt) for attempt in history]
        shell.out.json({**job_fields(job), **details, "attempts": attempts})
        return
    shell.out.fields({**said(job), _("archived at"): found.archived_at})
    if history:
        shell.out.line()
        columns = [_("start"), _("outcome"), _("worker"), _("began"), _("ended"), _("error")]
        shell.out.table(columns, [attempt_row(attempt) for attempt in history])
    if (found_stack := last_stack(history)) is not None:
        start, stack = found_stack
        shell.out.line()
        shell.out.line(_("the stack of start %(start)d:") % {"start": start})
        shell.out.line(indent(stack, "    "))
    if found.archived_at is not None:
        shell.out.note(_("this job is in the archive, so it cannot be retried"))


@jobs.command("retry")
@click.argument("job_ids", type=Whole(), metavar="[ID]...", nargs=-1)
@_filter_options
@option("--yes", is_flag=True, help="Retry every job that the filter finds.")
@pass_shell
def retry(
    shell: Shell,
    /,
    *,
    job_ids: tuple[int, ...],
    tenant: str | None,
    yes: bool,
    **wanted: str | None,
) -> None:
    """Make jobs due now: those named, or with --yes all that a filter finds.

    A finished job gets all its starts anew and keeps its history. Without --state, a
    filter finds the failed ones.
    """
    meant = Filter(**wanted)
    if job_ids and not meant.is_empty:
        raise click.UsageError(
            _("name jobs by their ids or with a filter such as --kind, not both")
        )
    if not job_ids and meant.is_empty:
        raise click.UsageError(_("name jobs by their ids, or with a filter such as --kind"))
    with shell.database() as database:
        tenant_id = _tenant(database, tenant)
        if not job_ids:
            filtered = replace(meant, state=meant.state or JobState.FAILED)
            job_ids = _matching(database, tenant_id, filtered)
            if not job_ids:
                _say_none(shell, database, tenant_id, filtered)
                return
            if not yes:
                raise click.UsageError(
                    ngettext(
                        "the filter finds %(count)d job; add --yes to retry it",
                        "the filter finds %(count)d jobs; add --yes to retry them",
                        len(job_ids),
                    )
                    % {"count": len(job_ids)}
                )
        retried, refused = _retry(shell, database, tenant_id, job_ids)
        resting = _resting(database, tenant_id, retried)
    _report(shell, retried, refused)
    for pause in resting:
        shell.out.note(
            _("the queue %(queue)s is %(pause)s") % {"queue": pause.queue, "pause": pause.said}
        )
    if refused:
        worst = JobNotFound if all(isinstance(e, JobNotFound) for e in refused.values()) else None
        click.get_current_context().exit(Exit.NOT_FOUND if worst else Exit.CONFLICT)


def _matching(database: Database, tenant_id: UUID, meant: Filter) -> tuple[int, ...]:
    found: list[int] = []
    before: int | None = None
    with database.transaction(WEB_ROLE, tenant_id) as connection:
        while True:
            page: inspect.JobPage = perform(connection, meant.page(tenant_id, before, _BATCH))
            found += [job.id for job in page.jobs]
            before = page.before
            if before is None:
                # Oldest first, the order in which everybody locks jobs.
                return tuple(reversed(found))


def _say_none(shell: Shell, database: Database, tenant_id: UUID, meant: Filter) -> None:
    """Say that the filter finds nothing, and where those that wait for a retry are."""
    state = say_standing(str(meant.state))
    shell.out.note(_("no job in the state %(state)s matches the filter") % {"state": state})
    if meant.state == JobState.FAILED and (
        retrying := len(_matching(database, tenant_id, replace(meant, state=RETRYING)))
    ):
        text = ngettext(
            "%(count)d job that waits for its retry does; --state retrying finds it",
            "%(count)d jobs that wait for their retry do; --state retrying finds them",
            retrying,
        )
        shell.out.note(text % {"count": retrying})
    if shell.out.as_json:
        shell.out.json({"retried": [], "refused": []})


def _retry(
    shell: Shell, database: Database, tenant_id: UUID, job_ids: Sequence[int]
) -> tuple[list[int], dict[int, RelevoError]]:
    """Retry in batches, each one transaction; a job that is refused leaves the others be."""
    retried: list[int] = []
    refused: dict[int, RelevoError] = {}
    with shell.out.progress(_("retrying"), len(job_ids)) as progress:
        for start in range(0, len(job_ids), _BATCH):
            with database.transaction(WEB_ROLE, tenant_id) as connection:
                for job_id in job_ids[start : start + _BATCH]:
                    if not 0 <= job_id <= _LARGEST:
                        refused[job_id] = JobNotFound(id=job_id)
                        continue
                    try:
                        _retry_one(connection, tenant_id, job_id, shell.actor)
                    except (JobNotFound, JobHeld, KeyHeld) as error:
                        refused[job_id] = error
                    else:
                        retried.append(job_id)
            progress(len(retried) + len(refused))
    return retried, refused


def _retry_one(
    connection: psycopg.Connection[tuple[Any, ...]], tenant_id: UUID, job_id: int, actor: str
) -> None:
    try:
        with connection.transaction():
            perform(connection, again.requeue(tenant_id, job_id, actor))
    except psycopg.errors.UniqueViolation as error:
        # Another job took the key between our look and our write.
        job, _history = perform(connection, inspect.show(tenant_id, job_id))
        raise KeyHeld(id=job_id, kind=job.kind) from error


def _resting(database: Database, tenant_id: UUID, job_ids: Sequence[int]) -> list[Pause]:
    """Answer the pauses of the queues in which jobs that were made due wait; looks at some."""
    with database.transaction(WEB_ROLE, tenant_id) as connection:
        pauses = perform(connection, list_resting())
        if not pauses:
            return []
        queues = {
            perform(connection, inspect.show(tenant_id, job_id))[0].queue
            for job_id in job_ids[:_BATCH]
        }
    return [pause for queue, pause in sorted(pauses.items()) if queue in queues]


def _report(shell: Shell, retried: list[int], refused: dict[int, RelevoError]) -> None:
    if shell.out.as_json:
        whys = [{"id": job_id, "why": say_error(error)} for job_id, error in refused.items()]
        shell.out.json({"retried": retried, "refused": whys})
        return
    for error in refused.values():
        shell.out.note(f"{_('Error: ')}{say_error(error)}")
    if retried or not refused:
        text = ngettext("%(count)d job is due now", "%(count)d jobs are due now", len(retried))
        shell.out.line(text % {"count": len(retried)})


def _tenant(database: Database, named: str | None) -> UUID:
    with database.connect(WEB_ROLE) as connection:
        tenant_id: UUID = perform(connection, resolve_tenant(named))
    return tenant_id
