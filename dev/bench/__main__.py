"""`python -m dev.bench`: measures managers of JobSets against each other and against the floor of API calls.

Table on the terminal; raw figures and plots in a folder. The exit code is 1 when something could not be measured or had
a wrong result; a goal that is missed is no error.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from cli import local
from dev.bench import managers, once, plots, run, runs, show
from dev.bench.ending import unwound_by_sigterm
from dev.bench.machine import machine, revision
from dev.bench.options import positive
from dev.bench.scenarios.group import Size
from dev.bench.scene import say
from dev.cluster.errors import DevclusterError

JSON = dict[str, Any]

SCENARIOS = tuple(f"P{number}" for number in range(1, 17))
OF_P10 = {"P1", "P2", "P3", "P4"}
RESULTS = "results.json"


@unwound_by_sigterm()
def main() -> int:
    options = _options()
    try:
        results = _read(options.again) if options.again else _measure(options)
    except (DevclusterError, local.LocalError) as error:
        print(error, file=sys.stderr)
        return 1
    folder = options.again.parent if options.again else options.out
    for path in plots.draw(results, folder):
        say(f"drawn: {path}")
    if options.output == "json":
        print(json.dumps(results, indent=1))
    else:
        show.show(results, calls=options.calls)
    return 1 if show.errors(results) else 0


def _measure(options: argparse.Namespace) -> JSON:
    """Run everything; after each turn the results so far are stored."""
    wanted = frozenset(options.scenarios)
    bench = run.Bench(
        entries=options.manager,
        wanted=wanted | OF_P10 if "P10" in wanted else wanted,
        rounds=options.rounds,
        nodes=options.nodes,
        size=Size(options.scale),
    )
    results: JSON = {
        "machine": machine(),
        "revision": revision(),
        "nodes": options.nodes,
        "scale": options.scale,
        "managers": [{"name": entry.name, "command": entry.command, "floor": entry.floor} for entry in bench.entries],
        "turns": [],
    }
    options.out.mkdir(parents=True, exist_ok=True)
    for turn in run.turns(bench):
        results["turns"].append(turn)
        _keep(results, bench, options.out)
    results |= once.measure(bench)
    results = _keep(results, bench, options.out)
    if runs.counts(results) and not show.errors(results):
        say(f"to keep this run for comparison: python -m dev.bench.runs {options.out / RESULTS}")
    return results


def _keep(results: JSON, bench: run.Bench, folder: Path) -> JSON:
    """Write the results, and give them as they will be read."""
    text = json.dumps({**results, "seconds": time.monotonic() - bench.begun}, indent=1)
    (folder / RESULTS).write_text(text + "\n", encoding="utf-8")
    read: JSON = json.loads(text)
    return read


def _read(path: Path) -> JSON:
    results: JSON = json.loads(path.read_text(encoding="utf-8"))
    return {"admission": {}, "simulated": {}, "errors": [], **results}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m dev.bench", description=__doc__)
    parser.add_argument(
        "--manager",
        action="append",
        type=managers.entry,
        metavar="[NAME=]COMMAND",
        help=f"what to measure, may be repeated: {', '.join(managers.KNOWN)}, or a command that takes --config FILE and"
        f" --kubeconfig FILE (default: {' and '.join(managers.USUAL)})",
    )
    parser.add_argument("--rounds", type=positive, default=3, help="turns of each manager (default %(default)s)")
    parser.add_argument(
        "--scenarios",
        type=_scenarios,
        default=SCENARIOS,
        metavar="P1,P2,...",
        help=f"some of P1 to {SCENARIOS[-1]} (default: all)",
    )
    parser.add_argument("--nodes", type=positive, default=600, help="fake nodes (default %(default)s)")
    parser.add_argument(
        "--scale",
        type=_scale,
        default=1.0,
        help="part of every scenario's Jobs, to try things out (default %(default)g)",
    )
    folder = Path("build", "bench", time.strftime("%Y%m%d-%H%M%S"))
    parser.add_argument("--out", type=Path, default=folder, help="folder of the results (default build/bench/TIME)")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="(default %(default)s)")
    parser.add_argument("--calls", action="store_true", help="list every call by verb, resource and code, too")
    parser.add_argument(
        "--from", type=_kept, dest="again", metavar="FILE", help="measure nothing: show and draw these results again"
    )
    options = parser.parse_args()
    options.manager = options.manager or [managers.KNOWN[name] for name in managers.USUAL]
    given = [entry.name for entry in options.manager]
    if twice := {name for name in given if given.count(name) > 1}:
        parser.error(f"--manager: {', '.join(sorted(twice))} is given twice: tell them apart with NAME=COMMAND")
    return options


def _scale(text: str) -> float:
    if not 0 < (number := float(text)) <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return number


def _kept(text: str) -> Path:
    path = Path(text)
    path = path / RESULTS if path.is_dir() else path
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"{text} is no file of results: runs keep them in build/bench/TIME/{RESULTS}")
    return path


def _scenarios(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in SCENARIOS]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not among {', '.join(SCENARIOS)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
