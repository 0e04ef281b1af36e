"""The data directory: create it whole or not at all, and refuse one of another major.

What initdb writes becomes `data` by one rename, so a start that was killed in
the middle leaves nothing that looks finished.
"""

import os
import shutil
from collections.abc import Mapping

from relevo.db.embedded.account import Account
from relevo.db.embedded.binaries import Binaries
from relevo.db.embedded.errors import DamagedData, DiskFull, InitFailed, OtherMajor
from relevo.db.embedded.locks import FileLock
from relevo.db.embedded.paths import Layout, make_private

SUPERUSER = "postgres"
_FIRST_BUILTIN_LOCALE = 17
_MEGABYTE = 1024 * 1024

# Trust is only for the socket, whose directory nobody else can enter. Whoever comes over TCP
# (only with the setting listen_addresses) needs a password, and no role has one at first.
_HBA = """\
# Written at every start of the embedded server; changes here are lost.
local all         all     trust
local replication all     trust
host  all         all all scram-sha-256
"""


def disk_full(layout: Layout) -> DiskFull:
    """The error that says how much room is left."""
    return DiskFull(root=layout.root, free=_free(layout) // _MEGABYTE)


def is_full(layout: Layout, said: str) -> bool:
    """Whether a failure is a full disk: PostgreSQL says so, unless its log is full as well."""
    told = "No space left on device" in said or "Disk quota exceeded" in said
    return told or _free(layout) < _MEGABYTE


def _free(layout: Layout) -> int:
    there = next(folder for folder in (layout.root, *layout.root.parents) if folder.exists())
    return shutil.disk_usage(there).free


def check_major(layout: Layout, binaries: Binaries) -> None:
    """Refuse a data directory that these binaries cannot open, before anything is changed."""
    if not layout.data.exists():
        return
    try:
        found = int((layout.data / "PG_VERSION").read_text())
    except (FileNotFoundError, ValueError):
        raise DamagedData(data=layout.data) from None
    if found != binaries.major:
        raise OtherMajor(data=layout.data, found=found, bin=binaries.bin, major=binaries.major)


def create(
    layout: Layout,
    binaries: Binaries,
    account: Account,
    settings: Mapping[str, str],
    server: FileLock,
) -> None:
    """Create the data directory unless it is there.

    Args:
        layout: Where.
        binaries: Whose initdb.
        account: Who owns the data.
        settings: Only fsync is looked at: without it, initdb does not wait for the disk.
        server: The server's lock; initdb inherits it, so that an initdb whose starter was
            killed is waited for instead of met.
    """
    if layout.data.exists():
        return
    fresh = layout.root / "data.new"
    shutil.rmtree(fresh, ignore_errors=True)
    make_private(fresh, account)
    locale = ["--locale=C"]
    if binaries.major >= _FIRST_BUILTIN_LOCALE:
        locale += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    # These two methods are for a server that somebody starts by hand on this data: its socket
    # would be open to all. Ours are in `_HBA`.
    access = ["--auth-local=peer", "--auth-host=scram-sha-256"]
    speed = ["--no-sync"] if settings.get("fsync") == "off" else []
    answer = account.run(
        [
            *(binaries.bin / "initdb", "-D", fresh, "-U", SUPERUSER, "-E", "UTF8"),
            *("--data-checksums", "--no-instructions", *locale, *access, *speed),
        ],
        keep=[server.fd],
    )
    if answer.returncode != 0:
        full = is_full(layout, answer.stdout)
        shutil.rmtree(fresh, ignore_errors=True)
        raise (
            disk_full(layout) if full else InitFailed(data=layout.data, tail=answer.stdout[-2000:])
        )
    with (fresh / "postgresql.conf").open("a", encoding="utf-8") as settings_file:
        # A queue makes dead rows faster than PostgreSQL's own pace of a minute can bear.
        settings_file.write("autovacuum_naptime = 10s\n")
    fresh.rename(layout.data)
    folder = os.open(layout.root, os.O_RDONLY)
    os.fsync(folder)  # else a power cut could undo the rename, and the next start begin anew
    os.close(folder)


def write_access(layout: Layout) -> None:
    """Write who may connect, readable by the server's account."""
    layout.hba.write_text(_HBA)
    layout.hba.chmod(0o644)
