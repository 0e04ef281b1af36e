"""The archive: switch it on and off, and keep the months that it needs and no others."""

from relevo.db.operation import Operation
from relevo.engine.jobs.prune import BATCH, BEGINNING, Place
from relevo.store import archive
from relevo.store.archive import Month, Setting

__all__ = [
    "Month",
    "Setting",
    "drop_month",
    "list_months",
    "make_months",
    "read_archive",
    "switch_archive",
]

read_archive = archive.read_archive
list_months = archive.list_months
drop_month = archive.drop_month


def switch_archive(setting: Setting) -> Operation[Setting]:
    """Switch the archive on or off, as the owner of the schema.

    From the commit on, every pruner that begins a batch keeps to it; one that is old enough
    not to know the archive then prunes nothing. Months that are there stay for their time.
    """
    switched = yield from archive.switch_archive(setting)
    if switched.archiving:
        yield from make_months()
    return switched


def make_months(after: Place = BEGINNING) -> Operation[int]:
    """Make the months that the next batch needs, this one and the next; answer how many.

    Nothing is made while the archive is off. Each is best a transaction of its own, so that
    the locks of one are not held through the next. A month that has to wait is left out.

    Args:
        after: Where the batch before stopped.
    """
    made = 0
    missing = yield from archive.find_missing_months(BATCH, after)
    for month in missing:
        made += yield from archive.make_month(month)
    return made
