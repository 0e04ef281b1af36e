"""What people and applications ask for: start again, cancel, hold back, and limit."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import rule

from faults.model.gates import Place
from faults.model.table import Table
from faults.model.world import HOUR, KINDS, QUEUES, TENANTS
from relevo import cancel_jobs, requeue_jobs, set_tenant
from relevo.db.drivers import run
from relevo.engine import limits, pauses
from relevo.engine.jobs import again
from relevo.engine.jobs.errors import JobHeld, JobNotFound, KeyHeld
from relevo.model.limit import Measure
from relevo.model.scope import Scope

DECLARED = ("laned", "paced", "ordered")
"""The kinds whose code declares limits."""
tenants = st.sampled_from(TENANTS)
NOBODY = 63
number = st.integers(0, NOBODY)
paused = st.sampled_from(
    [(Scope.QUEUE, name) for name in QUEUES]
    + [(Scope.KIND, name) for name in KINDS]
    + [(Scope.TENANT, str(tenant)) for tenant in TENANTS]
)
limited = st.sampled_from(
    [(Scope.QUEUE, name) for name in QUEUES]
    + [(Scope.KIND, "plain"), (Scope.LANE, "plain"), (Scope.LANE, "laned"), (Scope.KIND, "kept")]
    + [(Scope.TENANT, str(TENANTS[0])), (Scope.TENANT, "*")]
)
lengths = st.sampled_from([None, 1, 2])
people = st.one_of(
    st.tuples(
        st.just("requeue_some"),
        tenants,
        st.lists(number, min_size=1, max_size=3),
        st.integers(0, 2),
        st.sampled_from([None, "b"]),
        st.booleans(),
    ),
    st.tuples(st.just("requeue_one"), tenants, number),
    st.tuples(st.just("cancel"), number),
    st.tuples(st.just("pause"), paused, lengths),
    st.tuples(st.just("pause_waiting"), number, lengths),
    st.tuples(st.just("pause_again"), number, lengths),
    st.tuples(st.just("resume"), paused),
    st.tuples(st.just("resume_all")),
)
limit = st.one_of(
    st.tuples(st.just("set_limit"), limited, st.integers(0, 3), st.sampled_from([None, 1, 2])),
    st.tuples(st.just("remove_limit"), limited, st.sampled_from(["running", "starts"])),
    st.tuples(st.just("remove_limits")),
    st.tuples(st.just("declare_one"), st.sampled_from(DECLARED)),
    st.tuples(st.just("declare_none"), st.sampled_from(DECLARED)),
)


class Asking(Table):
    """The rules of people."""

    def some_ids(self, picks: list[int]) -> list[int]:
        """Answer ids of jobs that exist, and now and then one that does not."""
        ids = sorted(self.oracle.jobs)
        return sorted({ids[pick % len(ids)] if ids and pick != NOBODY else 0 for pick in picks})

    def requeue_some(
        self,
        tenant: UUID,
        picks: list[int],
        delay: int,
        queue: str | None,
        is_operator: bool,  # noqa: FBT001 -- drawn with the others
    ) -> None:
        """Let jobs start again; a key that another has taken makes it fail.

        Row-level security keeps who serves people to one tenant; an operator sees all of them.
        """
        with self.step():
            ids = self.some_ids(picks)
            final = {
                one
                for one in ids
                if one in self.oracle.jobs
                and not self.oracle.jobs[one].live
                and self.oracle.jobs[one].tenant == tenant
            }
            clashes = any(self.oracle.has_live_twin(self.oracle.jobs[one], final) for one in final)
            asker = self.world.workers[0] if is_operator else self.world.web
            try:
                with asker.transaction():
                    if not is_operator:
                        run(asker, set_tenant(tenant))
                    got = run(asker, requeue_jobs(tenant, ids, delay=delay * HOUR, queue=queue))
            except psycopg.errors.UniqueViolation:
                assert clashes, f"no key is taken: {ids}"
                return
            assert not clashes, f"two live jobs have one key: {ids}"
            assert got == self.oracle.requeue(ids, tenant, delay, queue)

    def requeue_one(self, tenant: UUID, pick: int) -> None:
        """What an operator's retry does, and what it refuses."""
        with self.step():
            (one,) = self.some_ids([pick])
            job = self.oracle.jobs.get(one)
            refused: type[Exception] | None = None
            if job is None or job.tenant != tenant:
                refused = JobNotFound
            elif job.state == "running":
                refused = JobHeld
            elif not job.live and self.oracle.has_live_twin(job, ()):
                refused = KeyHeld
            was_refused: type[Exception] | None = None
            try:
                self.operate(again.requeue(tenant, one))
            except (JobNotFound, JobHeld, KeyHeld) as error:
                was_refused = type(error)
            assert was_refused is refused
            if refused is None:
                self.oracle.requeue([one], tenant, 0, None)

    def cancel(self, pick: int) -> None:
        """Cancel all jobs of the aggregate that one of them has."""
        live = [job for job in self.oracle.jobs.values() if job.live and job.aggregate]
        if not live:
            return
        # Those that run come first: what is asked of them shows only later.
        live.sort(key=lambda job: (job.state != "running", job.id))
        one = live[pick % len(live)]
        tenant, kind, aggregate = one.tenant, one.kind, one.aggregate or ""
        with self.step():
            retention = self.kinds[kind].retention
            web = self.world.web
            with web.transaction():
                run(web, set_tenant(tenant))
                got = run(web, cancel_jobs(tenant, kind, aggregate, retention))
            keep = retention.keep(completed=False)
            assert [got.cancelled, got.asked] == self.oracle.cancel(tenant, kind, aggregate, keep)

    def pause(self, what: tuple[Scope, str], for_: int | None) -> None:
        """Pause a queue, a kind or a tenant."""
        with self.step():
            scope, name = what
            self.operate(
                pauses.pause(scope, name, "a test", for_=None if for_ is None else for_ * HOUR)
            )
            self.oracle.pause(scope, name, for_)

    def pause_waiting(self, pick: int, for_: int | None) -> None:
        """Pause the kind of a job that waits."""
        waiting = [job for job in self.oracle.jobs.values() if job.state == "available"]
        if waiting:
            kind = sorted(waiting, key=lambda job: job.id)[pick % len(waiting)].kind
            self.pause((Scope.KIND, kind), for_)

    def pause_again(self, pick: int, for_: int | None) -> None:
        """Pause what is paused, for longer or shorter."""
        standing = [place for place in sorted(self.oracle.pauses) if self.oracle.is_paused(*place)]
        if standing:
            scope, name = standing[pick % len(standing)]
            self.pause((Scope(scope), name), for_)

    def resume(self, what: tuple[Scope, str]) -> None:
        """Let it go on."""
        with self.step():
            stood = self.oracle.is_paused(*what)
            assert self.operate(pauses.resume(*what)) == stood
            self.oracle.pauses.pop((what[0].value, what[1]), None)

    def resume_all(self) -> None:
        """End every pause, so that examples do not stand still."""
        with self.step():
            for scope, name in list(self.oracle.pauses):
                self.operate(pauses.resume(Scope(scope), name))
            self.oracle.pauses.clear()

    def set_limit(self, what: tuple[Scope, str], most: int, within: int | None) -> None:
        """Set or change a limit."""
        with self.step():
            scope, name = what
            length = None if within is None else within * HOUR
            self.operate(limits.set_limit(scope, name, most, within=length, actor="a test"))
            measure = Measure.RUNNING if within is None else Measure.STARTS
            self.oracle.gates.set(
                (scope.value, name, measure.value), most, within, self.oracle.jobs
            )
            self.by_hand.add((scope.value, name, measure.value))

    def remove_limit(self, what: tuple[Scope, str], measure: str) -> None:
        """Remove a limit."""
        with self.step():
            self._remove(*what, measure)

    def _remove(self, scope: Scope, name: str, measure: str) -> None:
        got = self.operate(limits.remove_limit(scope, name, of_starts=measure == "starts"))
        assert got == self.oracle.gates.remove((scope.value, name, measure))
        self.by_hand.discard((scope.value, name, measure))

    def remove_limits(self) -> None:
        """Remove those that people set, so that examples do not stand still."""
        with self.step():
            for scope, name, measure in list(self.oracle.gates.limits):
                if measure != "order":
                    self._remove(Scope(scope), name, measure)

    def declare_one(self, kind: str) -> None:
        """Let code come that declares the limits of a kind."""
        self.declare(kind, is_declared=True)

    def declare_none(self, kind: str) -> None:
        """Let code come that declares none."""
        self.declare(kind, is_declared=False)

    def declare(self, kind: str, *, is_declared: bool) -> None:
        """Make the limits that code declares the ones that hold, or those of code without."""
        with self.step():
            one = self.kinds[kind]
            if not is_declared:
                one = replace(one, limits=(), ordered=False)
            self.operate(limits.declare_limits([one]))
            wanted: dict[Place, tuple[int, int | None]] = {
                (limit.per, kind, limit.measure.value): (
                    limit.most,
                    None if limit.within is None else round(limit.within / HOUR),
                )
                for limit in one.limits
            }
            if one.ordered:
                wanted["lane", kind, "order"] = (1, None)
            gates = self.oracle.gates
            for place in list(gates.limits):
                if (
                    place[0] in ("kind", "lane")
                    and place[1] == kind
                    and place not in wanted
                    and place not in self.by_hand
                ):
                    gates.remove(place)
            for place, allowance in sorted(wanted.items()):
                if place not in self.by_hand:
                    gates.set(place, *allowance, self.oracle.jobs)

    @rule(what=people)
    def people(self, what: tuple[Any, ...]) -> None:
        """What operators and applications ask for."""
        getattr(self, what[0])(*what[1:])

    @rule(what=limit)
    def set_limits(self, what: tuple[Any, ...]) -> None:
        """Set, change, declare and remove limits."""
        getattr(self, what[0])(*what[1:])
