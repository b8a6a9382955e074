"""Keeps a line for each run of the benchmark in `dev/bench/runs.jsonl`, so that versions can be compared.

`python -m dev.bench.runs RESULTS` adds the line of a run, and draws all lines for docs/performance.md. Both belong in
one commit. A benchmark by itself changes no tracked file. Ratios are taken within a round, so they depend less on the
machine than times.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from dev.bench import report
from dev.cluster.progress import say
from kube.model.meta import JSON

FILE = Path(__file__).with_name("runs.jsonl")
PICTURES = Path(__file__).parents[2] / "docs" / "images" / "performance"
OUR_MANAGER = "jobset"


def run_line(results: JSON, day: str) -> JSON:
    """The line of a run: medians of each phase, and their ratios to the fastest floor, or to plain pods."""
    phases = {
        name: _phase_medians(results, name)
        for name in report.phase_names(results)
        if report.figures_by_round(results, OUR_MANAGER, name)
    }
    return {
        "day": day,
        "revision": results["revision"],
        "machine": results["machine"],
        "rounds": max((turn["round"] for turn in results["turns"]), default=0),
        "phases": phases,
    }


def _phase_medians(results: JSON, name: str) -> JSON:
    ratio = report.ratio(results, (OUR_MANAGER, name), report.base_of(results, OUR_MANAGER, name))
    seconds = {manager: report.seconds(results, manager, name) for manager in report.manager_names(results)}
    calls = report.Spread.at(report.figures_by_round(results, OUR_MANAGER, name).values(), "manager.requests")
    return {
        "seconds": {manager: round(spread.median, 2) for manager, spread in seconds.items() if spread},
        "ratio": round(ratio.median, 2) if ratio else None,
        "calls": calls.median if calls else None,
    }


def is_comparable(results: JSON) -> bool:
    """Whether a run is comparable with other runs, since it has the full size and this manager."""
    return results["scale"] == 1 and OUR_MANAGER in report.manager_names(results) and bool(results["turns"])


def add(path: Path, run: JSON) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(run) + "\n")


def read(path: Path) -> list[JSON]:
    """The lines of runs, in the order in which they were added."""
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]


def ratios(runs: Iterable[JSON]) -> dict[str, list[tuple[str, float]]]:
    """By phase, (day and revision, ratio) of each run that has a ratio."""
    ratios_by_phase: dict[str, list[tuple[str, float]]] = {}
    for run in runs:
        for name, phase in run["phases"].items():
            if phase["ratio"] is not None:
                ratios_by_phase.setdefault(name, []).append((f"{run['day']} {run['revision']}", phase["ratio"]))
    return ratios_by_phase


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m dev.bench.runs", description=__doc__)
    parser.add_argument("results", nargs="?", type=Path, help="results.json of a run: add its line first")
    results_file = parser.parse_args().results
    if results_file is not None:
        results = json.loads(results_file.read_text(encoding="utf-8"))
        if not is_comparable(results):
            parser.error(f"{results_file} is of another scale than 1 or of other managers: it cannot be compared")
        day = time.strftime("%Y-%m-%d", time.localtime(results_file.stat().st_mtime))
        add(FILE, run_line(results, day))
    from dev.bench import plots  # noqa: PLC0415 (matplotlib, which only pictures need)

    say(f"drawn: {plots.draw_ratios(ratios(read(FILE)), PICTURES)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
