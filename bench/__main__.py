"""`python -m bench`: measures managers of JobSets against each other and against the floor of API calls."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from app import local
from bench import managers, run
from bench.scenarios.group import Size
from devcluster.errors import DevclusterError

SCENARIOS = [scenario for group in run.GROUPS for scenario in group.scenarios]


def main() -> int:
    options = _options()
    bench = run.Bench(
        entries=options.manager or [managers.KNOWN[name] for name in managers.USUAL],
        wanted=frozenset(options.scenarios),
        rounds=options.rounds,
        nodes=options.nodes,
        size=Size(options.scale),
    )
    try:
        turns = list(run.turns(bench))
    except (DevclusterError, local.LocalError) as error:
        print(error, file=sys.stderr)
        return 1
    results = {"machine": run.machine(), "revision": run.revision(), "turns": turns}
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"bench-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_text(json.dumps(results, indent=1), encoding="utf-8")
    if options.output == "json":
        print(json.dumps(results, indent=1))
    else:
        for turn in turns:
            for name, phase in turn["phases"].items():
                figures = " ".join(f"{key}={value}" for key, value in phase["manager"].items())
                print(
                    f"{turn['round']} {turn['manager']:18} {name:12} {phase['seconds']:6.1f} s"
                    f" {phase['manager_cpu_seconds']:5.1f} CPU s {phase['peak_rss_mib']:5.0f} MiB {figures}"
                )
    print(f"kept in {path}", file=sys.stderr)
    return 1 if any(turn["errors"] for turn in turns) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--manager",
        action="append",
        type=managers.entry,
        metavar="[NAME=]COMMAND",
        help=f"what to measure, may be repeated: {', '.join(managers.KNOWN)}, or a command that takes --config FILE and"
        f" --kubeconfig FILE (default: {' and '.join(managers.USUAL)})",
    )
    parser.add_argument("--rounds", type=int, default=3, help="turns of each manager (default %(default)s)")
    parser.add_argument("--scenarios", type=_scenarios, default=SCENARIOS, help="some of " + ",".join(SCENARIOS))
    parser.add_argument("--nodes", type=int, default=600, help="fake nodes (default %(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, help="part of every scenario's size, to try things out")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder of results (default %(default)s)")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return parser.parse_args()


def _scenarios(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in SCENARIOS]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not among {', '.join(SCENARIOS)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
