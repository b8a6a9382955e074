"""Writes findings as SARIF 2.1.0, which code hosts show at the changed lines. Pure."""

import os
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from app.version import current_version
from authoring.findings import Finding, Report
from kube.model.field import FieldError, Rule, with_placeholders

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_NO_RULE = "other"


def sarif(report: Report) -> dict[str, Any]:
    """The SARIF log of one run, with the rules of its findings. Problems are notifications."""
    rules = _rules(report.findings)
    index_by_rule = {rule["id"]: number for number, rule in enumerate(rules)}
    problems = [{"level": "error", "message": {"text": problem}} for problem in report.problems]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {"name": "jobset", "semanticVersion": current_version().removeprefix("v"), "rules": rules}
                },
                "columnKind": "unicodeCodePoints",
                "invocations": [{"executionSuccessful": not problems, "toolExecutionNotifications": problems}],
                "results": [_result(finding, index_by_rule[finding.rule]) for finding in report.findings],
            }
        ],
    }


def _rules(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """The rules of the findings, sorted by id."""
    errors_by_rule: dict[str, FieldError] = {}
    for finding in findings:
        errors_by_rule.setdefault(finding.rule, finding.error)
    return [_rule(rule_id, error) for rule_id, error in sorted(errors_by_rule.items())]


def _rule(rule_id: str, error: FieldError) -> dict[str, Any]:
    rule = error.rule or Rule(_NO_RULE, error.type, error.complaint, error.fix, "the API server")
    message, fix = with_placeholders(rule.message), with_placeholders(rule.fix)
    return {
        "id": rule_id,
        "shortDescription": {"text": message},
        "fullDescription": {"text": f"{message} (source: {rule.source})"},
        "help": {"text": fix or message},
        "defaultConfiguration": {"level": "warning" if error.is_warning else "error"},
        "properties": {"layer": error.layer.value, "type": error.type.text},
    }


def _result(finding: Finding, index: int) -> dict[str, Any]:
    region = {
        "startLine": finding.line,
        "startColumn": finding.column,
        "endLine": finding.line,
        "endColumn": finding.end_column,
        "snippet": {"text": finding.line_text[:400]},
    }
    location: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": _uri_reference(finding.file)}, "region": region},
    }
    if finding.error.path.parts:
        location["logicalLocations"] = [{"fullyQualifiedName": str(finding.error.path), "kind": "member"}]
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": finding.severity,
        "message": {"text": finding.reader_text},
        "locations": [location],
    }


def _uri_reference(file: str) -> str:
    """A path as a URI reference. A relative path stays relative."""
    path = PurePath(file)
    return path.as_uri() if path.is_absolute() else quote(os.fsencode(path.as_posix()))
