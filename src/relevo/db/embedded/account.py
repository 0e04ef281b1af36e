"""Who the server runs as: this user, or an unprivileged account when this user is root.

PostgreSQL refuses to run as root. Root keeps the directory, the locks and the
log; only the data and the socket belong to the account, so nothing that the
account could change is ever followed by root.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from relevo.db.embedded.errors import UnknownAccount

if sys.platform != "win32":
    import pwd

# Enough to run. The rest stays with us: a session of the server's superuser could read the secrets
# in it, and the PG variables would speak to the server itself.
_PASSED_ON = ("PATH", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

# Prints the first directory that cannot be entered.
_FIRST_CLOSED = 'for d; do cd "$d" 2>/dev/null || { printf %s "$d"; exit; }; done'


def name_of(uid: int) -> str:
    """The name of a user, or the number of one without a name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


@dataclass(frozen=True, slots=True)
class Account:
    """The user that the server's processes run as.

    Attributes:
        uid: The user's number.
        gid: The number of the user's group.
        switched: Whether this process is root and has to become that user.
    """

    uid: int
    gid: int
    switched: bool

    @classmethod
    def choose(cls, run_as: str) -> Self:
        """Take this user, or `run_as` when this user is root."""
        if os.geteuid() != 0:
            return cls(os.geteuid(), os.getegid(), switched=False)
        try:
            entry = pwd.getpwnam(run_as)
        except KeyError:
            raise UnknownAccount(account=run_as, reason="there is no such account") from None
        if entry.pw_uid == 0:
            raise UnknownAccount(account=run_as, reason="PostgreSQL refuses to run as root")
        return cls(entry.pw_uid, entry.pw_gid, switched=True)

    @property
    def name(self) -> str:
        """The name of the user."""
        return name_of(self.uid)

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        keep: Sequence[int] = (),
        log: int | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program as this user, in a session of its own, and wait for it.

        Args:
            argv: The program and its arguments; no shell reads them.
            keep: Open files that the program inherits.
            log: An open file for what the program says; answered as text when missing.
            variables: More of the environment.
        """
        switch: dict[str, Any] = {}
        if self.switched:
            switch = {"user": self.uid, "group": self.gid, "extra_groups": []}
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        return subprocess.run(  # noqa: S603 - the programs are PostgreSQL's and /bin/sh
            [str(word) for word in argv],
            check=False,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if log is None else log,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={**environment, "LC_ALL": "C", **(variables or {})},  # C: messages as we read them
            start_new_session=True,
            pass_fds=keep,
            **switch,
        )

    def first_closed(self, folders: Sequence[Path]) -> Path | None:
        """The first of these directories that the user cannot enter, if any."""
        answer = self.run(["/bin/sh", "-c", _FIRST_CLOSED, "sh", *folders]).stdout
        return Path(answer) if answer else None
