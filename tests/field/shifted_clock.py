"""Put this process's clock ahead or back by RELEVO_TEST_SHIFT seconds; import it first.

What is shifted is where a Python program reads the time of day. The clock that only counts
(time.monotonic) stays as it is, as on a host whose date is wrong. libfaketime does the same from
outside where it is installed, and then nothing is left to do here.
"""

import datetime as dt
import os
import time
from pathlib import Path
from typing import Self

LIBRARIES = [str(found) for found in Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")]


def environment(seconds: int) -> dict[str, str]:
    """What a process needs in order to live at another time."""
    if LIBRARIES:
        return {
            "LD_PRELOAD": LIBRARIES[0],
            "FAKETIME": f"{seconds:+d}s",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "RELEVO_TEST_SHIFT": "0",
        }
    return {"RELEVO_TEST_SHIFT": str(seconds)}


def shift(seconds: int) -> None:
    """Put the clock ahead, or back by a negative number."""
    read, read_ns, true = time.time, time.time_ns, dt.datetime

    class Shifted(true):  # type: ignore[valid-type,misc] -- the class that the process has
        """The date and time as this process believes them to be."""

        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Self:
            """Answer the wrong time."""
            return cls.fromtimestamp(time.time(), tz)

    time.time = lambda: read() + seconds
    time.time_ns = lambda: read_ns() + seconds * 10**9
    dt.datetime = Shifted  # type: ignore[misc] -- what is imported later sees this one


if os.environ.get("RELEVO_TEST_SHIFT", "0") != "0":
    shift(int(os.environ["RELEVO_TEST_SHIFT"]))
