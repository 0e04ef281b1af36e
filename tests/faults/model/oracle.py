"""The model: what rows there must be, and what a claim may and must answer.

It knows no database. Each method is one operation of the engine as the documentation tells
it; where the engine may choose, a method judges the choice and takes it over.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from faults.model.gates import Gates
from faults.model.jobs import ModelJob
from relevo.model.ids import NO_LANE
from relevo.model.job import KeyMode
from relevo.model.kind import Kind
from relevo.model.retention import DAYS_FAILED
from relevo.model.settlement import Action, Settlement

Trace = tuple[str, int | None, str | None]


@dataclass(slots=True)
class Session:
    """A worker's session: which it serves, until which hour, and whether its row is there."""

    id: int
    queues: tuple[str, ...]
    kinds: tuple[str, ...]
    expires: int
    exists: bool = True
    noted: bool = False


@dataclass(slots=True)
class Oracle:
    """The whole state, in memory. `hour` is its clock."""

    kinds: dict[str, Kind]
    hour: int = 0
    jobs: dict[int, ModelJob] = field(default_factory=dict)
    attempts: dict[tuple[int, int], Trace] = field(default_factory=dict)
    sessions: dict[int, Session] = field(default_factory=dict)
    pauses: dict[tuple[str, str], int | None] = field(default_factory=dict)
    gates: Gates = field(default_factory=Gates)

    # Keys

    def holder(self, tenant: UUID, kind: str, key: str, mode: KeyMode) -> ModelJob | None:
        """Answer who holds a key; one whose time is over holds none and loses it here."""
        for job in self.jobs.values():
            if (job.tenant, job.kind) != (tenant, kind):
                continue
            if mode is KeyMode.WAITING and job.waiting_key == key:
                return job
            if mode is KeyMode.LIVE and job.live_key == key and job.live:
                return job
            if mode is KeyMode.ALWAYS and job.key == key:
                if job.key_expires is not None and job.key_expires <= self.hour:
                    job.key = job.key_expires = None
                    return None
                return job
        return None

    def has_live_twin(self, job: ModelJob, others: Collection[int]) -> bool:
        """Say whether another live job has the key that a finished one would take again."""
        return job.live_key is not None and any(
            other.id != job.id
            and (other.live or other.id in others)
            and (other.tenant, other.kind, other.live_key) == (job.tenant, job.kind, job.live_key)
            for other in self.jobs.values()
        )

    # Claims

    def is_paused(self, scope: str, name: str) -> bool:
        """Say whether a pause stands."""
        if (scope, name) not in self.pauses:
            return False
        until = self.pauses[scope, name]
        return until is None or until > self.hour

    def is_startable(self, job: ModelJob, queue: str, kinds: Collection[str]) -> bool:
        """Say whether a job may start, apart from limits."""
        return (
            job.state == "available"
            and job.due <= self.hour
            and job.queue == queue
            and job.kind in kinds
            and not self.is_paused("queue", queue)
            and not self.is_paused("kind", job.kind)
            and not self.is_paused("tenant", str(job.tenant))
        )

    def startable(self, queue: str, kinds: Collection[str]) -> list[ModelJob]:
        """Answer what may start now, limits included: any one of them could be the next."""
        return [
            job
            for job in self.jobs.values()
            if self.is_startable(job, queue, kinds) and self.gates.lets(job, self.jobs, self.hour)
        ]

    def claim(
        self,
        worker: int,
        queue: str,
        kinds: Sequence[str],
        limit: int,
        found: Sequence[tuple[int, int]],
        *,
        is_fresh: bool,
    ) -> None:
        """Judge what a claim answered, and take it over.

        Args:
            worker: The session.
            queue: From where.
            kinds: Of which kinds.
            limit: At most so many.
            found: The id and the attempt of each.
            is_fresh: Whether the worker remembered nothing: then it takes the first of a lane.
        """
        ids = [job_id for job_id, _ in found]
        assert len(ids) == len(set(ids)) <= limit, f"{len(ids)} jobs of {limit}: {ids}"
        assert not ids or self.sessions[worker].exists, f"session {worker} has ended"
        jobs = [self.jobs[job_id] for job_id in ids]
        for job in jobs:
            assert self.is_startable(job, queue, kinds), f"may not start: {job}"
        if is_fresh:
            self._judge_order(jobs, queue, kinds)
        for job, (_, attempt) in zip(jobs, found, strict=True):
            refusal = self.gates.refusal(job, self.jobs, self.hour)
            assert not refusal, f"{refusal} does not let it start: {job}"
            job.state, job.worker, job.attempt = "running", worker, job.attempt + 1
            assert attempt == job.attempt, f"attempt {attempt}, not {job.attempt}: {job}"
            job.waiting_key, job.started, job.again = None, self.hour, False
            self.gates.start(job, self.hour)

    def _judge_order(self, jobs: list[ModelJob], queue: str, kinds: Sequence[str]) -> None:
        for lane in {(job.tenant, job.lane) for job in jobs}:
            mine = [job for job in jobs if (job.tenant, job.lane) == lane]
            others = [
                job
                for job in self.jobs.values()
                if (job.tenant, job.lane) == lane
                and job not in mine
                and self.is_startable(job, queue, kinds)
                and self.gates.lets(job, self.jobs, self.hour)
            ]
            if any(self.gates.has_turn(job) for job in mine):
                continue
            first = min(job.rank for job in mine)
            for other in others:
                assert first < other.rank, f"was passed by: {other}"
            for job in mine:
                before = [each for each in others if each.priority == job.priority]
                for other in before:
                    assert job.rank < other.rank, f"was passed by: {other}"

    # Ends

    def settle(self, worker: int, batch: Iterable[tuple[Settlement, str]]) -> dict[int, str]:
        """End attempts of one session; answer where those stand that it still held."""
        settled = {}
        for entry, queue in batch:
            if entry.pause is not None:
                self.pause("queue", queue, round(entry.pause.total_seconds() / 3600))
            job = self.jobs.get(entry.job_id)
            if job is None or (job.tenant, job.worker, job.attempt) != (
                entry.tenant_id,
                worker,
                entry.attempt,
            ):
                continue
            self._settle(worker, job, entry)
            settled[job.id] = job.state
        return settled

    def _settle(self, worker: int, job: ModelJob, entry: Settlement) -> None:
        job.error = entry.error or job.error
        was_asked, job.asked = job.asked, False
        if entry.action is Action.COMPLETED:
            job.end("completed", self.hour, entry.keep)
            return
        delay = round(entry.delay.total_seconds() / 3600)
        spent = job.attempt - job.excused >= job.max_attempts
        outcome = entry.action.value
        if entry.action is Action.CANCELLED and job.again:
            job.excuse()
            job.go_back(max(job.due, self.hour))
        elif entry.action in (Action.FAILED, Action.CANCELLED):
            job.end(entry.action.value, self.hour, entry.keep)
        elif was_asked or (entry.action is Action.RETRIED and spent):
            outcome = "cancelled" if was_asked else "failed"
            if entry.action in (Action.SNOOZED, Action.RELEASED):
                job.excuse()
            job.end(outcome, self.hour, entry.keep)
        else:
            if entry.action in (Action.SNOOZED, Action.RELEASED):
                job.excuse()
            job.go_back(self.hour + delay)
        text = entry.trace or entry.error
        self.attempts.setdefault((job.id, job.attempt), (outcome, worker, text))

    def hand_back(self, worker: int, known: Collection[int], kept: Collection[str] = ()) -> int:
        """Hand back what a session holds without knowing it."""
        given = [job for job in self._held_by({worker}) if job.id not in known]
        for job in given:
            job.excuse()
            state = "cancelled" if job.asked else "available"
            due = min(job.due, self.hour)
            job.asked = False
            if state == "cancelled":
                job.due = due
                keep = None if job.kind in kept else DAYS_FAILED.total_seconds()
                job.end(state, self.hour, keep)
            else:
                job.go_back(due)
            outcome = "released" if state == "available" else state
            text = "the answer to the claim was lost"
            self.attempts.setdefault((job.id, job.attempt), (outcome, worker, text))
        return len(given)

    # Sessions

    def _held_by(self, workers: Collection[int]) -> list[ModelJob]:
        return [job for job in self.jobs.values() if job.worker in workers]

    def end_expired(self) -> set[int]:
        """End the sessions whose lease is over."""
        over = {s.id for s in self.sessions.values() if s.exists and s.expires <= self.hour}
        for worker in over:
            self.sessions[worker].exists, self.sessions[worker].noted = False, True
        return over

    def find_missing(self) -> set[int]:
        """Note the sessions that jobs name and that are gone."""
        new = {
            s.id
            for s in self.sessions.values()
            if not s.exists and not s.noted and self._held_by({s.id})
        }
        for worker in new:
            self.sessions[worker].noted = True
        return new

    def rescue(self, kept: Collection[str]) -> dict[int, str]:
        """Take back what ended sessions held."""
        ended = {s.id for s in self.sessions.values() if s.noted}
        rescued = {}
        for job in self._held_by(ended):
            spent = job.attempt - job.excused >= job.max_attempts
            state = "cancelled" if job.asked else "failed" if spent else "available"
            keep = None if job.kind in kept else DAYS_FAILED.total_seconds()
            job.asked, job.error = False, "worker lost"
            job.losses = min(job.losses, job.attempt - 1) + 1
            job.due = min(job.due, self.hour)
            if state == "available":
                job.go_back(job.due)
            else:
                job.end(state, self.hour, keep)
            outcome = "lost" if state == "available" else state
            self.attempts.setdefault((job.id, job.attempt), (outcome, None, "worker lost"))
            rescued[job.id] = state
        for worker in ended:
            self.sessions[worker].noted = False
        return rescued

    def postpone(self, queue: str, hours: int) -> int:
        """Put off what no live worker of the queue can run."""
        serving = [
            s
            for s in self.sessions.values()
            if s.exists and s.expires > self.hour and queue in s.queues
        ]
        unserved = [
            job
            for job in self.jobs.values()
            if job.queue == queue
            and job.state == "available"
            and job.due <= self.hour
            and job.lane == NO_LANE
            and ("lane", job.kind, "order") not in self.gates.limits
            and serving
            and not any(job.kind in s.kinds for s in serving)
        ]
        for job in unserved:
            job.due, job.place = self.hour + hours, None
        return len(unserved)

    # People

    def requeue(self, ids: Iterable[int], tenant: UUID, delay: int, queue: str | None) -> int:
        """Let jobs start again."""
        mine = [self.jobs[one] for one in ids if one in self.jobs]
        mine = [job for job in mine if job.tenant == tenant]
        for job in mine:
            if not job.live:
                if job.attempt:
                    trace = (job.state, None, job.error)
                    self.attempts.setdefault((job.id, job.attempt), trace)
                job.state, job.error, job.losses = "available", None, 0
                job.excused, job.queue = job.attempt, queue or job.queue
            job.finished = job.prune = None
            job.due, job.place = self.hour + delay, None
            job.asked, job.again = False, True
        return len(mine)

    def cancel(self, tenant: UUID, kind: str, aggregate: str, keep: float | None) -> list[int]:
        """Cancel the jobs of an aggregate; answer how many ended, and how many were asked."""
        counts = [0, 0]
        for job in self.jobs.values():
            if not job.live or (job.tenant, job.kind, job.aggregate) != (tenant, kind, aggregate):
                continue
            job.asked = True
            counts[job.state == "running"] += 1
            if job.state == "available":
                job.end("cancelled", self.hour, keep)
        return counts

    def pause(self, scope: str, name: str, hours: int | None) -> None:
        """Pause; one that stands and lasts as long is kept."""
        until = None if hours is None else self.hour + hours
        if self.is_paused(scope, name):
            stands = self.pauses[scope, name]
            if stands is None or (until is not None and until < stands):
                return
        self.pauses[scope, name] = until

    def prune(self) -> int:
        """Remove what has been final for long enough."""
        gone = [
            job.id for job in self.jobs.values() if job.prune is not None and job.prune <= self.hour
        ]
        for job_id in gone:
            del self.jobs[job_id]
        self.attempts = {key: t for key, t in self.attempts.items() if key[0] in self.jobs}
        return len(gone)

    def take_over(self, job: ModelJob, seen: ModelJob) -> None:
        """Take over what the engine chose: the lane, where it may, and the exact due time."""
        assert seen.lane in {NO_LANE, job.own_lane}, f"lane {seen.lane}: {job}"
        assert job.lane in {seen.lane, NO_LANE}, f"left its lane: {job}"
        job.lane, job.place = seen.lane, seen.place
