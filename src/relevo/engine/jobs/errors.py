"""What an operator or a handler can be refused."""

from relevo.errors import RelevoError


class JobNotFound(RelevoError, LookupError):
    """A job that this tenant does not have."""

    template = "job %(id)s does not exist here; see `relevo jobs list`, or name its tenant"


class JobArchived(JobNotFound):
    """A job whose retention is over and which the archive keeps."""

    template = (
        "job %(id)s is in the archive, so it cannot be retried; enqueue a new one with the "
        "payload that `relevo jobs show %(id)s` prints"
    )


class JobHeld(RelevoError):
    """A job that a worker is running."""

    template = (
        "job %(id)s is running its start %(attempt)s, so it cannot be retried; "
        "wait until it ends, or stop its worker"
    )


class KeyHeld(RelevoError):
    """A finished job whose key another live job of its kind has taken."""

    template = (
        "job %(id)s cannot start again: another %(kind)r with the same key is waiting or running; "
        "wait for that one, or cancel it first"
    )


class LeaseLost(RelevoError):
    """A handler that wanted to complete a job which is no longer its own."""

    template = (
        "job %(id)s was given to another worker while start %(attempt)s was running, so nothing of "
        "this transaction was kept; the other start decides"
    )


class AlreadyCompleted(RelevoError):
    """A handler that opened a second completing transaction."""

    template = (
        "job %(id)s was completed by an earlier ctx.transaction(); put all its writes into one, or "
        "use ctx.connection() for those that may be repeated"
    )
