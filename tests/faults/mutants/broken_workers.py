"""Mutants of a worker's process: what it trusts, and what it does not live through."""

from faults.mutants.mutant import Edit, Mutant

CLAIMER = "relevo/loops/claimer.py"
HANDLERS = "relevo/loops/handlers.py"

OWN_CANCELLATION = """        except asyncio.CancelledError:
            self._end(number, start, self._decide(start, settlement.settle_cancelled))
"""
WHATEVER = "        except BaseException as error:  # noqa: BLE001 -- a handler may raise anything"
AWAITED = "            answer = await start.kind.handler(Context(start.hold), **arguments)\n"

WORKERS = (
    Mutant(
        "an idle worker looks only when it is told",
        "I2",
        "untold_worker",
        (
            Edit(
                CLAIMER,
                "self._woken.wait(timeout=min(rest, start_in))",
                "self._woken.wait(timeout=start_in)",
            ),
        ),
    ),
    Mutant(
        "a claim whose answer was lost is forgotten",
        "I2",
        "lost_answer",
        (
            Edit(
                CLAIMER,
                "self._doubtful = (worker, time.monotonic() + CLAIM_TIMEOUT)",
                "self._doubtful = None",
            ),
        ),
    ),
    Mutant(
        "a lease is counted from when its renewal was answered",
        "I7",
        "slow_heartbeat",
        (
            Edit(
                "relevo/loops/heartbeat.py",
                "        self._proved_at = sent_at\n",
                "        self._proved_at = time.monotonic()\n",
            ),
        ),
    ),
    Mutant(
        "a handler that is cancelled by itself is never answered for",
        "I2",
        "cancels_itself",
        (
            Edit(
                HANDLERS,
                f"{AWAITED}{OWN_CANCELLATION}{WHATEVER}",
                f"{AWAITED}{WHATEVER.replace('BaseException', 'Exception')}",
            ),
        ),
    ),
)
