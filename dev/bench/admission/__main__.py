"""`python -m dev.bench.admission`: the admission benchmark of dev/bench/README.md, as a table or as JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from typing import Any

from dev.bench.admission.cpu import cases
from dev.bench.admission.load import ROOT, Load, measure
from dev.bench.ending import unwound_by_sigterm
from dev.cluster.errors import DevclusterError

GOAL_P99_MS = 10.0
GOAL_CPU_MS = 1.0
GOAL_POLICIES_P99_MS = 15.0
"""With 20 policies at 300 requests a second."""
GOAL_RULES_MS = 20.0
"""A thousand rules, so a rule 20 microseconds."""


@unwound_by_sigterm()
def main() -> int:
    options = _options()
    load = Load(options.rate, options.seconds, options.warm_up)
    try:
        if options.policies:
            results = _with_policies(load, options.policies)
        else:
            results = _dry_run() if options.dry_run else _results(load)
    except DevclusterError as error:
        print(error, file=sys.stderr)
        return 1
    if options.output == "json":
        print(json.dumps(results, indent=2))
    elif options.policies:
        _print_with_policies(results)
    elif options.dry_run:
        _print_dry_run(results)
    else:
        _print(results)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m dev.bench.admission", description=__doc__)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    usual = Load()
    parser.add_argument("--rate", type=int, default=usual.rate, help="requests a second (default %(default)s)")
    parser.add_argument("--seconds", type=int, default=usual.seconds, help="length of a run (default %(default)s)")
    parser.add_argument("--warm-up", type=int, default=usual.warm_up, help="seconds before it (default %(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="measure the child dry run against a local API server")
    parser.add_argument("--policies", type=int, default=0, metavar="N", help="measure with so many policies in force")
    return parser.parse_args()


def _results(load: Load) -> dict[str, Any]:
    every = cases()
    good = {name: every[name] for name in ("mutate create", "validate create", "validate update")}
    bad = {name: every[name] for name in ("refuse 5 faults",)}
    cpu = subprocess.run(
        [sys.executable, "-m", "dev.bench.admission.cpu"], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    rows = json.loads(cpu.stdout)
    return {
        "machine": _machine(),
        "load": {"rate": load.rate, "seconds": load.seconds},
        "cpu": rows,
        "runs": [{"run": "good", **measure(good, load)}, {"run": "bad", **measure(bad, load)}],
    }


def _machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _with_policies(load: Load, number: int) -> dict[str, Any]:
    """New JobSets, with and without policies."""
    every = cases()
    creates = {name: every[name] for name in ("mutate create", "validate create")}
    command = [sys.executable, "-m", "dev.bench.admission.cpu", str(number)]
    cpu = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)  # noqa: S603 - a module of ours
    runs = [{"policies": count, **measure(creates, load, count)} for count in (0, number)]
    rates = {"rate": load.rate, "seconds": load.seconds}
    return {"machine": _machine(), "load": rates, "cpu": json.loads(cpu.stdout), "runs": runs}


def _print_with_policies(results: dict[str, Any]) -> None:
    machine, load, cpu = results["machine"], results["load"], results["cpu"]
    print(f"{machine['cores']} cores, load {machine['load_average']:.2f}, new JobSets of 8 ReplicatedJobs")
    print(f"\nOver TLS at {load['rate']} reviews a second for {load['seconds']} s, server on one core (times in ms)")
    _print_head("policies:-10 p50:8 p90:8 p99:8 max:8 errors:8")
    for run in results["runs"]:
        times = "".join(f"{run[key]:8.2f}" for key in ("p50_ms", "p90_ms", "p99_ms", "max_ms"))
        print(f"{run['policies']:<10}{times}{run['errors']:8}")
    print("\nProcessor time of one review without HTTP (ms)")
    _print_head("policies:-10 review:-18 decide:8")
    for row in cpu["rows"]:
        print(f"{row['policies']:<10}{row['case']:18}{row['decide_ms']:8.3f}")
    print()
    _print_goal("p99 with policies", results["runs"][1]["p99_ms"], GOAL_POLICIES_P99_MS)
    _print_goal("a rule (1000 of them)", cpu["rule_us"], GOAL_RULES_MS)


def _print(results: dict[str, Any]) -> None:
    machine, load = results["machine"], results["load"]
    where = f"{machine['system']}, {machine['cores']} cores, load {machine['load_average']:.2f}"
    print(f"Python {machine['python']} on {where}")
    print(f"\nOver TLS at {load['rate']} reviews a second for {load['seconds']} s, server on one core (times in ms)")
    _print_head("run:-6 p50:8 p90:8 p99:8 max:8 req/s:8 errors:8 CPU/req:9 core:7 RSS:9  answers:10")
    for run in results["runs"]:
        times = "".join(f"{run[key]:8.2f}" for key in ("p50_ms", "p90_ms", "p99_ms", "max_ms"))
        answers = ", ".join(f"{count} x {code}" for code, count in sorted(run["answers"].items()))
        cpu = f"{run['cpu_ms_per_request']:9.3f}{run['core_busy_percent']:6.0f}%"
        rest = f"{run['achieved_per_s']:8.1f}{run['errors']:8}{cpu}{run['rss_mib']:5.0f} MiB  {answers}"
        print(f"{run['run']:6}{times}{rest}")
    print("\nProcessor time of one review without HTTP (ms)")
    _print_head("review:-20 bytes:9 code:6 causes:8 warn:6 read:9 decide:9 write:9 sum:9")
    for row in results["cpu"]:
        parts = [row["read_ms"], row["decide_ms"], row["write_ms"]]
        times = "".join(f"{ms:9.3f}" for ms in [*parts, sum(parts)])
        print(f"{row['case']:20}{row['bytes']:9}{row['code']:6}{row['causes']:8}{row['warnings']:6}{times}")
    print()
    _print_goal("p99 of good reviews", results["runs"][0]["p99_ms"], GOAL_P99_MS)
    decided = sum(row["decide_ms"] for row in results["cpu"] if row["case"] in {"mutate create", "validate create"})
    _print_goal("mutate + validate create, decide", decided, GOAL_CPU_MS)


def _print_head(columns: str) -> None:
    """Names with their widths; a negative one aligns to the left."""
    pairs = (column.split(":") for column in columns.split())
    print("".join(f"{name:{'<' if int(width) < 0 else '>'}{abs(int(width))}}" for name, width in pairs))


def _print_goal(what: str, value: float, goal: float) -> None:
    print(f"{what}: {value:.2f} ms, goal <= {goal:g} ms: {'reached' if value <= goal else 'MISSED'}")


def _dry_run() -> dict[str, Any]:
    from dev.bench.admission.dry_run import measure as measure_dry_run  # noqa: PLC0415 - it brings a cluster along

    return measure_dry_run()


def _print_dry_run(results: dict[str, Any]) -> None:
    print("The child dry run against a local API server (ms)")
    _print_head("ReplicatedJobs:-16 calls:7 p50:9 p99:9 max:9")
    for row in results["dry_run"]:
        print(f"{row['rjobs']:<16}{row['calls']:7}{row['p50_ms']:9.1f}{row['p99_ms']:9.1f}{row['max_ms']:9.1f}")


if __name__ == "__main__":
    sys.exit(main())
