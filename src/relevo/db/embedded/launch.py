"""Join the server that runs in a directory, or start one; and stop it.

The callers hold the gate, so one process at a time is in here. Whether a
server lives is asked of its lock, whether it is ready of the server itself.
"""

import errno
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

from relevo.db.embedded import binaries, cluster, postmaster
from relevo.db.embedded.account import Account, name_of
from relevo.db.embedded.errors import EmbeddedError, NotReady, StartFailed, UnusableDirectory
from relevo.db.embedded.locks import Deadline, FileLock
from relevo.db.embedded.paths import Layout
from relevo.db.embedded.postmaster import Address

_QUOTED = 2000  # characters of the log
_PATIENCE = 0.5  # of the time that a stop may take, before it is made to stop at once


def join_or_start(
    layout: Layout, account: Account, settings: Mapping[str, str], deadline: Deadline
) -> Address:
    """The address of a server that answers, started here if none runs.

    Raises:
        EmbeddedError: It cannot start, and why.
    """
    with FileLock(layout.server) as server:
        # Held by a server that is up, coming up or going down, or by an orphaned initdb.
        await_that(lambda: server.try_exclusive() or _answers(layout), "ready", layout, deadline)
        stale = postmaster.read_address(layout)
        if stale and not server.try_exclusive():
            return stale
        found = binaries.prepare(layout, account)
        cluster.check_major(layout, found)
        cluster.create(layout, found, account, settings, server)
        cluster.write_access(layout)
        quoted_from = layout.log.stat().st_size if layout.log.exists() else 0
        postmaster.spawn(layout, found, account, settings, server)
    await_that(lambda: _answers(layout, stale) or is_gone(layout), "ready", layout, deadline)
    address = postmaster.read_address(layout)
    if address is None or is_gone(layout):
        raise _start_failed(layout, quoted_from)
    return address


def shut_down(layout: Layout, account: Account, deadline: Deadline) -> None:
    """Stop the server, if it runs, and wait until its last process is gone.

    It is asked for a fast shutdown, and for an immediate one where half the time is over.

    Raises:
        NotReady: That took too long; it goes on shutting down.
    """
    address = postmaster.read_address(layout)
    if address and not is_gone(layout):
        postmaster.ask_to_stop(address, account)
        if not Deadline(deadline.seconds * _PATIENCE).wait_for(lambda: is_gone(layout)):
            # A server that recovers from a crash may miss what it is asked; what it had
            # committed is in its log, and the next start recovers it.
            postmaster.ask_to_stop(address, account, at_once=True)
    await_that(lambda: is_gone(layout), "gone", layout, deadline)
    if address:
        postmaster.remove_socket_folder(layout, address)


def is_gone(layout: Layout) -> bool:
    """Whether no process of the server lives."""
    with FileLock(layout.server) as server:
        return server.try_exclusive()


def await_that(
    condition: Callable[[], bool], awaited: str, layout: Layout, deadline: Deadline
) -> None:
    """Wait for a condition, or say what did not come true in time."""
    if not deadline.wait_for(condition):
        seconds = f"{deadline.seconds:g}"
        raise NotReady(root=layout.root, awaited=awaited, seconds=seconds, log=layout.log)


@contextmanager
def system_errors_said(layout: Layout) -> Generator[None, None, None]:
    """Turn what the system refuses into an error that says what to do."""
    try:
        yield
    except OSError as error:
        # A failed copy of many files has no errno of its own, only a text.
        if error.errno in {errno.ENOSPC, errno.EDQUOT} or cluster.is_full(layout, str(error)):
            raise cluster.disk_full(layout) from error
        reason = error.strerror or str(error)
        account = name_of(os.geteuid())
        raise UnusableDirectory(root=layout.root, account=account, reason=reason) from error


def _answers(layout: Layout, stale: Address | None = None) -> bool:
    address = postmaster.read_address(layout)
    return address is not None and address != stale and address.answers()


def _start_failed(layout: Layout, quoted_from: int) -> EmbeddedError:
    with layout.log.open(errors="replace") as log:
        log.seek(quoted_from)
        tail = log.read()[-_QUOTED:].strip()
    if cluster.is_full(layout, tail):
        return cluster.disk_full(layout)
    return StartFailed(root=layout.root, log=layout.log, tail=tail)
