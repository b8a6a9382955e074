"""`jobset policy test`: runs suites and writes their results.

Exit codes: 0 all tests passed, 1 some failed, 2 not everything could be checked, as those of `jobset validate`; and 3
an API server decided differently.
"""

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
from cli.messages import colorful, printable, write_messages
from cli.output import FORMS, dump
from cli.policy.junit import junit
from jobset_client.words import count_noun
from policy.suites.judge import Result, judge

DIFFERS = 3
"""Exit code: an API server decided differently."""


@dataclass(frozen=True, slots=True)
class Options:
    """Files and directories with suites, and the form of the report: `table`, `json`, `yaml`, `junit` or `sarif`.

    `server`: ask a local API server, too.
    """

    names: Sequence[str]
    gates: FeatureGates
    output: str = "table"
    server: bool = False


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Run all tests, write the report to `out` and problems to `err`; returns the exit code."""
    report = Report()
    judged: list[tuple[LoadedSuite, list[Result]]] = []
    for loaded in suites(options.names, report, options.gates):
        numbers, admit = range(len(loaded.suite.tests)), admission(options.gates)
        judged.append((loaded, [judge(loaded, number, admit) for number in numbers]))
    if options.server and not (report.problems or report.errors):
        judged = _online(judged, report, options.gates)
    results: dict[str, list[Result]] = {}
    for loaded, each in judged:
        results.setdefault(loaded.document.source.name, []).extend(each)
        for result in each:
            report.add([locate(loaded.document, error) for error in result.failures])
    if not (results or report.problems or report.errors):
        report.problems.append(f"no {SUITE_KIND} found in {', '.join(options.names)}")
    _write(options.output, report, results, out)
    write_messages("policy test", report.problems, err)
    if report.problems:
        return 2
    if any(result.differs for each in results.values() for result in each):
        return DIFFERS
    return 1 if report.errors else 0


def _online(
    judged: list[tuple[LoadedSuite, list[Result]]], report: Report, gates: FeatureGates
) -> list[tuple[LoadedSuite, list[Result]]]:
    from cli.policy.online import judge_online  # noqa: PLC0415 (a second of imports that others need not pay)

    if not any(result.is_askable for _, results in judged for result in results):
        return judged
    try:
        results = judge_online(judged, gates)
    except CheckError as error:
        report.problems.append(str(error))
        return judged
    return [(loaded, each) for (loaded, _), each in zip(judged, results, strict=True)]


def _write(output: str, report: Report, results: dict[str, list[Result]], out: TextIO) -> None:
    if output in FORMS:
        tests = [
            {
                "suite": suite,
                "name": result.name,
                "passed": not result.failures,
                "skipped": result.skipped,
                "differs": result.differs,
                "note": result.note,
            }
            for suite, each in results.items()
            for result in each
        ]
        out.write(dump({**report.json(), "tests": tests}, output))
    elif output == "sarif":
        out.write(dump(sarif(report), "json"))
    elif output == "junit":
        out.write(junit(results, report.problems))
    else:
        _write_table(report, results, out)


def _write_table(report: Report, results: dict[str, list[Result]], out: TextIO) -> None:
    for suite, each in results.items():
        for result in each:
            note = f" ({result.note})" if result.note else ""
            out.write(f"{result.state:<6}{printable(suite)}: {printable(result.name + note)}\n")
    write_text(report.findings, out, color=colorful(out))
    failed = sum(bool(result.failures) for each in results.values() for result in each)
    counts = [
        count_noun(len(results), "suite"),
        count_noun(sum(map(len, results.values())), "test"),
        f"{failed} failed",
    ]
    states = [result.state for each in results.values() for result in each]
    counts += [f"{states.count('skip')} skipped: run them with --server"] if "skip" in states else []
    counts += [f"{states.count('DIFF')} judged otherwise by the API server"] if "DIFF" in states else []
    out.write(f"{', '.join(counts)}\n")
