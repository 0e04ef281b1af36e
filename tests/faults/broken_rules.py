"""Histories in which one rule among jobs, times and tenants is broken; the name says which."""

from dataclasses import replace
from uuid import UUID

from faults.evidence.records import Attempt
from faults.tale import MILLISECOND, Tale, done, running

OTHER = UUID(int=2)


def i6_waiting_and_completed(tale: Tale) -> None:
    tale.enqueue(1)
    tale.change(1, state="completed", finished_at=tale.now)


def i6_completed_and_waiting(tale: Tale) -> None:
    done(tale)
    tale.change(1, state="available", available_at=tale.now * 2, excused=1)
    tale.attempts.append(Attempt(1, 1, "completed"))


def i6_failed_after_completed(tale: Tale) -> None:
    done(tale)
    tale.change(1, state="failed")


def i6_an_event_is_missing(tale: Tale) -> None:
    running(tale)
    tale.change(1, priority=1)
    tale.finish(1)
    del tale.events[-2]


def i6_two_beginnings(tale: Tale) -> None:
    done(tale)
    tale.enqueue(1)
    done(tale, 2)
    tale.claim(1)
    tale.finish(1)
    tale.attempts.clear()


def i6_a_finished_job_is_rewritten(tale: Tale) -> None:
    done(tale)
    tale.change(1, finished_at=tale.now)


def i6_it_begins_in_the_middle(tale: Tale) -> None:
    tale.enqueue(1, state="completed", finished_at=1)


def i7_acknowledged_before_it_was_written(tale: Tale) -> None:
    tale.note("intent", ref="a")
    tale.note("enqueued", ref="a", job_id=1)
    done(tale, ref="a")


def i7_there_before_anybody_wanted_it(tale: Tale) -> None:
    done(tale, ref="a")
    tale.note("intent", ref="a")


def i7_started_before_its_claim(tale: Tale) -> None:
    tale.enqueue(1)
    tale.note("start", job_id=1, attempt=1)
    tale.claim(1)
    tale.finish(1)


def i7_ended_before_its_lease(tale: Tale) -> None:
    tale.session(2)
    tale.note("renewed", session=2, until=tale.now + 100 * MILLISECOND)
    tale.end(2)


def i8_enqueued_without_its_key(tale: Tale) -> None:
    tale.note("intent", ref="a", key="k")
    done(tale, ref="a")


def i8_a_key_twice(tale: Tale) -> None:
    done(tale, 1, key="k")
    done(tale, 2, key="k")


def i8_a_live_key_twice(tale: Tale) -> None:
    running(tale, 1, live_key="k")
    done(tale, 2, live_key="k")
    tale.finish(1)


def i8_a_waiting_key_twice(tale: Tale) -> None:
    for job in (1, 2):
        tale.enqueue(job, waiting_key="k")
    for job in (1, 2):
        tale.claim(job)
        tale.finish(job)


def i8_two_notifications(tale: Tale) -> None:
    columns = {"kind": "cycle.dispatched", "aggregate_id": "c", "evaluator": "e"}
    tale.sessions[1] = replace(tale.sessions[1], kinds=("cycle.dispatched",))
    done(tale, 1, **columns)
    done(tale, 2, **columns)


def i9_too_many_at_once(tale: Tale) -> None:
    tale.limit("queue", "default", 1)
    running(tale, 1)
    done(tale, 2)
    tale.finish(1)


def i9_of_a_kind_that_ran_before(tale: Tale) -> None:
    running(tale, 1)
    tale.limit("kind", "test.work", 1)
    done(tale, 2)
    tale.finish(1)


def i9_after_it_was_lowered(tale: Tale) -> None:
    tale.limit("tenant", "*", 2)
    running(tale, 1)
    tale.limit("tenant", "*", 1, op="update")
    done(tale, 2)
    tale.finish(1)


def i9_in_one_lane(tale: Tale) -> None:
    tale.limit("lane", "test.work", 1)
    running(tale, 1, lane=OTHER)
    done(tale, 2, lane=OTHER)
    tale.finish(1)


def i9_too_many_starts(tale: Tale) -> None:
    tale.limit("queue", "default", 2, measure="starts", seconds=1.0)
    for job in (1, 2, 3):
        done(tale, job)


def i9_starts_beside_what_ran_before(tale: Tale) -> None:
    running(tale, 1)
    tale.limit("queue", "default", 1, measure="starts", seconds=1.0)
    done(tale, 2)
    tale.finish(1)


def i10_two_at_once(tale: Tale) -> None:
    tale.limit("lane", "test.work", measure="order")
    running(tale, 1, lane=OTHER)
    done(tale, 2, lane=OTHER)
    tale.finish(1)


def i10_beside_a_retry(tale: Tale) -> None:
    tale.limit("lane", "test.work", measure="order")
    running(tale, 1, lane=OTHER)
    tale.go_back(1)
    done(tale, 2, lane=OTHER)
    tale.claim(1)
    tale.finish(1)


def i10_beside_the_retry_of_what_ran_before(tale: Tale) -> None:
    running(tale, 1, lane=OTHER)
    tale.limit("lane", "test.work", measure="order")
    done(tale, 2)
    tale.go_back(1)
    done(tale, 3, lane=OTHER)
    tale.claim(1)
    tale.finish(1)


def i10_the_second_first(tale: Tale) -> None:
    tale.limit("lane", "test.work", measure="order")
    for job in (1, 2):
        tale.enqueue(job, lane=OTHER)
    for job in (2, 1):
        tale.claim(job)
        tale.finish(job)


def i14_a_row_changes_hands(tale: Tale) -> None:
    running(tale)
    tale.finish(1, tenant_id=OTHER)


def i14_an_effect_of_another_tenant(tale: Tale) -> None:
    done(tale)
    tale.effect(1, tenant_id=OTHER)


def i14_a_record_of_another_tenant(tale: Tale) -> None:
    running(tale)
    tale.finish(1, "failed")
    tale.attempts[:] = [replace(tale.attempts[0], tenant_id=OTHER)]


def i14_a_start_for_another_tenant(tale: Tale) -> None:
    running(tale)
    tale.note("start", job_id=1, attempt=1, tenant_id=OTHER)
    tale.finish(1)


def i14_cancelled_by_another_tenant(tale: Tale) -> None:
    tale.enqueue(1)
    tale.change(1, state="cancelled", finished_at=1, scope=str(OTHER))


def i14_enqueued_for_another_tenant(tale: Tale) -> None:
    tale.note("intent", ref="a", tenant_id=OTHER)
    done(tale, ref="a")


def i15_never_delivered(tale: Tale) -> None:
    running(tale, 1)
    tale.note("delivered", job_id=1, key="a")
    tale.finish(1)
    done(tale, 2)


def i15_under_two_keys(tale: Tale) -> None:
    running(tale, 1)
    tale.note("delivered", job_id=1, key="a")
    tale.note("delivered", job_id=1, key="b")
    tale.finish(1)


def i15_of_nothing(tale: Tale) -> None:
    tale.note("delivered", job_id=9, key="a")
