"""Runs `jobset policy test`: runs the tests of suites, and writes their results."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from api.features import FeatureGates
from authoring.checks import CheckError
from authoring.findings import Report, locate
from authoring.policy_kinds import SUITE_KIND
from authoring.suites import LoadedSuite, admission, suites
from cli.check.sarif import sarif
from cli.check.text import write_text
from cli.messages import has_color, printable, write_messages
from cli.output import DATA_FORMATS, dump
from cli.policy.junit import junit
from jobset_client.words import count_noun
from policy.suites.judge import Result, judge

DIFFERS = 3
"""Exit code: an API server decided differently."""


@dataclass(frozen=True, slots=True)
class Options:
    """The files and directories with suites, and the form of the report.

    `server`: whether a local API server judges the tests, too.
    """

    names: Sequence[str]
    gates: FeatureGates
    output: str = "table"
    server: bool = False


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Run all tests, write the report to `out` and problems to `err`. Returns the exit code."""
    report = Report()
    judged_suites: list[tuple[LoadedSuite, list[Result]]] = []
    for loaded in suites(options.names, report, options.gates):
        numbers, admit = range(len(loaded.suite.tests)), admission(options.gates)
        judged_suites.append((loaded, [judge(loaded, number, admit) for number in numbers]))
    if options.server and not (report.problems or report.errors):
        judged_suites = _with_server_results(judged_suites, report, options.gates)
    results_by_suite: dict[str, list[Result]] = {}
    for loaded, suite_results in judged_suites:
        results_by_suite.setdefault(loaded.document.source.name, []).extend(suite_results)
        for result in suite_results:
            report.add([locate(loaded.document, error) for error in result.failures])
    if not (results_by_suite or report.problems or report.errors):
        report.problems.append(f"no {SUITE_KIND} found in {', '.join(options.names)}")
    _write(options.output, report, results_by_suite, out)
    write_messages("policy test", report.problems, err)
    if report.problems:
        return 2
    if any(result.is_different for suite_results in results_by_suite.values() for result in suite_results):
        return DIFFERS
    return 1 if report.errors else 0


def _with_server_results(
    judged_suites: list[tuple[LoadedSuite, list[Result]]], report: Report, gates: FeatureGates
) -> list[tuple[LoadedSuite, list[Result]]]:
    """The suites with the results of an API server. Without an API server, a problem is reported."""
    from cli.policy.online import judge_online  # noqa: PLC0415 (a second of imports)

    if not any(result.is_askable for _, results in judged_suites for result in results):
        return judged_suites
    try:
        server_results = judge_online(judged_suites, gates)
    except CheckError as error:
        report.problems.append(str(error))
        return judged_suites
    return [(loaded, suite_results) for (loaded, _), suite_results in zip(judged_suites, server_results, strict=True)]


def _write(output: str, report: Report, results_by_suite: dict[str, list[Result]], out: TextIO) -> None:
    if output in DATA_FORMATS:
        tests = [
            {
                "suite": suite,
                "name": result.name,
                "passed": not result.failures,
                "skipped": result.is_skipped,
                "differs": result.is_different,
                "note": result.note,
            }
            for suite, suite_results in results_by_suite.items()
            for result in suite_results
        ]
        out.write(dump({**report.json(), "tests": tests}, output))
    elif output == "sarif":
        out.write(dump(sarif(report), "json"))
    elif output == "junit":
        out.write(junit(results_by_suite, report.problems))
    else:
        _write_table(report, results_by_suite, out)


def _write_table(report: Report, results_by_suite: dict[str, list[Result]], out: TextIO) -> None:
    for suite, suite_results in results_by_suite.items():
        for result in suite_results:
            note = f" ({result.note})" if result.note else ""
            out.write(f"{result.state:<6}{printable(suite)}: {printable(result.name + note)}\n")
    write_text(report.findings, out, color=has_color(out))
    all_results = [result for suite_results in results_by_suite.values() for result in suite_results]
    failed = sum(bool(result.failures) for result in all_results)
    counts = [
        count_noun(len(results_by_suite), "suite"),
        count_noun(len(all_results), "test"),
        f"{failed} failed",
    ]
    states = [result.state for result in all_results]
    counts += [f"{states.count('skip')} skipped: run them with --server"] if "skip" in states else []
    counts += [f"{states.count('DIFF')} judged otherwise by the API server"] if "DIFF" in states else []
    out.write(f"{', '.join(counts)}\n")
