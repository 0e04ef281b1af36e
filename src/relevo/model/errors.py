"""What is refused before anything is written: declarations, payloads, keys."""

from relevo.errors import RelevoError


class InvalidBackoff(RelevoError, ValueError):
    """A retry rule that would never wait or never end."""

    template = "the retry rule cannot be used: %(what)s; correct the value"


class InvalidKind(RelevoError, ValueError):
    """A kind of job that cannot be declared."""

    template = "kind %(kind)r cannot be declared: %(what)s; correct the declaration"


class KindExists(RelevoError, ValueError):
    """Two handlers under one name."""

    template = "kind %(kind)r already has a handler; give the second one another name"


class UnknownKind(RelevoError, LookupError):
    """A kind that this application has not declared."""

    template = (
        "no handler of this application is called %(kind)r; declare it with @app.job, "
        "or import the module that does"
    )


class InvalidOption(RelevoError, ValueError):
    """An option of an enqueue that makes no sense."""

    template = "%(option)s cannot be %(value)r: %(why)s; %(next)s"


class PayloadError(RelevoError):
    """A payload that would not come back as it went in; nothing was sent to the database."""


class PayloadNotJson(PayloadError, TypeError):
    """A value of a type that JSON does not have."""

    template = (
        "%(path)s is a %(type)s, which would not come back equal; pass text, numbers, booleans, "
        "lists and objects, or annotate the handler's parameter with the type"
    )


class PayloadInvalid(PayloadError, ValueError):
    """A value that JSON or PostgreSQL cannot hold."""

    template = "%(path)s cannot be stored: %(why)s; correct the value before enqueueing it"


class PayloadTooLarge(PayloadError, ValueError):
    """More than a row should carry."""

    template = (
        "the payload has %(size)d bytes and the limit is %(limit)d; store the data in a table of "
        "yours and pass its id, or raise the limit"
    )


class ResultNotStored(RelevoError, ValueError):
    """A result that a row cannot hold; the job is done all the same."""

    template = "the result could not be stored: %(why)s; return less, or plain JSON values"


class PayloadMismatch(PayloadError, TypeError):
    """Arguments that do not fit the handler's parameters."""

    template = "the payload does not fit %(kind)r: %(why)s; correct the arguments"


class TenantRequired(RelevoError, ValueError):
    """An enqueue that does not say whose job it is, where several tenants exist."""

    template = (
        "this application serves several tenants and %(kind)r was enqueued for none; pass tenant_id"
    )
