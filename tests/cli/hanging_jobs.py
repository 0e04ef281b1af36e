"""An application that one process imports, and in whose import every later one hangs."""

import os
import time
from pathlib import Path

from child_jobs import app

__all__ = ["app"]

try:
    os.close(os.open(os.environ["HANGING_AFTER"], os.O_CREAT | os.O_EXCL))
except FileExistsError:
    Path(f"{os.environ['HANGING_AFTER']}.{os.getpid()}").touch()
    time.sleep(3600)
