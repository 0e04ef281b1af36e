"""Measure relevo beside the raw loop of the same kind, and with PEERS=1 beside other queues.

    python benchmarks/run.py                 everything, with the activation of a large cycle
    PEERS=1 python benchmarks/run.py         the same beside peers
    python benchmarks/run.py show FILE...    print results again

Rounds visit everybody in turn, so read ratios of the same round: what the machine does
meanwhile meets all alike. Each figure is a line of JSON in the file of results.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.contenders import OURS, PEERS, Contender
from harness.environments import Unavailable, default_cache, python_for
from harness.report import read_lines, show
from harness.rounds import Sizes, Visit
from harness.servers import Server, open_server


class Results:
    """The file of results; every line is written as soon as it is known."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path

    def add(self, **line: Any) -> None:
        """Add a line, and say it."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        said = [f"{key} {_short(line[key])}" for key in line if key not in ("settings", "left")]
        print(f"{time.strftime('%H:%M:%S')}  {', '.join(said)}", flush=True)


def main() -> None:
    """Measure, or show what was measured."""
    if sys.argv[1:2] == ["show"]:
        show(read_lines(map(Path, sys.argv[2:])))
        return
    # As Ctrl-C does: an embedded server and the databases of a round are not left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = _read_options()
    results = Results(options.out)
    chosen = _install(_choose(options), options.cache, results)
    if options.rounds:
        with open_server(options.dsn) as server:
            _run_rounds(server, chosen, options, results)
    if options.people:
        _activate(options.people, results)
    show(read_lines([results.path]))
    print(f"\nresults are in {results.path}")


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--rounds", type=int, default=3, help="how often everybody is visited (3)")
    add("--jobs", type=int, default=30_000, help="jobs added in bulk, and drained (30000)")
    add("--chunk", type=int, default=1_000, help="so many in one bulk call (1000)")
    add("--single", type=int, default=2_000, help="jobs added one by one (2000)")
    add("--spaced", type=int, default=100, help="jobs added to an idle worker (100)")
    add("--gap", type=float, default=0.05, help="seconds between two of those (0.05)")
    add("--rest", type=float, default=3, help="seconds until a worker counts as idle (3)")
    add("--idle", type=float, default=10, help="seconds that an idle worker is watched (10)")
    add("--limit", type=float, default=60, help="seconds after which a measure is cut (60)")
    add("--people", type=int, default=10_000, help="size of the activated cycle; 0 is none (10000)")
    add("--peers", action="store_true", help="other queues too, as PEERS=1")
    add("--only", metavar="NAMES", help="only these, separated by commas, and the raw loop")
    add("--dsn", help="a server to use, as somebody who may create databases (an embedded one)")
    add("--cache", type=Path, default=default_cache(), help="for peers' environments")
    add("--out", type=Path, help="the file of results (one in the cache, named by the time)")
    options = parser.parse_args()
    stamp = time.strftime("%Y%m%d-%H%M%S")
    options.out = options.out or options.cache / "results" / f"{stamp}.jsonl"
    options.peers = options.peers or os.environ.get("PEERS", "0") not in ("", "0")
    return options


def _choose(options: argparse.Namespace) -> Sequence[Contender]:
    if options.only:
        base, *others = (*OURS, *PEERS)
        wanted = set(options.only.split(",")) - {base.name}
        if unknown := wanted - {each.name for each in others}:
            raise SystemExit(f"nobody is called {', '.join(sorted(unknown))}")
        return [base, *(each for each in others if each.name in wanted)]
    return [*OURS, *PEERS] if options.peers else OURS


def _install(
    contenders: Sequence[Contender], cache: Path, results: Results
) -> Mapping[Contender, Path]:
    found = {}
    for contender in contenders:
        try:
            found[contender] = python_for(contender, cache)
        except Unavailable as why:
            results.add(contender=contender.name, skipped=str(why))
    return found


def _run_rounds(
    server: Server,
    chosen: Mapping[Contender, Path],
    options: argparse.Namespace,
    results: Results,
) -> None:
    results.add(machine=_machine(server), options=_plain(options))
    sizes = Sizes(
        options.jobs,
        options.chunk,
        options.single,
        options.spaced,
        options.gap,
        options.rest,
        options.idle,
        options.limit,
    )
    names = list(chosen)
    for number in range(1, options.rounds + 1):
        shift = (number - 1) % len(names)
        for contender in names[shift:] + names[:shift]:

            def note(line: Mapping[str, Any], by: Contender = contender, at: int = number) -> None:
                results.add(round=at, contender=by.name, **line, load=os.getloadavg()[0])

            with tempfile.TemporaryDirectory(prefix="relevo-bench-") as folder:
                python = chosen[contender]
                visit = Visit(
                    server, contender, python, folder=Path(folder), sizes=sizes, note=note
                )
                visit.run()


def _activate(people: int, results: Results) -> None:
    """Run the benchmark of the activation, and keep its last line."""
    script = Path(__file__).with_name("activation.py")
    words = [sys.executable, str(script), "--people", str(people), "--evaluations", str(5 * people)]
    ended = subprocess.run(  # noqa: S603 -- our own script
        words, stdout=subprocess.PIPE, text=True, check=True
    )
    print(ended.stdout, end="")
    results.add(activation=ended.stdout.strip().splitlines()[-1])


def _machine(server: Server) -> dict[str, Any]:
    return {
        "server": server.about,
        "Python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "at": time.strftime("%Y-%m-%d %H:%M %z"),
    }


def _plain(options: argparse.Namespace) -> dict[str, Any]:
    # A connection string may hold a password.
    kept = {key: value for key, value in vars(options).items() if key != "dsn"}
    return {key: str(value) if isinstance(value, Path) else value for key, value in kept.items()}


def _short(value: object) -> str:
    return f"{value:,.1f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
