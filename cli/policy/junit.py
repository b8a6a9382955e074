"""Writes results of tests in the format of JUnit, which continuous integration servers read. Pure."""

from collections.abc import Mapping, Sequence
from xml.etree import ElementTree as ET

from cli.messages import printable
from policy.suites.judge import Result


def junit(results_by_suite: Mapping[str, Sequence[Result]], problems: Sequence[str]) -> str:
    """The text of the file. `problems`: messages about what could not be checked."""
    failed = sum(bool(result.failures) for suite_results in results_by_suite.values() for result in suite_results)
    count = sum(map(len, results_by_suite.values()))
    root = ET.Element("testsuites", tests=str(count), failures=str(failed), errors=str(len(problems)))
    for name, suite_results in results_by_suite.items():
        failures = str(sum(bool(result.failures) for result in suite_results))
        tests = str(len(suite_results))
        suite = ET.SubElement(root, "testsuite", name=printable(name), tests=tests, failures=failures)
        for result in suite_results:
            case = ET.SubElement(suite, "testcase", classname=printable(name), name=printable(result.name))
            if result.is_skipped:
                ET.SubElement(case, "skipped", message="only an API server can judge it: --server")
            for error in result.failures:
                ET.SubElement(case, "failure", message=printable(str(error)))
    if problems:
        suite = ET.SubElement(root, "testsuite", name="jobset policy test", errors=str(len(problems)))
        for problem in problems:
            case = ET.SubElement(suite, "testcase", name="not checked")
            ET.SubElement(case, "error", message=printable(problem))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'
