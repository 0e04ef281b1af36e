"""What other people's code may import is decided here, name by name."""

import builtins
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import relevo

PUBLIC = {
    "DEFAULT_TENANT",
    "DELIVERY",
    "ENGINE",
    "KEEP",
    "STANDARD",
    "WEB_ROLE",
    "AsyncConnection",
    "Backoff",
    "Call",
    "Cancel",
    "Cancelled",
    "cancel_jobs",
    "requeue_jobs",
    "Context",
    "Embedded",
    "EmbeddedError",
    "Enqueued",
    "Fail",
    "InvalidOption",
    "JobKind",
    "JobNotFound",
    "JobState",
    "KeyMode",
    "LeaseLost",
    "Limit",
    "Line",
    "MigrationError",
    "NotInTransaction",
    "Operation",
    "Options",
    "Outage",
    "Outcome",
    "PayloadError",
    "PermanentError",
    "Relevo",
    "RelevoError",
    "Retention",
    "Retry",
    "Row",
    "Rows",
    "Snooze",
    "Statement",
    "SyncConnection",
    "TenantExists",
    "TenantNotFound",
    "TenantRequired",
    "Translator",
    "UnknownConnection",
    "Worker",
    "WorkerSettings",
    "add_tenant",
    "default_root",
    "load_statements",
    "migrate",
    "perform",
    "resolve_tenant",
    "set_tenant",
    "translator",
    "uuid7",
    "wake",
}

# Mistakes in a program or in how an installation was set up: nobody catches them one by
# one, people read and mend them.
MENDED = {
    "AlreadyCompleted",
    "InvalidBackoff",
    "InvalidKind",
    "KindExists",
    "NotReady",
    "OneTenantOnly",
    "RolesMissing",
    "TenantNotNamed",
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


def test_every_error_that_a_public_docstring_promises_is_public() -> None:
    """Mechanism: reads the Raises of everything that applications call."""
    promised = set()
    for name in relevo.__all__:
        public = getattr(relevo, name)
        for each in (public, *vars(public).values()) if inspect.isclass(public) else (public,):
            text = inspect.getdoc(each) or ""
            raises = text.partition("Raises:\n")[2]
            promised |= set(re.findall(r"^    (\w+):", raises, re.MULTILINE))

    promised -= set(dir(builtins))
    assert promised - set(relevo.__all__) == MENDED


def test_the_names_for_commands_are_these_and_no_others() -> None:
    assert set(importlib.import_module("relevo.cli").__all__) == {
        "Checkup",
        "Database",
        "Duration",
        "Exit",
        "Late",
        "Progress",
        "Shell",
        "Whole",
        "build_cli",
        "command",
        "gettext",
        "group",
        "ngettext",
        "option",
        "options",
        "pass_shell",
        "read_tenancy",
        "register_exit",
        "say_error",
        "tenant_option",
    }


def test_the_public_rooms_cost_no_driver_until_one_is_needed() -> None:
    seen = "sorted({'psycopg', 'msgspec', 'rich'} & set(sys.modules))"
    code = f"import sys, relevo, relevo.cli, relevo_apps.main; print({seen})"

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert said.stdout == "[]\n"


def test_applications_use_the_public_rooms_only() -> None:
    """Beside the import contract: every import of the applications, the late ones too."""
    used = set()
    root = Path(importlib.import_module("relevo_apps").__file__ or "").parent
    for file in root.rglob("*.py"):
        used |= set(re.findall(r"from (relevo(?:\.\w+)*) import", file.read_text(encoding="utf-8")))

    assert {room for room in used if not room.startswith("relevo.integrations.")} == {
        "relevo",
        "relevo.cli",
    }
