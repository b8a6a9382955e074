"""Prints the results of a run: a table for each phase, what was measured once, the goals. Must not measure."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from dev.bench import report, saturation
from dev.bench.goals import cpu_seconds, goals
from dev.bench.simulated import run as simulated

JSON = dict[str, Any]

TITLES = {
    "P1": "a JobSet of 300 Jobs with a pod each is created",
    "P2": "one of its pods fails: all 300 Jobs are created again",
    "P3 plain create": "a JobSet of 40 Jobs with 10 pods each is created, without exclusive placement",
    "P3 plain restart": "one of its pods fails",
    "P3 create": "the same 40 x 10 pods, each Job alone on one of 60 racks",
    "P3 restart": "one of its pods fails",
    "P4": "150 JobSets of two Jobs are created at once",
    "P5 suspend": "the JobSet of 300 Jobs is suspended, until no pod runs",
    "P5 resume": "it is resumed, until all pods run",
    "P6 alone": "50 JobSets of one pod: seconds is the longest wait for it",
    "P6 beside": "the same just after a JobSet of 2,000 Jobs",
    "P6 large": "that JobSet of 2,000 Jobs",
    "P7 create": "a gang of 16 Jobs with 16 pods each, a rack for each Job, all in one superslice",
    "P7 restart": "one of its pods fails",
    "P13 create": "40 suspended JobSets of two Jobs are created, beside a webhook for Jobs that looks for their JobSet",
    "P13 admit": "they are resumed with a node selector, as by a queue, until all pods run",
    "P14 recreate": "a node falls silent under a JobSet of 300 Jobs: seconds after its taint until all pods run again",
    "P14 recreate 10": "the same with 30 Jobs of ten pods",
    "P14 recreate lost": "the same, where only the Jobs of the lost pods restart",
    "P14 in place": "300 Jobs with restarts in place and one process as all agents: until all have let their worker go",
    "P14 worker only": "the same, where the agents of the other pods go on and only workers start again",
    "P15": "one worker of 50 x 100 pods fails, and all restart in place: until all agents have let their worker go",
    "P15 worker only": "the same, where agents go on and only workers start again",
    "P16": "a program of 4 hangs under real agents: seconds after its last heartbeat until all have begun again",
    "P13 finish": "their pods succeed, until all JobSets are Completed",
}
LEFT = {"manager", "verb", "resource", "goal", "phase", "webhook", "size", "scenario"}
"""Columns of words; the others are figures."""


def show(results: JSON, *, calls: bool) -> None:
    """`calls`: also every call by verb, resource and code."""
    console = Console(width=None if sys.stdout.isatty() else 180)
    machine = results["machine"]
    console.print(
        f"Python {machine['python']} on {machine['system']}, {machine['cores']} cores, load"
        f" {machine['load_average']:.2f} at the start; revision {results['revision']}; {results['nodes']} fake nodes;"
        f" {results['seconds'] / 60:.0f} minutes",
        highlight=False,
    )
    if results["scale"] != 1:
        console.print(f"Scaled to {results['scale']:g} of the sizes below: no figure here is comparable.")
    for name in sorted(report.names(results), key=list(TITLES).index):
        _table(console, f"{name}: {TITLES[name]}", report.phase_rows(results, name))
        if calls:
            _table(console, f"{name}: calls by verb, resource and code", report.call_rows(results, name))
    _table(console, "P10: through P1 to P4", _resources(results))
    _once(console, results)
    for manager in report.managers(results, floor=False):
        _table(console, f"goals: {manager}", [goal.row() for goal in goals(results, manager)])
    for error in errors(results):
        console.print(f"failed: {error}", style="red", markup=False)


def errors(results: JSON) -> list[str]:
    """What could not be measured, or had a wrong result."""
    in_turns = [
        f"{turn['manager']}, round {turn['round']}: {error}" for turn in results["turns"] for error in turn["errors"]
    ]
    return [*in_turns, *results["errors"]]


def _resources(results: JSON) -> list[dict[str, str]]:
    rows = []
    for manager in report.managers(results):
        after = report.rounds(results, manager, "P4")
        idle = [
            turn["idle_rss_mib"] for turn in results["turns"] if turn["manager"] == manager and "idle_rss_mib" in turn
        ]
        spreads = {
            "idle RSS (MiB)": report.Spread.of(idle),
            "RSS after (MiB)": report.Spread.of(phase["rss_mib"] for phase in after.values()),
            "CPU (s)": report.Spread.of(cpu_seconds(results, manager)),
        }
        if after:
            rows.append(
                {"manager": manager, **{key: spread.text() if spread else "-" for key, spread in spreads.items()}}
            )
    return rows


def _once(console: Console, results: JSON) -> None:
    """P8, P9, P11, P12."""
    for manager, rows in results["admission"].items():
        lines = [
            {"processes": str(row["workers"]), **dict(zip(saturation.HEAD, cells, strict=True))}
            for row, cells in zip(rows, saturation.rows(rows), strict=True)
        ]
        _table(console, f"P8 and P9: admission of {manager} at saturation; {saturation.UNITS}", lines)
    for manager, found in results["simulated"].items():
        _table(console, f"P12: {manager} under a simulated API server", simulated.rows(found))
    plans = results.get("plan") or ()
    sizes = dict.fromkeys(size for row in plans for size in row["seconds"])
    lines = [
        {"scenario": row["scenario"], **{f"{n} Jobs (ms)": _ms(row["seconds"].get(n)) for n in sizes}} for row in plans
    ]
    _table(console, "P11: one plan()", lines)


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.1f}"


def _table(console: Console, title: str, rows: Sequence[dict[str, str]]) -> None:
    """Nothing without rows."""
    if not rows:
        return
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in rows[0]:
        table.add_column(column, justify="left" if column in LEFT or column == "verdict" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row.values())
    console.print("", table)
