"""`relevo bench`: measure a database in a minute, beside a raw loop of the same kind.

It works in a queue and a schema of its own and removes both again, also when it is interrupted.
"""

import asyncio
import logging
import re
import signal
import statistics
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from types import FrameType
from typing import Final

from relevo.api import perform
from relevo.bench.compare import Ratio, compare
from relevo.bench.errors import MarkedAsProduction
from relevo.bench.own import OwnQueue
from relevo.bench.raw import RawQueue
from relevo.bench.scratch import scratch
from relevo.bench.trial import Figures, Sizes, measure_rounds
from relevo.cli.database import Database
from relevo.cli.declare import Whole, command, option
from relevo.cli.errors import OtherDatabase
from relevo.cli.language import gettext as _
from relevo.cli.logs import log_to_stderr
from relevo.cli.ready import require_schema, say_differences
from relevo.cli.shell import Shell, options, pass_shell
from relevo.db.dsn import WORKER_ROLE
from relevo.db.identity import check_identity

PRODUCTION: Final = frozenset({"live", "prd", "prod", "production"})
"""Words in an installation's marker that say that real work is done there."""

_Found = Mapping[str, Mapping[int, Figures]]


@command("bench")
@option(
    "--jobs",
    type=Whole(min=1),
    default=10_000,
    show_default=True,
    help="How many jobs are added in bulk and drained, in each round.",
)
@option(
    "--single",
    type=Whole(min=1),
    default=1_000,
    show_default=True,
    help="How many jobs are added one by one.",
)
@option(
    "--idle",
    type=Whole(min=1),
    default=50,
    show_default=True,
    help="How many jobs are added to an idle worker, to see how soon they start.",
)
@option(
    "--rounds",
    type=Whole(min=1),
    default=3,
    show_default=True,
    help="How often both are measured, in turn.",
)
@option("--yes", is_flag=True, help="Measure an installation that is marked as production, too.")
@options(listen=True)
@pass_shell
def bench(shell: Shell, /, *, jobs: int, single: int, idle: int, rounds: int, yes: bool) -> None:
    """Measure this database beside a raw loop of the same kind; leaves nothing behind."""
    sizes = Sizes(jobs, single, idle, rounds)
    with shell.database() as database:
        _require_leave(shell, database, yes=yes)
        log_to_stderr("text")
        logging.getLogger("relevo").setLevel(logging.WARNING)
        shell.out.note(
            _("measuring %(address)s; Ctrl-C ends it and removes what it made")
            % {"address": database.address}
        )
        try:
            found = _measure(shell, database, sizes)
        except (KeyboardInterrupt, SystemExit):
            shell.out.note(_("ended early; what was made is removed"))
            raise
    _report(shell, sizes, found)


def _measure(shell: Shell, database: Database, sizes: Sizes) -> _Found:
    raw, own = RawQueue(database.dsn), OwnQueue(database.dsn, database.listen_dsn)
    with (
        _signals() as hold_off,
        scratch(database.dsn, hold_off),
        shell.out.progress(_("measuring"), 2 * sizes.rounds) as show,
    ):
        return asyncio.run(measure_rounds(raw, own, sizes, show))


def _require_leave(shell: Shell, database: Database, *, yes: bool) -> None:
    """Refuse where the bench's worker must not work, or must not without a yes."""
    require_schema(database, shell.lines())
    with database.connect(WORKER_ROLE) as connection:
        check = perform(connection, check_identity())
    if not check.matches:
        raise OtherDatabase(differences=say_differences(check), check=check)
    marker = check.found.environment
    if PRODUCTION & set(re.split(r"[^a-z]+", marker.lower())) and not yes:
        raise MarkedAsProduction(environment=marker)


@contextmanager
def _signals() -> Generator[Callable[[], None], None, None]:
    """Let SIGTERM end the block as Ctrl-C does; what is yielded holds both off from then on."""

    def leave(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in numbers}
    signal.signal(signal.SIGTERM, leave)

    def hold_off() -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)

    try:
        yield hold_off
    finally:
        for number, handled in before.items():
            signal.signal(number, handled)


def _report(shell: Shell, sizes: Sizes, found: _Found) -> None:
    if shell.out.as_json:
        shell.out.json(
            {
                "jobs": sizes.jobs,
                "single": sizes.single,
                "idle": sizes.spaced,
                "rounds": sizes.rounds,
                "measures": {
                    each.name: {
                        "raw": round(_median(found["raw"], each.name), 3),
                        "relevo": round(_median(found["relevo"], each.name), 3),
                        "ratio": _plain(_ratio(found, each.name)),
                    }
                    for each in fields(Figures)
                },
            }
        )
        return
    said = {
        "bulk": _("added in bulk, jobs a second"),
        "single": _("added one by one, jobs a second"),
        "drain": _("drained by one worker, jobs a second"),
        "start": _("commit to start, ms, median"),
        "start_p99": _("commit to start, ms, 99 of 100"),
    }
    rows = []
    for name, words in said.items():
        digits = 1 if name.startswith("start") else 0
        sides = (f"{_median(found[side], name):,.{digits}f}" for side in ("raw", "relevo"))
        ratio = _ratio(found, name)
        between = "" if ratio is None else f"{ratio.lowest:.2f} - {ratio.highest:.2f}"
        rows.append((words, *sides, "" if ratio is None else f"{ratio.median:.2f}", between))
    columns = [_("measure"), _("raw loop"), "relevo", _("ratio"), _("of the rounds")]
    shell.out.table(columns, rows)
    shell.out.note(
        _(
            "Read the ratios: the raw loop is the least that this database has to do for the same "
            "jobs, measured in the same rounds. Above 1 is faster for jobs a second, and slower "
            "for times. Rounds that lie far apart say that something else was at work; try again."
        )
    )


def _median(rounds: Mapping[int, Figures], name: str) -> float:
    return statistics.median(_values(rounds, name).values())


def _ratio(found: _Found, name: str) -> Ratio | None:
    return compare(_values(found["relevo"], name), _values(found["raw"], name))


def _values(rounds: Mapping[int, Figures], name: str) -> dict[int, float]:
    return {number: getattr(figures, name) for number, figures in rounds.items()}


def _plain(ratio: Ratio | None) -> dict[str, float] | None:
    if ratio is None:
        return None
    return {each.name: round(getattr(ratio, each.name), 3) for each in fields(Ratio)}
