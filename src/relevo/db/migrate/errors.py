"""What can stand in the way of a migration, and what to do about it."""

from typing import ClassVar

from relevo.errors import RelevoError


class MigrationError(RelevoError):
    """The database was not migrated; every refusal of this package is one of these."""


class LinesWrong(MigrationError):
    """Two lines share a name, or a name is not a word in lower case."""

    template: ClassVar[str] = (
        "%(line)r cannot be the name of a line of migrations here; "
        "give each line a word of its own in lower case"
    )


class MigrationMisnamed(MigrationError):
    """A file in the folder of a line has no number or no name."""

    template: ClassVar[str] = (
        "%(file)s in line %(line)s is not named like 0001_what_it_does.sql; rename it"
    )


class MigrationMisnumbered(MigrationError):
    """The files of a line do not count 1, 2, 3, …."""

    template: ClassVar[str] = (
        "line %(line)s has %(file)s where number %(expected)04d belongs; "
        "number its files without gaps or repeats"
    )


class MigrationControlsTransaction(MigrationError):
    """A file begins or ends a transaction although each already runs in one."""

    template: ClassVar[str] = (
        "%(file)s in line %(line)s says %(statement)r, but every migration already runs "
        "in one transaction; leave it out, or begin the file with '-- transaction: none'"
    )


class MigrationNotRepeatable(MigrationError):
    """A statement outside a transaction would not survive a kill and a second run."""

    template: ClassVar[str] = (
        "%(file)s in line %(line)s runs outside a transaction and could not be resumed "
        "after %(statement)r; use a form that may run twice, such as CREATE INDEX CONCURRENTLY "
        "name ON schema.table, or move it to a file with a transaction"
    )


class MigrationChanged(MigrationError):
    """The file of an applied migration has another content now."""

    template: ClassVar[str] = (
        "migration %(version)04d %(name)s of line %(line)s was applied with another content; "
        "restore the file as it was and write the change as a new migration"
    )


class MigrationOutOfOrder(MigrationError):
    """A later migration was applied before an earlier one."""

    template: ClassVar[str] = (
        "migration %(version)04d %(name)s of line %(line)s is not applied although a later one "
        "is; give it the next free number"
    )


class DatabaseNewer(MigrationError):
    """The database knows a migration that these files do not have."""

    template: ClassVar[str] = (
        "the database has migration %(version)04d %(name)s of line %(line)s, which this "
        "installation does not know; install the release that applied it, or a newer one"
    )


class ServerTooOld(MigrationError):
    """The server is older than any that relevo supports."""

    template: ClassVar[str] = (
        "the server is PostgreSQL %(version)s and relevo needs 15 or newer; upgrade the server"
    )


class ServerReadOnly(MigrationError):
    """The server is a standby and takes no writes."""

    template: ClassVar[str] = (
        "the server is a standby and cannot be migrated; give the DSN of the primary"
    )


class SchemaForbidden(MigrationError):
    """The migrating role does not own the schema, or may not create it."""

    template: ClassVar[str] = (
        "role %(user)s may not create or change the schema relevo in database %(database)s; "
        "migrate as the schema's owner, or run `relevo db sql` and hand the script to "
        "the database's administrator"
    )


class MigratorsBusy(MigrationError):
    """Somebody else has been migrating the same database all the time."""

    template: ClassVar[str] = (
        "another migration of this database has been running for %(waited)d seconds; "
        "wait until it ends and migrate again"
    )


class MigrationBlocked(MigrationError):
    """Other transactions kept the locks that a migration needs."""

    template: ClassVar[str] = (
        "migration %(version)04d %(name)s of line %(line)s did not get its locks in %(tries)d "
        "tries; end the long transactions that pg_stat_activity shows and migrate again"
    )


class MigrationRefused(MigrationError):
    """The database refused a statement of a migration."""

    template: ClassVar[str] = (
        "migration %(version)04d %(name)s of line %(line)s was refused: %(reason)s; "
        "remove the cause and migrate again"
    )


class IndexInvalid(MigrationError):
    """An index was built and is still not usable."""

    template: ClassVar[str] = (
        "index %(index)s is invalid after its build; see the server's log and migrate again"
    )
