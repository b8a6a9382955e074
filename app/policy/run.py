"""`jobset policy test`: runs suites and writes what they show.

Exit codes as those of `jobset validate`: 0 all tests passed, 1 some failed, 2 not everything could be checked.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from api.features import FeatureGates
from app.check.findings import Report, counted, located, printable, write_text
from app.check.sarif import sarif
from app.policy.judge import Result, judge
from app.policy.junit import junit
from app.policy.suite import SUITE_KIND, suites


@dataclass(frozen=True, slots=True)
class Options:
    """Files and directories with suites, and the form of the report: `table`, `json`, `junit` or `sarif`."""

    names: Sequence[str]
    gates: FeatureGates
    output: str = "table"


def run(options: Options, out: TextIO, err: TextIO, *, color: bool = False) -> int:
    """Run all tests, write the report to `out` and problems to `err`; gives the exit code."""
    report = Report()
    results: dict[str, list[Result]] = {}
    for loaded in suites(options.names, report, options.gates):
        each = results.setdefault(loaded.document.source.name, [])
        for number in range(len(loaded.suite.tests)):
            result = judge(loaded, number, options.gates)
            each.append(result)
            report.add([located(loaded.document, error) for error in result.failures])
    if not (results or report.problems or report.errors):
        report.problems.append(f"no {SUITE_KIND} found in {', '.join(options.names)}")
    _write(options.output, report, results, out, color=color)
    err.writelines(f"jobset policy test: {printable(problem)}\n" for problem in report.problems)
    if report.problems:
        return 2
    return 1 if report.errors else 0


def _write(output: str, report: Report, results: dict[str, list[Result]], out: TextIO, *, color: bool) -> None:
    if output == "json":
        tests = [
            {"suite": suite, "name": result.name, "passed": not result.failures}
            for suite, each in results.items()
            for result in each
        ]
        json.dump({**report.json(), "tests": tests}, out, indent=2)
        out.write("\n")
    elif output == "sarif":
        json.dump(sarif(report), out, indent=2)
        out.write("\n")
    elif output == "junit":
        out.write(junit(results, report.problems))
    else:
        _write_table(report, results, out, color=color)


def _write_table(report: Report, results: dict[str, list[Result]], out: TextIO, *, color: bool) -> None:
    for suite, each in results.items():
        out.writelines(
            f"{'FAIL' if result.failures else 'ok':<6}{printable(suite)}: {printable(result.name)}\n" for result in each
        )
    write_text(report.findings, out, color=color)
    failed = sum(bool(result.failures) for each in results.values() for result in each)
    counts = (counted(len(results), "suite"), counted(sum(map(len, results.values())), "test"), f"{failed} failed")
    out.write(f"{', '.join(counts)}\n")
