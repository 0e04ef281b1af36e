"""What other people's code may import is decided here, name by name."""

import inspect

import relevo

PUBLIC = {
    "DEFAULT_TENANT",
    "DELIVERY",
    "ENGINE",
    "STANDARD",
    "AsyncConnection",
    "Backoff",
    "Call",
    "Cancel",
    "Context",
    "Embedded",
    "Enqueued",
    "Fail",
    "JobKind",
    "JobState",
    "KeyMode",
    "Line",
    "Operation",
    "Options",
    "Outage",
    "Outcome",
    "PermanentError",
    "Relevo",
    "RelevoError",
    "Retry",
    "Row",
    "Rows",
    "Snooze",
    "Statement",
    "SyncConnection",
    "Translator",
    "Worker",
    "WorkerSettings",
    "add_tenant",
    "load_statements",
    "migrate",
    "perform",
    "resolve_tenant",
    "set_tenant",
    "translator",
    "uuid7",
    "wake",
}


def test_the_public_names_are_these_and_no_others() -> None:
    assert set(relevo.__all__) == PUBLIC


def test_every_public_name_says_what_it_is() -> None:
    undocumented = [
        name
        for name in relevo.__all__
        if (inspect.isclass(getattr(relevo, name)) or inspect.isfunction(getattr(relevo, name)))
        and not (getattr(relevo, name).__doc__ or "").strip()
    ]

    assert undocumented == []
