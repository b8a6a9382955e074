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


def table(runs: Iterable[JSON]) -> Iterator[str]:
    """Lines of Markdown."""
    rows = [_cells(run) for run in sorted(runs, key=lambda run: (_kind(run), run["seed"]))]
    for cells in (rows[0].keys(), ["---"] * len(rows[0]), *(row.values() for row in rows)):
        yield f"| {' | '.join(map(str, cells))} |"


def _cells(run: JSON) -> dict[str, object]:
    """The cells of a row by the head of their column."""
    late = Counter[bool]()
    for what, count in run["late_writes"].items():
        late["refused" in what] += count
    growth = [end / quarter - 1 for quarter, end in run["memory_mib"].values()]
    return {
        "Run": _kind(run),
        "Seed": run["seed"],
        "Minutes": f"{run['seconds'] / 60:g}",
        "Faults": len(run["faults"]),
        "Sets ended": f"{run['sets_ended']} of {run['sets']}",
        "Restarts": run["restarts"],
        "Jobs created": run["jobs_created"],
        "Terms of the lease": run["terms_of_lease"],
        "Late writes stored, with a guard": late[False],
        "Late writes refused": late[True],
        "Hostile connections": sum(run["hostile_connections"].values()),
        "p99 of admission": f"{run['calm_admission_p99_seconds']:.2f} s of {run['calm_admissions']}",
        "Memory, most growth": f"{max(growth):+.0%}" if growth else "",
        "Violations": len(run["violations"]),
    }


def _kind(run: Mapping[str, Any]) -> str:
    return "soak" if {fault["kind"] for fault in run["faults"]} <= set(GENTLE) else "chaos"


def main() -> None:
    runs = [json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:]]
    print("\n".join(table(runs)))


if __name__ == "__main__":
    main()
