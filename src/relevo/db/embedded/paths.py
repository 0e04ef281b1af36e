"""Where an embedded server keeps its files, and whose directory that may be.

`claim` refuses a directory that is somebody else's before it changes
anything, and never touches the directories above it.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from relevo.db.embedded.account import Account, name_of
from relevo.db.embedded.errors import ForeignDirectory, OwnedByAnother, Unreachable


def default_root() -> Path:
    """The directory of the server that a user gets without naming one.

    It is the folder `postgresql` in `RELEVO_HOME`, or in /var/lib/relevo for root (whose home
    the server's account cannot enter), or in the user's XDG data directory.
    """
    if home := os.environ.get("RELEVO_HOME"):
        base = Path(home).expanduser().absolute()
    elif os.geteuid() == 0:
        base = Path("/var/lib/relevo")
    else:
        shared = os.environ.get("XDG_DATA_HOME", "")
        # The XDG specification: a relative path is to be ignored.
        base = Path(shared) if Path(shared).is_absolute() else Path.home() / ".local" / "share"
        base /= "relevo"
    return base / "postgresql"


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one embedded server.

    Attributes:
        root: The directory that holds all of them.
    """

    root: Path

    @property
    def gate(self) -> Path:
        """Locked by who starts or stops the server; its presence says that the root is ours."""
        return self.root / "relevo-embedded.lock"

    @property
    def clients(self) -> Path:
        """Locked, shared, by every process that uses the server."""
        return self.root / "clients.lock"

    @property
    def server(self) -> Path:
        """Locked by the server's processes for as long as one of them lives."""
        return self.root / "server.lock"

    @property
    def data(self) -> Path:
        """PostgreSQL's data directory."""
        return self.root / "data"

    @property
    def sockets(self) -> Path:
        """The private directory of the server's socket."""
        return self.root / "run"

    @property
    def copies(self) -> Path:
        """Binaries copied for an account that cannot reach the originals."""
        return self.root / "pg"

    @property
    def hba(self) -> Path:
        """Who may connect and how, written at every start."""
        return self.root / "pg_hba.conf"

    @property
    def log(self) -> Path:
        """What the server says."""
        return self.root / "server.log"


def claim(layout: Layout, account: Account) -> None:
    """Make the root directory, or accept one that is ours, and close it to others.

    Raises:
        ForeignDirectory: It holds something else.
        OwnedByAnother: It belongs to another user.
        Unreachable: The server's account cannot enter a directory above it.
    """
    root = layout.root
    if root.exists():
        owner = root.stat().st_uid
        if owner != os.geteuid():
            raise OwnedByAnother(path=root, owner=name_of(owner), account=name_of(os.geteuid()))
        # Looked into first: another starter's gate is the first thing that it puts there.
        if not root.is_dir() or (any(root.iterdir()) and not layout.gate.exists()):
            raise ForeignDirectory(root=root)
    above = [folder for folder in reversed(root.parents) if folder.is_dir()]
    if account.switched and (closed := account.first_closed(above)):
        raise Unreachable(account=account.name, path=closed, root=root)
    # Others may pass through root's directory, because the server's account must, but not look.
    mode = 0o711 if account.switched else 0o700
    for folder in (*reversed(root.parents), root):
        if not folder.exists():
            folder.mkdir(exist_ok=True)
            folder.chmod(mode)
    root.chmod(mode)
    layout.gate.touch(mode=0o600)


def make_private(folder: Path, account: Account) -> None:
    """Make a directory that only the server's account can enter, or accept such a one.

    Raises:
        OwnedByAnother: Somebody else was there first.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if folder.is_symlink() or found.st_uid not in {account.uid, os.geteuid()}:
        raise OwnedByAnother(path=folder, owner=name_of(found.st_uid), account=account.name)
    if account.switched:
        os.chown(folder, account.uid, account.gid, follow_symlinks=False)
    folder.chmod(0o700)
