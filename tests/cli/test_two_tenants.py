"""Two organisations in one installation, one worker for both, and neither sees the other."""

import json
from pathlib import Path
from typing import Any

import pytest
from real_command import Command

from relevo.integrations.smtp.sink import Received, Sink
from workers import query

# The same ids, the same name of the cycle: only the tenant tells them apart.
CYCLE = "2025"
PEOPLE = {
    "north": "id,name,email,manager\n1,Ana,ana@north.example,\n2,Bruno,bruno@north.example,1\n",
    "south": "id,name,email,manager\n1,Célia,celia@south.example,\n2,Dan,dan@south.example,1\n"
    "3,Eva,eva@south.example,1\n",
}


@pytest.fixture
def shared(relevo: Command, home: Path) -> Command:
    """The command with an installation of two tenants, each with an active cycle."""
    relevo.variables["RELEVO_TENANTS"] = "multi"
    assert relevo("db", "init").returncode == 0
    for tenant, people in PEOPLE.items():
        file = home / f"{tenant}.csv"
        file.write_text(people, encoding="utf-8")
        done(relevo, "tenants", "add", tenant)
        imported = answer(relevo, tenant, "people", "import", str(file))
        assert imported["created"] == imported["people"] == people.count("@")
        answer(relevo, tenant, "cycle", "create", CYCLE)
    for tenant in PEOPLE:
        answer(relevo, tenant, "cycle", "activate", CYCLE, "--hold", "0")
    return relevo


def done(command: Command, *words: str, code: int = 0) -> str:
    ended = command(*words)
    assert ended.returncode == code, ended.stderr
    return ended.stdout


def answer(command: Command, tenant: str, *words: str) -> Any:
    return json.loads(done(command, *words, "--tenant", tenant, "-o", "json"))


def deliver(command: Command, home: Path) -> list[Received]:
    """Run one worker until nothing is due; answers the mails that went out."""
    with Sink() as sink:
        mail = {"RELEVO_SMTP_URL": sink.url, "RELEVO_SMTP_FROM": "hr@example.com"}
        done(Command(home, {**command.variables, **mail}), "worker", "-q", "mail", "--drain")
        return list(sink.received)


def test_one_worker_delivers_to_each_tenants_people_their_own_mails(
    shared: Command, home: Path, database: str
) -> None:
    mails = deliver(shared, home)

    assert sorted(mail.recipient for mail in mails) == [
        "ana@north.example",
        "bruno@north.example",
        "celia@south.example",
        "dan@south.example",
        "eva@south.example",
    ]
    names = {"north": ["Ana", "Bruno"], "south": ["Célia", "Dan", "Eva"]}
    for tenant, own in names.items():
        seen = answer(shared, tenant, "cycle", "status", CYCLE, "--people")
        assert seen["notifications"]["delivered"] == seen["notifications"]["total"] == len(own)
        assert [each["name"] for each in seen["people"]] == own
        assert all(each["email"].endswith(f"@{tenant}.example") for each in seen["people"])
    served = query(database, "SELECT count(DISTINCT tenant_id), count(*) FROM relevo.jobs")
    assert served == [(2, 5)]


def test_each_tenant_sees_only_its_own_cycles_and_jobs(shared: Command) -> None:
    cycles = {tenant: answer(shared, tenant, "cycle", "list")["cycles"] for tenant in PEOPLE}
    jobs = {tenant: answer(shared, tenant, "jobs", "list")["jobs"] for tenant in PEOPLE}

    assert [len(each) for each in cycles.values()] == [1, 1]
    assert cycles["north"][0]["id"] != cycles["south"][0]["id"]
    assert (cycles["north"][0]["participants"], cycles["south"][0]["participants"]) == (2, 3)
    assert [len(each) for each in jobs.values()] == [2, 3]
    assert {job["tenant_id"] for job in jobs["north"]}.isdisjoint(
        job["tenant_id"] for job in jobs["south"]
    )


def test_what_belongs_to_another_tenant_does_not_exist(shared: Command) -> None:
    (cycle,) = answer(shared, "north", "cycle", "list")["cycles"]
    job = answer(shared, "north", "jobs", "list")["jobs"][0]

    for words in (("cycle", "status", cycle["id"]), ("cycle", "recall", cycle["id"])):
        done(shared, *words, "--tenant", "south", code=3)
    for words in (("jobs", "show", str(job["id"])), ("jobs", "retry", str(job["id"]))):
        done(shared, *words, "--tenant", "south", code=3)


def test_nothing_is_done_for_a_tenant_that_was_not_named(shared: Command, home: Path) -> None:
    for words in (
        ("people", "import", str(home / "north.csv")),
        ("cycle", "activate", CYCLE),
        ("cycle", "list"),
        ("jobs", "list"),
    ):
        done(shared, *words, code=2)
    done(shared, "cycle", "list", "--tenant", "nowhere", code=3)
