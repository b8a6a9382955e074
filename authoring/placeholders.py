"""Placeholders in manifests, which a tool or a person replaces before the manifest is applied. Pure.

Faults of values with placeholders are not reported. One finding for each file names the placeholders.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from authoring.findings import Finding
from kube.model.field import ErrorType, Rule, Severity, join_names, shorten
from kube.model.jsontree import dig
from webhooks.jobset.rules.variables import UNEXPANDED

MAX_NAMES = 8
"""Largest number of placeholders that a finding names. The finding also has the number of further placeholders."""
_LONGEST_VALUE = 1000
"""Only this many characters of a value are searched for placeholders."""
_PLACEHOLDER = re.compile(
    r"\$\{[A-Za-z_]\w{0,99}\}|\$[A-Z_][A-Z0-9_]{0,99}|<[A-Za-z][\w .-]{0,99}>|\w{0,99}PLACEHOLDER\w{0,99}"
)
_MAX_VALUES = 200
"""Only this many values of a mapping are searched for placeholders."""
ENVSUBST = "fill them in first: `envsubst < {file} | jobset validate -f -`"
BY_HAND = "write the values in their places first"

PLACEHOLDERS = Rule(
    "placeholders",
    ErrorType.INVALID,
    "{names}: placeholders, and what they stand for cannot be checked",
    "{how}",
    "docs/validate.md#helm-and-kustomize",
)


def with_placeholders_once(findings: Sequence[Finding], value: Any, files: set[str]) -> list[Finding]:
    """The findings about a document, with at most one finding about placeholders for each file.

    `value`: the object of the document. `files`: the files that have such a finding; the file is added.
    """
    with_placeholders = [(finding, names) for finding in findings if (names := _placeholders_in(finding, value))]
    # Variables may be meant for a shell in the container. They count only if there are other placeholders, too.
    if all(finding.error.rule is UNEXPANDED for finding, _ in with_placeholders):
        return list(findings)
    replaced = {id(finding) for finding, _ in with_placeholders}
    others = [finding for finding in findings if id(finding) not in replaced]
    first, file = with_placeholders[0][0], with_placeholders[0][0].file
    if file in files:
        return others
    files.add(file)
    names = list(dict.fromkeys(name for _, finding_names in with_placeholders for name in finding_names))
    fix = (ENVSUBST if any("$" in name for name in names) else BY_HAND).format(file=shorten(file, 200))
    are_warnings = all(finding.error.is_warning for finding, _ in with_placeholders)
    rule = replace(PLACEHOLDERS, severity=Severity.WARNING if are_warnings else Severity.ERROR)
    error = rule.at(first.error.path, names=join_names(names, MAX_NAMES), how=fix)
    return [*others, replace(first, error=replace(error, verbatim=error.detail))]


def _placeholders_in(finding: Finding, value: Any) -> list[str]:
    """The placeholders in the value of a finding, and in the value of the document at its path."""
    error_value = finding.error.value
    texts = [*([error_value] if isinstance(error_value, str) else ()), *_texts(dig(value, *finding.error.path.parts))]
    return [match[0] for text in texts for match in _PLACEHOLDER.finditer(text[:_LONGEST_VALUE])]


def _texts(value: Any) -> list[str]:
    """The value if it is a text, or the texts of a mapping, whose path findings about labels have."""
    if isinstance(value, dict):
        return [text for text in list(value.values())[:_MAX_VALUES] if isinstance(text, str)]
    return [value] if isinstance(value, str) else []
