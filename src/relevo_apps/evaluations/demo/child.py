"""The worker of a demonstration: the one that everybody runs, and gone when its parent is.

Whoever kills the demonstration must not leave a worker that goes on alone. The parent
holds the other end of standard input, which closes however the parent ends.
"""

import ctypes
import os
import signal
import sys
import threading
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def follow_parent() -> None:
    """Ask this process to stop as soon as its parent is gone."""
    if sys.platform == "linux":
        # Quicker than the pipe, and right even where something inherited the pipe.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    threading.Thread(target=_stop_at_end, name="relevo-demo-parent", daemon=True).start()


def _stop_at_end() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    # Only here: the composition root imports the applications, never the other way round.
    from relevo_apps.main import main

    follow_parent()
    main()
