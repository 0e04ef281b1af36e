"""What workers do: claim, answer, keep their sessions, rescue, and tidy up."""

from dataclasses import replace
from typing import Any

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import rule

from faults.model.answers import ANSWERS, answer
from faults.model.oracle import Session
from faults.model.slot import EMPTY, SERVED, Hold, Slot
from faults.model.table import Table
from faults.model.world import HOUR, QUEUES
from relevo.db.drivers import run
from relevo.engine import limits
from relevo.engine.jobs import rescue, session
from relevo.engine.jobs.claim import find_due_queues
from relevo.engine.jobs.prune import prune
from relevo.engine.jobs.settle import complete, settle
from relevo.model.job import ClaimedJob
from relevo.store.jobs.recover import postpone_unserved_jobs

workers = st.integers(0, len(SERVED) - 1)
queues = st.sampled_from(["a", "a", "b"])
words = st.sampled_from(ANSWERS)
limits_of_claims = st.integers(1, 6)
number = st.integers(0, 63)
hours = st.sampled_from([1, 1, 2, 3])
sessions = st.one_of(
    st.tuples(st.just("open"), workers, hours),
    st.tuples(st.just("renew"), workers, hours),
    st.tuples(st.just("end_session"), workers, st.sampled_from(["close", "kill", "lose"])),
    st.tuples(st.just("crash"), workers),
    st.tuples(st.just("crash"), workers),
    st.tuples(st.just("hand_back"), workers, st.lists(number, max_size=3)),
)
care = st.one_of(
    st.tuples(st.just("rescue")),
    st.tuples(st.just("find_missing")),
    st.tuples(st.just("postpone"), queues),
    st.tuples(st.just("remove_old")),
    st.tuples(st.just("look"), workers),
)


class Working(Table):
    """The rules of workers."""

    @rule(worker=workers, queue=queues, limit=limits_of_claims, is_fresh=st.booleans())
    def claim(self, worker: int, queue: str, limit: int, *, is_fresh: bool) -> None:
        """Claim once, also where the session has ended."""
        with self.step():
            self._claim(self.slots[worker], queue, limit, is_fresh=is_fresh)

    @rule(worker=workers, queue=queues, words=st.lists(words, min_size=1, max_size=6))
    def work(self, worker: int, queue: str, words: list[str]) -> None:
        """Claim, and answer for what was claimed."""
        slot = self.at_work(worker)
        with self.step():
            before = len(slot.held)
            self._claim(slot, queue, len(words), is_fresh=False)
            self.compare()
            self._settle(slot, list(zip(slot.held[before:], words, strict=False)))

    def _claim(self, slot: Slot, queue: str, limit: int, *, is_fresh: bool) -> int:
        found = slot.claim(self.world.clock, queue, limit, is_fresh=is_fresh)
        pairs = [(job.id, job.attempt) for job in found]
        self.oracle.claim(slot.session, queue, slot.kinds, limit, pairs, is_fresh=is_fresh)
        tally = self.world.tally
        tally["starts"] += len(found)
        tally["starts_under_limits"] += sum(
            bool(self.oracle.gates.of(self.oracle.jobs[job.id])) for job in found
        )
        return len(found)

    @rule(worker=workers, queue=queues, limit=limits_of_claims)
    def drain(self, worker: int, queue: str, limit: int) -> None:
        """Claim until nothing comes: then nothing may be left that could start."""
        slot = self.at_work(worker)
        with self.step():
            dry = 0
            while dry < EMPTY:
                is_whole = slot.is_empty(self.world.clock, queue)
                if self._claim(slot, queue, limit, is_fresh=False):
                    dry = 0
                    self.compare()
                else:
                    dry += is_whole
            left = self.oracle.startable(queue, slot.kinds)
            ready = [
                job
                for job in self.oracle.jobs.values()
                if self.oracle.is_startable(job, queue, slot.kinds)
            ]
            self.world.tally["held_back_by_limits"] += len(ready)
            assert not left, f"nothing was claimed, yet it could start: {left}"

    def look(self, worker: int) -> None:
        """Ask in which queues something is due, whatever limits say."""
        slot = self.slots[worker]
        with self.step():
            due = run(slot.connection, find_due_queues(QUEUES, slot.kinds))
            jobs = self.oracle.jobs.values()
            assert sorted(due) == [
                queue
                for queue in QUEUES
                if any(self.oracle.is_startable(job, queue, slot.kinds) for job in jobs)
            ]
            assert self.world.attempts() == self.oracle.attempts

    def holding(self, worker: int) -> Slot | None:
        """Answer the first worker from this one on that was ever given something."""
        return next((slot for slot in self._around(worker) if slot.held), None)

    def _around(self, worker: int) -> list[Slot]:
        return [*self.slots[worker:], *self.slots[:worker]]

    @rule(worker=workers, picks=st.lists(st.tuples(number, words), min_size=1, max_size=4))
    def settle(self, worker: int, picks: list[tuple[int, str]]) -> None:
        """Write what became of some starts, of one that was lost nothing; the last come first."""
        if slot := self.holding(worker):
            with self.step():
                ends = [(slot.held[-1 - pick % len(slot.held)], word) for pick, word in picks]
                self._settle(slot, ends)

    def _settle(self, slot: Slot, ends: list[tuple[Hold, str]]) -> None:
        chosen: dict[int, dict[int, tuple[ClaimedJob, str, str]]] = {}
        for (holder, job, queue), word in ends:
            chosen.setdefault(holder, {}).setdefault(job.id, (job, queue, word))
        for holder, jobs in chosen.items():
            entries = [
                (answer(word, self.kinds[job.kind], job), queue)
                for job, queue, word in jobs.values()
            ]
            queue_of = {entry.job_id: queue for entry, queue in entries}
            got = run(slot.connection, settle(holder, queue_of, [entry for entry, _ in entries]))
            wanted = self.oracle.settle(holder, entries)
            assert {job_id: state.value for (_, job_id), state in got.items()} == wanted
            self.world.tally.update(f"settled_{state}" for state in wanted.values())
            self.world.tally["refused_ends"] += len(entries) - len(wanted)

    @rule(worker=workers, pick=number, is_kept=st.booleans())
    def complete_inside(self, worker: int, pick: int, *, is_kept: bool) -> None:
        """Complete a job in the handler's own transaction, which commits or does not."""
        slot = self.holding(worker)
        if slot is None:
            return
        with self.step():
            holder, job, queue = slot.held[-1 - pick % len(slot.held)]
            entry = answer("completed", self.kinds[job.kind], job)
            saved = {one.id: replace(one) for one in self.oracle.jobs.values()}
            with slot.connection.transaction(force_rollback=not is_kept):
                got = run(slot.connection, complete(holder, entry))
            assert got == bool(self.oracle.settle(holder, [(entry, queue)]))
            if not is_kept:
                self.oracle.jobs = saved

    def hand_back(self, worker: int, picks: list[int]) -> None:
        """Hand back what the session holds beyond what it knows."""
        slot = self.slots[worker]
        with self.step():
            if slot.session:
                known = [slot.held[pick % len(slot.held)][1].id for pick in picks if slot.held]
                got = run(slot.connection, session.hand_back_unknown(slot.session, known))
                assert got == self.oracle.hand_back(slot.session, known)

    def renew(self, worker: int, lease: int) -> None:
        """Renew a lease, while the session's row is there."""
        slot = self.slots[worker]
        with self.step():
            if slot.session:
                mine = self.oracle.sessions[slot.session]
                got = run(slot.connection, session.renew(slot.session, lease * 3600.0))
                assert got == mine.exists
                mine.expires = self.oracle.hour + lease

    def end_session(self, worker: int, how: str) -> None:
        """End one: well, by the removal of its row, or as a restore would."""
        slot = self.slots[worker]
        with self.step():
            mine = self.oracle.sessions[slot.session]
            if how == "close":
                run(slot.connection, session.close_session(slot.session, QUEUES))
            elif how == "lose":
                self.world.owner.execute("SELECT model.lose_session(%s)", [slot.session])
            else:
                self._kill(slot, mine)
                return
            mine.noted = mine.noted or (mine.exists and how == "close")
            mine.exists = False

    def crash(self, worker: int) -> None:
        """End a session, first one with jobs that were asked to stop, and rescue what it held."""
        asked = {job.worker for job in self.oracle.jobs.values() if job.asked}
        around = self._around(worker)
        slot = next((slot for slot in around if slot.session in asked), around[0])
        self.end_session(self.slots.index(slot), "close")
        self.rescue()

    def _kill(self, slot: Slot, mine: Session) -> None:
        query = "DELETE FROM relevo.workers WHERE id = %s"
        if mine.exists and mine.expires > self.oracle.hour:
            # Nobody may take the row of a session whose lease runs.
            try:
                slot.connection.execute(query, [slot.session])
            except psycopg.errors.ObjectInUse:
                return
            msg = f"session {slot.session} was removed while its lease ran"
            raise AssertionError(msg)
        slot.connection.execute(query, [slot.session])
        mine.noted, mine.exists = mine.noted or mine.exists, False

    def rescue(self) -> None:
        """End what has expired, and take back what it held."""
        with self.step():
            assert (
                set(run(self.world.workers[0], rescue.end_expired_sessions()))
                == self.oracle.end_expired()
            )
            kept = self.app.registry.kept()
            got = self.operate(rescue.rescue_lost_jobs(kept))
            wanted = self.oracle.rescue(kept)
            assert {job.id: job.state.value for job in got} == wanted
            self.world.tally.update(f"rescued_{state}" for state in wanted.values())

    def find_missing(self) -> None:
        """Note sessions that jobs name and nobody knows."""
        with self.step():
            got = run(self.world.workers[0], rescue.find_missing_sessions())
            assert set(got) == self.oracle.find_missing()

    def postpone(self, queue: str) -> None:
        """Put off what nobody can run."""
        with self.step():
            got = run(self.world.workers[0], postpone_unserved_jobs(queue, HOUR, 1000))
            assert sum(got.values()) == self.oracle.postpone(queue, 1)

    def remove_old(self) -> None:
        """Take finished jobs out whose retention is over, and permits that nobody has."""
        with self.step():
            pruned = self.operate(prune()).jobs
            assert pruned == self.oracle.prune()
            self.world.tally["pruned"] += pruned
            self.operate(limits.prune_permits(1000))

    @rule(what=sessions)
    def sessions(self, what: tuple[Any, ...]) -> None:
        """Begin, renew and end sessions."""
        getattr(self, what[0])(*what[1:])

    @rule(what=care)
    def care(self, what: tuple[Any, ...]) -> None:
        """What a worker does now and then."""
        getattr(self, what[0])(*what[1:])
