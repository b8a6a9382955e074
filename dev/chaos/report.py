"""`python -m dev.chaos.report FILE...`: results of runs as the table of docs/reliability.md, a row for each file."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dev.chaos.faults import GENTLE

JSON = dict[str, Any]

HEADS = (
    "Run",
    "Seed",
    "Minutes",
    "Faults",
    "Sets ended",
    "Restarts",
    "Jobs created",
    "Terms of the lease",
    "Late writes stored, with a guard",
    "Late writes refused",
    "Hostile connections",
    "p99 of admission",
    "Memory, most growth",
    "Violations",
)


def table(runs: Iterable[JSON]) -> Iterator[str]:
    """Lines of Markdown."""
    yield _row(HEADS)
    yield _row(["---"] * len(HEADS))
    for run in sorted(runs, key=lambda run: (_kind(run), run["seed"])):
        yield _row(_cells(run))


def _cells(run: JSON) -> list[object]:
    late = Counter[bool]()
    for what, count in run["late_writes"].items():
        late["refused" in what] += count
    growth = [end / quarter - 1 for quarter, end in run["memory_mib"].values()]
    return [
        _kind(run),
        run["seed"],
        f"{run['seconds'] / 60:g}",
        len(run["faults"]),
        f"{run['sets_ended']} of {run['sets']}",
        run["restarts"],
        run["jobs_created"],
        run["terms_of_lease"],
        late[False],
        late[True],
        sum(run["hostile_connections"].values()),
        f"{run['calm_admission_p99_seconds']:.2f} s of {run['calm_admissions']}",
        f"{max(growth):+.0%}" if growth else "",
        len(run["violations"]),
    ]


def _kind(run: Mapping[str, Any]) -> str:
    return "soak" if {fault["kind"] for fault in run["faults"]} <= set(GENTLE) else "chaos"


def _row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    runs = [json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:]]
    print("\n".join(table(runs)))


if __name__ == "__main__":
    main()
