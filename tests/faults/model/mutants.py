"""Whether the machine can see: faults put into the engine's statements, each to be found.

Run as a command it tries all of them and says after how many steps each was found:
`PYTHONPATH=tests python -m faults.model.mutants [SEED]`.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from faults.campaigns.ground import a_server
from faults.model.machine import explore
from faults.model.world import World, a_world
from faults.sizes import Size, numbers
from relevo.db.statements import Statement
from relevo.store import limits, pauses
from relevo.store.jobs import again, claim, enqueue, limited, prune, recover, settle


@dataclass(frozen=True, slots=True)
class Blunder:
    """One replacement in one statement.

    Attributes:
        what: What goes wrong.
        statements: Where the statement is.
        name: Its name.
        old: Text that occurs in it, at least once.
        new: What stands there instead.
    """

    what: str
    statements: dict[str, Statement]
    name: str
    old: str
    new: str

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Make it while the context lasts."""
        right = self.statements[self.name]
        if self.old not in right.sql:
            msg = f"{self.name} does not hold {self.old!r}"
            raise ValueError(msg)
        self.statements[self.name] = Statement(self.name, right.sql.replace(self.old, self.new))
        try:
            yield
        finally:
            self.statements[self.name] = right


BLUNDERS = (
    Blunder(
        "a start completes whoever holds the job",
        settle.STATEMENTS,
        "complete_jobs",
        "AND j.attempt = done.attempt\n  AND j.worker = %(worker)s::bigint",
        "AND j.live AND coalesce(%(worker)s::bigint, 0) > 0",
    ),
    Blunder(
        "a snooze spends an attempt",
        settle.STATEMENTS,
        "settle_jobs",
        "WHEN h.action IN ('snoozed', 'released')\n",
        "WHEN h.action IN ('released')\n",
    ),
    Blunder(
        "a rescue forgets that a stop was asked for",
        recover.STATEMENTS,
        "rescue_jobs",
        "WHEN j.cancel_requested_at IS NOT NULL THEN 'cancelled'",
        "WHEN false THEN 'cancelled'",
    ),
    Blunder(
        "a claim does not look at pauses of kinds",
        claim.STATEMENTS,
        "claim_jobs",
        "p.scope = 'kind'",
        "p.scope = 'kinds'",
    ),
    Blunder(
        "a claim of an ended session counts",
        claim.STATEMENTS,
        "claim_jobs",
        "WHERE w.id = %(worker)s::bigint\n"
        "      AND EXISTS (SELECT FROM picked)\n"
        "    FOR KEY SHARE OF w",
        "WHERE true LIMIT 1",
    ),
    Blunder(
        "the limit that every tenant has counts them together",
        limits.STATEMENTS,
        "take_running_permits",
        "WHEN l.scope IN ('tenant', 'lane') THEN j.tenant_id",
        "WHEN l.scope IN ('lane') THEN j.tenant_id",
    ),
    Blunder(
        "a limit counts one less than runs",
        limited.STATEMENTS,
        "claim_limited",
        "p.number <= g.most",
        "p.number <= g.most + 1",
    ),
    Blunder(
        "a waiting key is kept by a job that has started",
        claim.STATEMENTS,
        "claim_jobs",
        "started_at = clock_timestamp(),\n    waiting_key = NULL",
        "started_at = clock_timestamp()",
    ),
    Blunder(
        "an expired key is not set free",
        enqueue.STATEMENTS,
        "release_expired_keys",
        "key_expires_at <= now()",
        "key_expires_at <= now() - interval '1 hour'",
    ),
    Blunder(
        "retention does not wait for the key",
        settle.STATEMENTS,
        "complete_jobs",
        "interval '1 second', j.key_expires_at)",
        "interval '1 second')",
    ),
    Blunder(
        "jobs are requeued for other tenants",
        again.STATEMENTS,
        "requeue_jobs",
        "WHERE j.tenant_id = %(tenant_id)s::uuid\n  AND j.id",
        "WHERE j.id",
    ),
    Blunder(
        "a shorter pause takes the place of a longer one",
        pauses.STATEMENTS,
        "pause",
        "WHERE p.paused_until < coalesce(excluded.paused_until, 'infinity')",
        "WHERE true",
    ),
    Blunder(
        "a job that has not ended is pruned with the others",
        prune.STATEMENTS,
        "prune_jobs",
        "j.prune_at <= now()",
        "j.prune_at <= now() + interval '1 hour'",
    ),
)


def try_all(world: World, steps: int, first: int) -> Mapping[str, int]:
    """Answer after how many steps each was found; 0 where it was not."""
    found = {}
    for blunder in BLUNDERS:
        world.steps = 0
        with blunder.applied():
            told = explore(world, steps, first, shrinks=False)
        found[blunder.what] = world.steps if told else 0
        sys.stdout.write(f"{blunder.what:60} {world.steps if told else 'not found'}\n")
        sys.stdout.flush()
    return found


def main(seed: int) -> int:
    """Try all of them, and say how each fared."""
    steps = numbers("R12", Size.PULL_REQUEST)["steps"]
    with (
        a_server(is_durable=False) as server,
        a_world(server.create("model", "template_faults")) as world,
    ):
        found = try_all(world, steps, seed)
    return 0 if all(found.values()) else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 12))
