"""`python -m dev.bench.admission`: runs the admission benchmark of dev/bench/README.md. Prints tables or JSON."""

import argparse
import json
import os
import subprocess
import sys

from dev.bench import saturation
from dev.bench.admission.cpu import cases
from dev.bench.admission.load import cores, measure, run_server
from dev.bench.ending import unwound_by_sigterm
from dev.bench.load_generator import ROOT, Load, Review
from dev.bench.output import (
    Columns,
    cells,
    command_line,
    goal_verdict,
    machine,
    machine_text,
    print_result,
    print_table,
    print_text,
)
from dev.cluster.errors import DevclusterError
from kube.model.meta import JSON

CONNECTIONS = 64
"""Number of connections at a constant rate."""

MAX_P99_MS = 10.0
MAX_CPU_MS = 1.0
MAX_POLICIES_P99_MS = 15.0
"""The goal with 20 policies, at 300 requests a second."""

MAX_THOUSAND_RULES_MS = 20.0
"""The goal for a thousand rules, which is 20 microseconds for each rule."""


@unwound_by_sigterm()
def main() -> int:
    options = _options()
    load = Load(CONNECTIONS, options.seconds, options.warm_up, options.rate)
    try:
        if options.saturation:
            print_result(options.output, _measure_saturation(), show_saturation)
        elif options.policies:
            print_result(options.output, _measure_policies(load, options.policies), show_policies)
        else:
            print_result(options.output, _measure_reviews(load), show)
    except DevclusterError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _options() -> argparse.Namespace:
    parser = command_line("dev.bench.admission", __doc__)
    parser.add_argument("--rate", type=int, default=500, help="requests a second (default %(default)s)")
    parser.add_argument("--seconds", type=int, default=20, help="length of a run (default %(default)s)")
    parser.add_argument("--warm-up", type=int, default=5, help="seconds before it (default %(default)s)")
    parser.add_argument("--saturation", action="store_true", help="measure how many reviews are answered at most")
    parser.add_argument("--policies", type=int, default=0, metavar="N", help="measure with that many policies in force")
    return parser.parse_args()


def _reviews(*names: str) -> list[Review]:
    all_cases = cases()
    return [all_cases[name] for name in names]


def _measure_reviews(load: Load) -> JSON:
    good_reviews = _reviews("mutate create", "validate create", "validate update")
    runs = [("good", good_reviews), ("bad", _reviews("refuse 5 faults"))]
    return {
        **_conditions(load),
        "cpu": _measure_cpu(),
        "runs": [{"run": name, **measure(reviews, load)} for name, reviews in runs],
    }


def _measure_policies(load: Load, number: int) -> JSON:
    """Measure reviews of new JobSets, without and with policies."""
    creates = _reviews("mutate create", "validate create")
    return {
        **_conditions(load),
        "cpu": _measure_cpu(str(number)),
        "runs": [{"policies": count, **measure(creates, load, count)} for count in (0, number)],
    }


def _conditions(load: Load) -> JSON:
    return {"machine": machine(), "load": {"rate": load.rate, "seconds": load.seconds}}


def _measure_cpu(*arguments: str) -> JSON:
    """Measure processor times, in a process in which no other code is warm."""
    command = [sys.executable, "-m", "dev.bench.admission.cpu", *arguments]
    result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)  # noqa: S603 - a module of ours
    rows: JSON = json.loads(result.stdout)
    return rows


def _measure_saturation() -> list[JSON]:
    server_core, load_core = cores()
    with run_server(server_core) as (server_process, _):
        os.sched_setaffinity(0, {load_core})  # the generator inherits it
        return saturation.measure(server_process.port, server_process.authorities, pid=server_process.process.pid)


TIMES: Columns = {name: (f"{name}_ms", ".2f") for name in ("p50", "p90", "p99", "max")}
RUN_COLUMNS: Columns = {
    "run": ("run", "s"),
    **TIMES,
    "req/s": ("per_s", ".1f"),
    "errors": ("errors", "d"),
    "CPU/req": ("cpu_ms_per_request", ".3f"),
    "core (%)": ("core_busy_percent", ".0f"),
    "RSS (MiB)": ("rss_mib", ".0f"),
    "answers": ("answers_text", "s"),
}
REVIEW_COLUMNS: Columns = {
    "review": ("case", "s"),
    "bytes": ("bytes", "d"),
    "code": ("code", "d"),
    "causes": ("causes", "d"),
    "warn": ("warnings", "d"),
    **{step: (f"{step}_ms", ".3f") for step in ("read", "decide", "write", "sum")},
}
POLICY_RUN_COLUMNS: Columns = {"policies": ("policies", "d"), **TIMES, "errors": ("errors", "d")}
POLICY_REVIEW_COLUMNS: Columns = {
    "policies": ("policies", "d"),
    "review": ("case", "s"),
    "decide": ("decide_ms", ".3f"),
}
CPU_TITLE = "Processor time of one review without HTTP (ms)"


def _load_title(results: JSON) -> str:
    load = results["load"]
    return f"Over TLS at {load['rate']} reviews a second for {load['seconds']} s, server on one core (times in ms)"


def show(results: JSON) -> None:
    runs = [
        {**run, "answers_text": ", ".join(f"{count} x {code}" for code, count in sorted(run["answers"].items()))}
        for run in results["runs"]
    ]
    reviews = [{**row, "sum_ms": row["read_ms"] + row["decide_ms"] + row["write_ms"]} for row in results["cpu"]]
    print_text(machine_text(results["machine"]))
    print_table([cells(RUN_COLUMNS, run) for run in runs], _load_title(results))
    print_table([cells(REVIEW_COLUMNS, row) for row in reviews], CPU_TITLE)
    print_text(goal_verdict("p99 of good reviews", runs[0]["p99_ms"], MAX_P99_MS))
    decide = sum(row["decide_ms"] for row in results["cpu"] if row["case"] in {"mutate create", "validate create"})
    print_text(goal_verdict("mutate + validate create, decide", decide, MAX_CPU_MS))


def show_policies(results: JSON) -> None:
    print_text(f"{machine_text(results['machine'])}, new JobSets of 8 ReplicatedJobs")
    print_table([cells(POLICY_RUN_COLUMNS, run) for run in results["runs"]], _load_title(results))
    print_table([cells(POLICY_REVIEW_COLUMNS, row) for row in results["cpu"]["rows"]], CPU_TITLE)
    print_text(goal_verdict("p99 with policies", results["runs"][1]["p99_ms"], MAX_POLICIES_P99_MS))
    print_text(goal_verdict("a rule (1000 of them)", results["cpu"]["rule_us"], MAX_THOUSAND_RULES_MS))


def show_saturation(rows: list[JSON]) -> None:
    print_table([cells(saturation.COLUMNS, row) for row in rows], f"Admission at saturation; {saturation.UNITS}")


if __name__ == "__main__":
    sys.exit(main())
