"""Findings in admission answers: a refusal with a cause for each fault; warnings within limits. Pure."""

import re
from collections.abc import Sequence

from api.keys import GROUP, KIND
from kube.model.field import FieldError, invalid_status, shorten
from kube.model.jsontree import dig
from kube.model.meta import JSON
from webhooks.jobset.engine import Findings
from webhooks.jobset.ignored_rules import can_be_ignored
from webhooks.jobset.rules import MAX_FINDINGS
from webhooks.review import AdmissionResponse

MAX_WARNING_LENGTH = 256
"""The most characters of one warning. The API server may cut a longer warning, whose fix is at its end."""
MAX_WARNINGS = MAX_FINDINGS
_MORE_WARNINGS_TEXT = "and {} more warnings; `jobset validate` shows them all"
MORE_WARNINGS = re.compile(_MORE_WARNINGS_TEXT.format(r"\d+"))
"""The form of the last warning if not all fit. It counts the further warnings."""
RULE_SUFFIX = re.compile(r" \[[a-z0-9-]+\]$")
"""Matches the id of the rule at the end of a warning. Managers of other versions may write no such id."""
_MAX_FIX_LENGTH = 120
_MAX_PATH_HEAD = 30
_MIN_PATH_TAIL = 60


def jobset_answer(findings: Findings, obj: JSON) -> AdmissionResponse:
    """The answer to a review of a JobSet."""
    return review_answer(findings.errors, findings.warnings, GROUP, KIND, _name(obj))


def review_answer(
    errors: Sequence[FieldError], warnings: Sequence[FieldError], group: str, kind: str, name: str
) -> AdmissionResponse:
    """The answer to a review, with the warnings. If there are errors, it refuses with all of them and their rules."""
    texts = warning_texts(warnings)
    if not errors:
        return AdmissionResponse(warnings=texts)
    status = invalid_status(errors, group=group, kind=kind, name=name)
    rule_ids = tuple(sorted({error.rule.id if error.rule else "other" for error in errors}))
    return AdmissionResponse(allowed=False, status=status, warnings=texts, rule_ids=rule_ids)


def _name(obj: JSON) -> str:
    """The name of an object, or its generateName if it has no name yet."""
    names = (dig(obj, "metadata", key) for key in ("name", "generateName"))
    return next((name for name in names if isinstance(name, str) and name), "")


def warning_texts(warnings: Sequence[FieldError]) -> tuple[str, ...]:
    """At most MAX_WARNINGS texts of MAX_WARNING_LENGTH characters; if there are more, the last text says how many."""
    texts = list(dict.fromkeys(map(_warning_text, warnings)))
    if len(texts) > MAX_WARNINGS:
        more = len(texts) - MAX_WARNINGS + 1
        texts[MAX_WARNINGS - 1 :] = [_MORE_WARNINGS_TEXT.format(more)]
    return tuple(texts)


def _warning_text(warning: FieldError) -> str:
    """The text of a warning. If it is too long, the path is cut in the middle, and then the detail, too.

    The fix and the id of the rule are kept.
    """
    path, detail = str(warning.path), warning.detail
    fix = f"; {warning.fix}" if warning.fix else ""
    rule = f" [{warning.rule.id}]" if warning.rule and can_be_ignored(warning) else ""
    if len(path) + 2 + len(detail) + len(fix) + len(rule) > MAX_WARNING_LENGTH:
        fix = shorten(fix, _MAX_FIX_LENGTH)
        fix += rule
        path = _path_without_middle(path, MAX_WARNING_LENGTH - len(detail) - len(fix) - 2)
        detail = _without_middle(detail, MAX_WARNING_LENGTH - len(path) - len(fix) - 2)
    else:
        fix += rule
    return shorten(f"{path}: {detail}{fix}", MAX_WARNING_LENGTH)


def _path_without_middle(path: str, limit: int) -> str:
    """The path without its middle: `spec.replicatedJobs[1]...annotations[example.com/key]`."""
    head = path[: path.find("]") + 1] if "]" in path[:_MAX_PATH_HEAD] else ""
    tail = max(limit - len(head) - 3, _MIN_PATH_TAIL)
    return path if len(path) <= len(head) + 3 + tail else f"{head}...{path[-tail:]}"


def _without_middle(text: str, limit: int) -> str:
    """The text without its middle. The beginning, which has the fault, keeps twice as much as the end."""
    tail = max(limit - 3, 0) // 3
    return text if len(text) <= limit else f"{text[: max(limit - 3 - tail, 0)]}...{text[len(text) - tail :]}"
