"""Serve `field_jobs` from a process of its own; the words are those of child_worker.py."""

import sys
import time

import shifted_clock  # noqa: F401 -- first: the others read the clock that it leaves

# isort: split
import field_jobs

import child_worker

if __name__ == "__main__":
    print(f"believes {time.time():.0f}", file=sys.stderr, flush=True)  # noqa: T201 -- the test reads it
    child_worker.app = field_jobs.app
    child_worker.main()
