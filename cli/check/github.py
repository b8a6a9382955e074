"""Writes findings as commands of a GitHub workflow, which shows them at the lines of a pull request. Pure."""

from authoring.findings import Finding, Report
from cli.messages import printable

LEVELS = {"error": "error", "warning": "warning", "note": "notice"}
_TEXT_ESCAPES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY_ESCAPES = {**_TEXT_ESCAPES, **str.maketrans({":": "%3A", ",": "%2C"})}


def github_lines(report: Report) -> list[str]:
    """A line for each finding, and for each problem. Texts of manifests are escaped, so they cannot begin a command."""
    problems = [f"::error title=jobset validate::{_escape(problem)}" for problem in report.problems]
    return [*map(_line, report.findings), *problems]


def _line(finding: Finding) -> str:
    properties = {
        "file": finding.file,
        "line": finding.line,
        "endLine": finding.line,
        "col": finding.column,
        "endColumn": finding.end_column,
        "title": f"{finding.kind} {finding.jobset}: {finding.rule}",
    }
    escaped_values = {key: printable(str(value)).translate(_PROPERTY_ESCAPES) for key, value in properties.items()}
    location = ",".join(f"{key}={value}" for key, value in escaped_values.items())
    return f"::{LEVELS[finding.severity]} {location}::{_escape(finding.reader_text)}"


def _escape(text: str) -> str:
    return printable(text).translate(_TEXT_ESCAPES)
