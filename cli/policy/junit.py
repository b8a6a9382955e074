"""Results of tests in the form of JUnit, which servers for continuous integration read. Pure."""

from collections.abc import Mapping, Sequence
from xml.etree import ElementTree as ET

from cli.messages import printable
from policy.suites.judge import Result


def junit(results: Mapping[str, Sequence[Result]], problems: Sequence[str]) -> str:
    """The text of a file: a test suite for each suite, and an error for everything that could not be checked."""
    failed = sum(bool(result.failures) for each in results.values() for result in each)
    count = sum(map(len, results.values()))
    root = ET.Element("testsuites", tests=str(count), failures=str(failed), errors=str(len(problems)))
    for name, each in results.items():
        bad = sum(bool(result.failures) for result in each)
        suite = ET.SubElement(root, "testsuite", name=printable(name), tests=str(len(each)), failures=str(bad))
        for result in each:
            case = ET.SubElement(suite, "testcase", classname=printable(name), name=printable(result.name))
            if result.skipped:
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
