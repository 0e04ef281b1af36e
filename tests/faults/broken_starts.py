"""Histories in which one promise about jobs and their starts is broken; the name says which."""

from typing import Any

from faults.evidence.records import Archiving, Attempt, Effect, History, Job, Pause
from faults.tale import Tale, done, running


def i1_acknowledged_and_lost(tale: Tale) -> None:
    tale.note("intent", ref="a")
    tale.note("enqueued", ref="a", job_id=1)


def i1_refused_for_a_key_that_nobody_held(tale: Tale) -> None:
    tale.note("intent", ref="a", key="k")
    tale.note("enqueued", ref="a", job_id=1, created=False)


def i1_refused_for_a_key_that_was_let_go(tale: Tale) -> None:
    done(tale, 1, live_key="k")
    done(tale, 2)
    tale.note("intent", ref="a", key="k")
    tale.note("enqueued", ref="a", job_id=1, created=False)


def i1_refused_for_a_key_that_was_taken_later(tale: Tale) -> None:
    for ref in ("first", "a"):
        tale.note("intent", ref=ref, key="k")
    tale.note("enqueued", ref="a", job_id=1, created=False)
    done(tale, 1, ref="first", live_key="k")


def i1_refused_for_a_key_of_another_kind(tale: Tale) -> None:
    running(tale, 1, ref="first", key="k")
    tale.note("intent", ref="first", at=tale.now - 10**6)
    tale.note("intent", ref="a", key="k", kind="test.other")
    tale.note("enqueued", ref="a", job_id=1, created=False)
    tale.finish(1)


def i1_refused_in_the_name_of_another_job(tale: Tale) -> None:
    running(tale, 1, live_key="k")
    running(tale, 2)
    tale.note("intent", ref="a", key="k")
    tale.note("enqueued", ref="a", job_id=2, created=False)
    for job in (1, 2):
        tale.finish(job)


def i1_refused_without_a_key(tale: Tale) -> None:
    done(tale, 1)
    tale.note("intent", ref="a")
    tale.note("enqueued", ref="a", job_id=None, created=False)


def i1_refused_and_there(tale: Tale) -> None:
    tale.note("intent", ref="first", key="k")
    tale.note("intent", ref="a", key="k")
    done(tale, 1, ref="first", live_key="k")
    done(tale, 2, ref="a", live_key="k")
    tale.note("enqueued", ref="a", job_id=1, created=False)


def i1_rolled_back_and_there(tale: Tale) -> None:
    tale.note("intent", ref="a")
    done(tale, ref="a")
    tale.note("rolled_back", ref="a")


def i1_half_of_an_unknown_transaction(tale: Tale) -> None:
    for ref in ("a", "b"):
        tale.note("intent", ref=ref, unit="u")
    tale.note("unknown", unit="u")
    done(tale, ref="a")


def i1_one_transaction_in_two(tale: Tale) -> None:
    for ref in ("a", "b"):
        tale.note("intent", ref=ref, unit="u")
    done(tale, 1, ref="a")
    done(tale, 2, ref="b")


def i1_nobody_enqueued_it(tale: Tale) -> None:
    tale.note("intent", ref="a")
    done(tale, 1, ref="a")
    done(tale, 2, ref="b")


def i1_a_copy(tale: Tale) -> None:
    tale.note("intent", ref="a")
    done(tale, 1, ref="a")
    done(tale, 2, ref="a")


def i1_deleted_while_it_waits(tale: Tale) -> None:
    tale.enqueue(1)
    tale.change(1, op="delete", prune_at=tale.now)


def i1_deleted_too_early(tale: Tale) -> None:
    done(tale)
    tale.change(1, prune_at=tale.now * 2)
    tale.change(1, op="delete")


def i1_to_be_kept_and_deleted(tale: Tale) -> None:
    done(tale)
    tale.change(1, op="delete")


def i1_the_row_is_gone(tale: Tale) -> History:
    done(tale)
    return tale.history(jobs=())


def i1_a_row_from_nowhere(tale: Tale) -> History:
    return tale.history(jobs=(Job(9, "available"),))


def i1_another_state(tale: Tale) -> History:
    done(tale)
    return tale.history(jobs=(Job(1, "failed", 1),))


def i1_in_table_and_archive(tale: Tale) -> History:
    done(tale)
    return tale.history(jobs=(Job(1, "completed", 1), Job(1, "completed", 1, is_archived=True)))


def i1_in_neither_table_nor_archive(tale: Tale) -> History:
    tale.now += 10**7
    done(tale)
    tale.prune(1)
    return tale.history(archiving=(Archiving(0, is_on=True, at=1),))


def i2_due_and_never_started(tale: Tale) -> None:
    tale.enqueue(1)


def i2_running_for_ever(tale: Tale) -> None:
    running(tale)
    tale.end(1)


def i2_behind_a_pause_that_is_over(tale: Tale) -> History:
    tale.enqueue(1)
    return tale.history(pauses=(Pause("queue", "default", tale.now - 1),))


def i3_a_gap(tale: Tale) -> None:
    tale.enqueue(1)
    tale.claim(1, attempt=2)
    tale.finish(1)


def i3_not_counted(tale: Tale) -> None:
    tale.enqueue(1)
    tale.claim(1, attempt=0)
    tale.finish(1)


def i3_too_many(tale: Tale) -> None:
    tale.enqueue(1, max_attempts=1)
    tale.claim(1)
    tale.go_back(1)
    tale.claim(1)
    tale.finish(1)


def i3_two_counts_at_one_end(tale: Tale) -> None:
    running(tale)
    tale.go_back(1, "released", excused=2)
    tale.claim(1)
    tale.finish(1)


def i3_no_record(tale: Tale) -> None:
    running(tale)
    tale.finish(1, "failed")
    tale.attempts.clear()


def i3_another_record(tale: Tale) -> None:
    running(tale)
    tale.finish(1, "failed")
    tale.attempts[:] = [Attempt(1, 1, "retried")]


def i3_a_record_too_many(tale: Tale) -> None:
    done(tale)
    tale.attempts.append(Attempt(1, 2, "failed"))


def i3_two_records(tale: Tale) -> None:
    running(tale)
    tale.finish(1, "failed")
    tale.attempts.append(Attempt(1, 1, "failed"))


def i3_started_twice(tale: Tale) -> None:
    running(tale)
    tale.note("start", job_id=1, attempt=1)
    tale.note("start", job_id=1, attempt=1)
    tale.finish(1)


def i3_started_without_a_claim(tale: Tale) -> None:
    running(tale)
    tale.note("start", job_id=1, attempt=1)
    tale.finish(1)
    tale.note("start", job_id=1, attempt=2)


def i3_completed_without_a_start(tale: Tale) -> None:
    running(tale, 1)
    tale.note("start", job_id=1, attempt=1)
    tale.finish(1)
    done(tale, 2)


def i3_more_than_was_asked_for(tale: Tale) -> None:
    for job in (1, 2):
        running(tale, job)
    tale.note("claimed", session=1, asked=1, jobs=[1, 2])
    for job in (1, 2):
        tale.finish(job)


def i3_a_success_is_forgotten(tale: Tale) -> None:
    done(tale)
    tale.requeue(1, available_at=tale.now * 2)
    tale.attempts.clear()


def i4_taken_from_a_living_session(tale: Tale) -> None:
    running(tale)
    tale.go_back(1, "lost")
    tale.claim(1)
    tale.finish(1)


def i4_taken_before_the_session_ended(tale: Tale) -> None:
    tale.session(2)
    running(tale)
    tale.go_back(1, "lost")
    tale.claim(1, worker=2)
    tale.end(1)
    tale.finish(1)


def i4_taken_from_a_session_that_was_ended_before_its_lease(tale: Tale) -> None:
    taken_after_its_end(tale, expires_at=tale.now + 10**6)


def i4_taken_from_a_session_whose_lease_another_worker_ended(tale: Tale) -> None:
    taken_after_its_end(tale, shortened_by=("relevo rescue w2",))


def taken_after_its_end(tale: Tale, **how: Any) -> None:
    """A start that another session takes over, and how the first of them ended."""
    tale.session(2)
    running(tale)
    tale.end(1, **how)
    tale.go_back(1, "lost")
    tale.claim(1, worker=2)
    tale.finish(1)


def i4_claimed_twice(tale: Tale) -> None:
    tale.session(2)
    running(tale)
    tale.change(1, worker=2, attempt=2)
    tale.finish(1)


def i4_claimed_by_a_session_that_had_ended(tale: Tale) -> None:
    tale.enqueue(1)
    tale.end(1)
    tale.claim(1)
    tale.finish(1)


def i4_claimed_by_nobody(tale: Tale) -> None:
    tale.enqueue(1)
    tale.claim(1, worker=7)
    tale.finish(1)


def i5_an_effect_of_a_stale_attempt(tale: Tale) -> None:
    running(tale)
    tale.go_back(1)
    tale.claim(1)
    tale.finish(1)
    tale.effect(1, attempt=1)


def i5_an_effect_of_another_session(tale: Tale) -> None:
    done(tale)
    tale.effect(1, session=2)


def i5_an_effect_by_itself(tale: Tale) -> None:
    running(tale)
    tale.effects.append(Effect(tale.last(1).seq, 1, 1, 1, xact=99))
    tale.finish(1)


def i5_an_effect_twice(tale: Tale) -> None:
    done(tale)
    tale.effect(1)
    tale.effect(1)


def i5_ended_by_another_worker(tale: Tale) -> None:
    tale.session(2)
    tale.enqueue(1)
    tale.claim(1, worker=2)
    tale.finish(1, program="relevo settle w1")


def i5_completed_before_it_had_answered(tale: Tale) -> None:
    running(tale)
    tale.note("start", job_id=1, attempt=1)
    tale.finish(1)
    tale.note("end", job_id=1, attempt=1)
