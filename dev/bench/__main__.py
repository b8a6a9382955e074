"""`python -m dev.bench`: compares managers of JobSets with each other, and with a client that makes only needed calls.

Prints tables, and writes raw figures and plots into a folder. The exit code is 1 if a measurement failed or had a wrong
result. A goal that is missed is not an error.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from dev.bench import managers, once, report, run, runs, show
from dev.bench.ending import unwound_by_sigterm
from dev.bench.output import command_line, machine, positive, print_result, revision
from dev.cluster.errors import DevclusterError
from dev.cluster.progress import say
from kube.model.meta import JSON

DEFAULT_CODES = tuple(f"P{number}" for number in (*range(1, 7), *range(8, 12), 13))
"""The codes of the scenarios that are measured by default."""

ALL_CODES = (*DEFAULT_CODES, "P19", "P23")
"""The codes of all scenarios. P19 takes long, and P23 needs real nodes, with Linux and root."""

CODES_OF_P10 = {"P1", "P2", "P3", "P4"}  # P10 is the memory and processor time of these scenarios
RESULTS = "results.json"


@unwound_by_sigterm()
def main() -> int:
    options = _options()
    try:
        results = _read_results(options.stored_results) if options.stored_results else _measure(options)
    except DevclusterError as error:
        print(error, file=sys.stderr)
        return 1
    from dev.bench import plots  # noqa: PLC0415 (matplotlib, which no measurement needs)

    for path in plots.draw(results, options.stored_results.parent if options.stored_results else options.out):
        say(f"drawn: {path}")
    print_result(options.output, results, lambda results: show.show(results, calls=options.calls))
    return int(bool(report.errors(results)))


def _measure(options: argparse.Namespace) -> JSON:
    """Measure all scenarios. The results so far are stored after each turn."""
    scenarios = frozenset(options.scenarios)
    bench = run.Bench(
        entries=options.manager,
        wanted=scenarios | CODES_OF_P10 if "P10" in scenarios else scenarios,
        rounds=options.rounds,
        nodes=options.nodes,
        scale=options.scale,
    )
    results: JSON = {
        "machine": machine(),
        "revision": revision(),
        "nodes": options.nodes,
        "scale": options.scale,
        "managers": [{"name": each.name, "command": each.command, "floor": each.is_floor} for each in bench.entries],
        "turns": [],
    }
    options.out.mkdir(parents=True, exist_ok=True)
    for turn in run.turns(bench):
        results["turns"].append(turn)
        _store_results(results, bench, options.out)
    results |= once.measure(bench)
    _store_results(results, bench, options.out)
    results = _read_results(options.out / RESULTS)
    if runs.is_comparable(results) and not report.errors(results):
        say(f"to keep this run for comparison: python -m dev.bench.runs {options.out / RESULTS}")
    return results


def _store_results(results: JSON, bench: run.Bench, folder: Path) -> None:
    text = json.dumps({**results, "seconds": time.monotonic() - bench.started_at}, indent=1)
    (folder / RESULTS).write_text(text + "\n", encoding="utf-8")


def _read_results(path: Path) -> JSON:
    results: JSON = json.loads(path.read_text(encoding="utf-8"))
    return {"admission": {}, "errors": [], **results}


def _options() -> argparse.Namespace:
    parser = command_line("dev.bench", __doc__)
    parser.add_argument(
        "--manager",
        action="append",
        type=managers.parse_entry,
        metavar="[NAME=]COMMAND",
        help=f"what to measure, may be repeated: {', '.join(managers.MANAGERS_BY_NAME)}, or a command that takes"
        f" --config FILE and --kubeconfig FILE (default: {' and '.join(managers.MANAGERS_BY_NAME)})",
    )
    parser.add_argument("--rounds", type=positive, default=3, help="turns of each manager (default %(default)s)")
    parser.add_argument(
        "--scenarios",
        type=_codes,
        default=DEFAULT_CODES,
        metavar="P1,P2,...",
        help=f"some of {', '.join(ALL_CODES)} (default: P1 to {DEFAULT_CODES[-1]})",
    )
    parser.add_argument("--nodes", type=positive, default=600, help="fake nodes (default %(default)s)")
    parser.add_argument(
        "--scale", type=_scale, default=1.0, help="part of every scenario's Jobs, for a trial (default %(default)g)"
    )
    folder = Path("build", "bench", time.strftime("%Y%m%d-%H%M%S"))
    parser.add_argument("--out", type=Path, default=folder, help="folder of the results (default build/bench/TIME)")
    parser.add_argument("--calls", action="store_true", help="list every call by verb, resource and code, too")
    parser.add_argument(
        "--from",
        type=_results_file,
        dest="stored_results",
        metavar="FILE",
        help="measure nothing: show and draw these again",
    )
    options = parser.parse_args()
    options.manager = options.manager or [*managers.DEFAULT_MANAGERS]
    names = [entry.name for entry in options.manager]
    if repeated := {name for name in names if names.count(name) > 1}:
        parser.error(f"--manager: {', '.join(sorted(repeated))} is given twice: tell them apart with NAME=COMMAND")
    return options


def _codes(text: str) -> list[str]:
    if unknown := [code for code in text.split(",") if code not in ALL_CODES]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not among {', '.join(ALL_CODES)}")
    return text.split(",")


def _scale(text: str) -> float:
    if not 0 < (number := float(text)) <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return number


def _results_file(text: str) -> Path:
    path = Path(text)
    path = path / RESULTS if path.is_dir() else path
    if not path.is_file():
        raise argparse.ArgumentTypeError(
            f"{text} is not a file of results: runs keep them in build/bench/TIME/{RESULTS}"
        )
    return path


if __name__ == "__main__":
    sys.exit(main())
