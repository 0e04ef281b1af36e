"""I2: when faults have stopped, every job has ended or waits for something with a name."""

from collections.abc import Iterator

from faults.checker.gates import Gate, Gates, applies_to, lane_of_job
from faults.checker.story import Story, tell
from faults.checker.violation import Violation
from faults.evidence.records import Event


def quiescence(story: Story) -> Iterator[Violation]:
    """Ask of every live job what it waits for."""
    if not story.quiescent:
        return
    live = [events[-1] for events in story.events.values() if events[-1].is_live]
    gates = Gates.at_the_end(story)
    for last in live:
        if last.state == "running":
            session = story.sessions.get(last.worker or 0)
            why = f"job {last.job_id} still runs as attempt {last.attempt}"
            yield Violation("I2", why, tell(session, *story.events[last.job_id][-3:]))
        elif not _waits(story, gates, last, live):
            why = f"job {last.job_id} is due, nothing holds it, and it does not start"
            yield Violation("I2", why, tell(*story.events[last.job_id][-3:]))


def _waits(story: Story, gates: Gates, job: Event, live: list[Event]) -> bool:
    """Whether a job waits for a time, for a person, for a worker that knows it, or for others."""
    history = story.history
    if job.available_at > history.read_at:
        return True
    names = {("queue", job.queue), ("kind", job.kind), ("tenant", str(job.tenant_id))}
    for pause in history.pauses:
        stands = pause.until is None or pause.until > history.read_at
        if stands and (pause.scope, pause.name) in names:
            return True
    if not any(job.queue in one.queues and job.kind in one.kinds for one in history.sessions):
        return True
    return any(_is_shut(gate, job, live, story) for gate in gates.of(job))


def _is_shut(gate: Gate, job: Event, live: list[Event], story: Story) -> bool:
    limit = gate.limit
    if limit.measure == "order":
        # Whichever of them has the turn is asked by itself what it waits for.
        place = (limit.name, job.tenant_id, lane_of_job(job))
        return any(
            other.job_id != job.job_id
            and (other.kind, other.tenant_id, lane_of_job(other)) == place
            and (other.attempt > 0 or _place(other) < _place(job))
            for other in live
        )
    if limit.measure == "running":
        return limit.most == 0
    since = story.history.read_at - round((limit.seconds or 0) * 1_000_000)
    starts = [event for _, event in story.steps if event.started_at and event.state == "running"]
    return limit.most <= sum(
        (event.started_at or 0) > since and applies_to(limit, event, gate.key) for event in starts
    )


def _place(job: Event) -> tuple[int, int]:
    return job.available_at, job.job_id
