"""What the command line refuses by itself, and what it makes of the driver's errors."""

from relevo.errors import RelevoError


class DatabaseUnreachable(RelevoError):
    """No connection, or one that broke."""

    template = (
        "the database %(dsn)s cannot be reached: %(reason)s; "
        "check the address and that the server runs and lets you in"
    )


class DatabaseMissing(DatabaseUnreachable):
    """The server answers, and has no database of this name."""

    template = (
        "the server of %(dsn)s has no such database: %(reason)s; create it with `relevo db init`"
    )


class LoginRefused(DatabaseUnreachable):
    """The server answers, and does not know this user with this password."""

    template = "the server of %(dsn)s refuses the login: %(reason)s; check user and password"


class EmptyDsn(RelevoError):
    """A connection string was given and says nothing: no other database is taken instead."""

    template = (
        "the connection string from %(source)s is empty; write it like "
        "postgresql://user@host:5432/database, or leave %(source)s out"
    )


class UnreadableDsn(RelevoError):
    """The connection string has no meaning. It may hold a password, so it is not repeated."""

    template = (
        "the connection string from %(source)s cannot be read; "
        "write it like postgresql://user@host:5432/database; "
        "percent-encode @ : / ? # in the user and the password"
    )


class RoleNotAllowed(RelevoError):
    """The login connects, and may not work as the role that the command needs."""

    template = (
        "the login of %(dsn)s cannot work as %(role)s: %(reason)s; "
        "run `relevo db migrate` if this database has no relevo yet, "
        "or grant %(role)s to the login"
    )


class SchemaMissing(RelevoError):
    """The database has no tables of relevo, or those of an older release."""

    template = (
        "the database has no schema of relevo, or one that is too old for this release "
        "(%(reason)s); run `relevo db migrate`"
    )


class MigrationsPending(RelevoError):
    """A worker of this release would meet tables that it does not know."""

    template = (
        "the database lacks %(count)s of this release's migrations, the first is %(first)s; "
        "run `relevo db migrate` before workers of this release start"
    )


class OtherDatabase(RelevoError):
    """The database is not the one that was migrated or adopted: a copy, most likely."""

    template = (
        "this looks like a copy of another database, so nothing is delivered from it: "
        "%(differences)s; "
        "run `relevo db adopt` if deliveries from here are wanted"
    )


class RightsMissing(RelevoError):
    """The role may not do what was asked."""

    template = (
        "the database did not allow it: %(reason)s; "
        "work as the role that owns the schema, or see `relevo doctor`"
    )


class DatabaseRefused(RelevoError):
    """The database said no for a reason that is not ours."""

    template = "the database refused: %(reason)s; add --debug to see where"


class ApplicationNotFound(RelevoError):
    """What --app names is not an application."""

    template = (
        "%(app)r is no application: %(reason)s; name it like package.module:attribute, "
        "where the attribute is a Relevo object"
    )


class ApplicationBroken(RelevoError):
    """The module of the application was found, and importing it failed."""

    template = (
        "%(module)s cannot be imported, it ends with %(error)s (%(place)s); "
        "correct the module, or install what it needs"
    )


class SystemRefused(RelevoError):
    """A file, the output or another thing of the system could not be used."""

    template = (
        "the system refused: %(reason)s; check the space, the rights and where the output goes"
    )


class PackageMissing(RelevoError):
    """The command needs packages that only an extra brings."""

    template = (
        "`relevo %(command)s` needs a package that is not installed (%(package)s); "
        "run: pip install '%(extra)s'"
    )


class UnknownTenancy(RelevoError):
    """The environment says neither one tenant nor many."""

    template = "RELEVO_TENANTS is %(value)r, and it has to be single or multi; correct it"


class TenancyDiffers(RelevoError):
    """The application is for one tenant and the installation for many, or the other way round."""

    template = (
        "the application's mode of tenants is %(application)s and the installation's is "
        "%(installation)s; set RELEVO_TENANTS=%(installation)s (in an application of your own, "
        "Relevo(tenants='%(installation)s')), or change the installation with "
        "`relevo db init --tenants %(application)s`"
    )
