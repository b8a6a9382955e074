"""Label selectors as the API server reads them, for the models. Must not accept what it would refuse."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PART = re.compile(
    r"\s*(?P<key>[\w./-]+)\s*(=\s*(?P<value>[\w.-]*)|(?P<set>in|notin)\s*\((?P<values>[\w.,\s-]*)\))?\s*(,|$)"
)


def matches(selector: str, labels: Mapping[str, str]) -> bool:
    """Whether an object with those labels is selected."""
    at = 0
    while at < len(selector):
        part = _PART.match(selector, at)
        assert part is not None, f"{selector[at:]!r} is no selector"
        if not _holds(part, labels):
            return False
        at = part.end()
    return True


def _holds(part: re.Match[str], labels: Mapping[str, str]) -> bool:
    have = labels.get(part["key"])
    if part["value"] is not None:
        return have == part["value"]
    if part["set"] is None:
        return have is not None
    listed = {value.strip() for value in part["values"].split(",")}
    return (have in listed) == (part["set"] == "in")
