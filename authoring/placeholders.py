"""Placeholders that a tool or a person fills in before a manifest is applied. Pure.

Faults of such values are not reported; one finding for each file names the placeholders.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from authoring.findings import Finding
from kube.model.field import ErrorType, Rule, Severity, shorten
from kube.model.jsontree import dig
from webhooks.jobset.rules.variables import UNEXPANDED

MAX_NAMES = 8
"""Placeholders that a finding names."""
_LONGEST_VALUE = 1000
"""Characters of a value that are searched."""
_PLACEHOLDER = re.compile(
    r"\$\{[A-Za-z_]\w{0,99}\}|\$[A-Z_][A-Z0-9_]{0,99}|<[A-Za-z][\w .-]{0,99}>|\w{0,99}PLACEHOLDER\w{0,99}"
)
_MAX_VALUES = 200
"""Values of a mapping that are searched."""
ENVSUBST = "fill them in first: `envsubst < {file} | jobset validate -f -`"
BY_HAND = "write the values in their places first"

PLACEHOLDERS = Rule(
    "placeholders",
    ErrorType.INVALID,
    "{names}: placeholders, and what they stand for cannot be checked",
    "{how}",
    "docs/validate.md#helm-and-kustomize",
)


def with_placeholders_once(found: Sequence[Finding], value: Any, files: set[str]) -> list[Finding]:
    """The findings; those about placeholders become one, or none if `files` contains the file already."""
    with_placeholders = [(finding, names) for finding in found if (names := _names(finding, value))]
    # A variable that a shell in the container replaces counts only if the file has other placeholders, too.
    if all(finding.error.rule is UNEXPANDED for finding, _ in with_placeholders):
        return list(found)
    replaced = {id(finding) for finding, _ in with_placeholders}
    others = [finding for finding in found if id(finding) not in replaced]
    first, file = with_placeholders[0][0], with_placeholders[0][0].file
    if file in files:
        return others
    files.add(file)
    names = list(dict.fromkeys(name for _, each in with_placeholders for name in each))
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    how = (ENVSUBST if any("$" in name for name in names) else BY_HAND).format(file=shorten(file, 200))
    are_warnings = all(each.error.is_warning for each, _ in with_placeholders)
    rule = replace(PLACEHOLDERS, severity=Severity.WARNING if are_warnings else Severity.ERROR)
    error = rule.at(first.error.path, names=", ".join(names[:MAX_NAMES]) + more, how=how)
    return [*others, replace(first, error=replace(error, verbatim=error.detail))]


def _names(finding: Finding, value: Any) -> list[str]:
    """The placeholders in the value of a finding, or in the text of the document at its path."""
    found_value = finding.error.value
    texts = [*([found_value] if isinstance(found_value, str) else ()), *_texts(dig(value, *finding.error.path.parts))]
    return [found[0] for text in texts for found in _PLACEHOLDER.finditer(text[:_LONGEST_VALUE])]


def _texts(value: Any) -> list[str]:
    """The texts at a path, or in the mapping there: a finding about labels has the path of the mapping."""
    if isinstance(value, dict):
        return [text for text in list(value.values())[:_MAX_VALUES] if isinstance(text, str)]
    return [value] if isinstance(value, str) else []
