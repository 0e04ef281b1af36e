"""Print what was measured: medians over the rounds, and ratios of the same round."""

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from harness.contenders import BASE

from relevo.bench.compare import compare

Line = Mapping[str, Any]
Cell = Callable[[str], str]

_GAP: Final = "-"


def read_lines(paths: Iterable[Path]) -> list[Line]:
    """Read files of results; rounds of the second file follow those of the first."""
    lines: list[Line] = []
    for path in paths:
        shift = max((line.get("round", 0) for line in lines), default=0)
        for text in path.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            lines.append({**line, "round": line["round"] + shift} if "round" in line else line)
    return lines


def show(lines: Sequence[Line]) -> None:
    """Print everything as tables of Markdown."""
    for line in lines:
        if "machine" in line:
            print("; ".join(f"{name} {value}" for name, value in line["machine"].items()))
    found = _Found(lines)
    if found.names:
        _show_tables(found)
    for line in lines:
        if "activation" in line:
            print(f"\nActivation of a large cycle: {line['activation']}")
    _show_about(lines)


def _show_tables(found: "_Found") -> None:
    x = f"x {BASE}"
    _table(
        "Jobs a second, and the ratio to the raw loop of the same round",
        ["single", x, "bulk", x, "drain", x, "lowest", "highest"],
        found.names,
        [
            found.median("single", "rate"),
            found.ratio("single", "rate"),
            found.median("bulk", "rate"),
            found.ratio("bulk", "rate"),
            found.median("drain", "rate"),
            found.ratio("drain", "rate"),
            found.ratio("drain", "rate", "lowest"),
            found.ratio("drain", "rate", "highest"),
        ],
    )
    _table(
        "CPU of a job in microseconds, the client's or the worker's and the server's; both together"
        f" {x}",
        ["single: client", "server", x, "bulk: client", "server", x, "drain: worker", "server", x],
        found.names,
        [
            cell
            for measure, side in (("single", "client"), ("bulk", "client"), ("drain", "worker"))
            for cell in (
                found.median(measure, f"{side}_us"),
                found.median(measure, "server_us"),
                found.ratio(measure, "cpu_us"),
            )
        ],
    )
    _table(
        "WAL of a job in bytes; commits of a job; memory of the worker in MB",
        ["single", "bulk", "drain", x, "commits of the drain", "RSS"],
        found.names,
        [
            *(found.median(measure, "wal") for measure in ("single", "bulk", "drain")),
            found.ratio("drain", "wal"),
            found.median("drain", "commits", 3),
            found.median("drain", "rss_mb"),
        ],
    )
    _table(
        "An idle worker: milliseconds from commit to start; then what it costs to have it",
        ["p50", x, "p95", "p99", x, "commits/s", "WAL B/s", "worker CPU %", "server CPU %"],
        found.names,
        [
            found.median("latency", "p50", 1),
            found.ratio("latency", "p50"),
            found.median("latency", "p95", 1),
            found.median("latency", "p99", 1),
            found.ratio("latency", "p99"),
            found.median("idle", "commits", 1),
            found.median("idle", "wal"),
            found.median("idle", "worker_percent", 1),
            found.median("idle", "server_percent", 1),
        ],
    )


def _show_about(lines: Sequence[Line]) -> None:
    about = {line["contender"]: line for line in lines if line.get("measure") == "install"}
    print()
    for name, line in about.items():
        if "settings" in line:
            said = ", ".join(f"{key}={value}" for key, value in line["settings"].items())
            print(f"{name} {line['version']}: {said or 'as installed'}")
    for line in lines:
        if "skipped" in line:
            print(f"skipped {line['contender']}: {line['skipped']}")
    for line in lines:
        if line.get("undone"):
            where = f"round {line['round']}, {line['contender']}"
            print(f"cut short in {where}: {line['undone']} jobs were still undone")
    for line in lines:
        if "error" in line:
            where = f"round {line['round']}, {line['contender']}, {line['measure']}"
            print(f"failed in {where}: {line['error']}")


class _Found:
    """The figures by contender, measure and round."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = [line for line in lines if "round" in line and "error" not in line]
        self.names = list(dict.fromkeys(line["contender"] for line in self._lines))

    def median(self, measure: str, key: str, digits: int = 0) -> Cell:
        """Answer what writes a contender's median of the rounds."""

        def cell(name: str) -> str:
            values = self._values(name, measure, key).values()
            return f"{statistics.median(values):,.{digits}f}" if values else _GAP

        return cell

    def ratio(self, measure: str, key: str, which: str = "median") -> Cell:
        """Answer what writes a contender's ratio to the base, of the same rounds."""

        def cell(name: str) -> str:
            base = self._values(BASE, measure, key)
            found = compare(self._values(name, measure, key), base)
            return f"{getattr(found, which):.2f}" if found else _GAP

        return cell

    def _values(self, name: str, measure: str, key: str) -> dict[int, float]:
        return {
            line["round"]: line[key]
            for line in self._lines
            if line["contender"] == name and line["measure"] == measure and key in line
        }


def _table(title: str, columns: Sequence[str], names: Sequence[str], cells: Sequence[Cell]) -> None:
    rows = [["", *columns], *([name, *(cell(name) for cell in cells)] for name in names)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|"
    print(f"\n{title}\n", lines[0], rule, *lines[1:], sep="\n")
