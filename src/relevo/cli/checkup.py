"""What an application adds to `relevo doctor`: a look at the settings of its own."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Checkup:
    """One thing of an application that is to be looked at.

    Attributes:
        code: Its name for scripts.
        title: Its name for people, in English; translated when shown.
        examine: Answers what was found, and what to do about it; None where all is well.
            Both are said in the language of the run.
        is_set_up: Whether settings for it are here. Where workers run another application and
            there are none, it concerns nobody and is left out.
    """

    code: str
    title: str
    examine: Callable[[], tuple[str, str | None]]
    is_set_up: Callable[[], bool] = bool
