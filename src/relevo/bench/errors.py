"""What a measurement refuses."""

from relevo.errors import RelevoError


class BenchRunning(RelevoError):
    """Two measurements at once would measure each other."""

    template = "another `relevo bench` works on this database; try again when it has ended"


class ScratchTaken(RelevoError):
    """A schema of the scratch schema's name exists, and no measurement has made it."""

    template = (
        "the schema %(schema)s exists and is not of `relevo bench`, which would drop it; "
        "rename it, or measure another database"
    )


class BenchStalled(RelevoError):
    """Jobs of the measurement wait, and nothing runs them."""

    template = (
        "no job of the queue %(queue)s has moved for %(seconds)d seconds; see with `relevo doctor` "
        "and the log lines above whether a pause or a limit holds it, or the worker cannot work"
    )


class MarkedAsProduction(RelevoError):
    """Real work is done here, and a measurement takes its share of the machine."""

    template = (
        "this installation is marked as %(environment)r, and a measurement slows down what else "
        "works here; measure a copy, or add --yes if a slow minute does no harm"
    )
