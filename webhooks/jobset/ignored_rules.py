"""Warnings that the author of a JobSet has suppressed. Pure.

See docs/validate.md#warnings-that-you-do-not-want.
"""

import re
from typing import Any

from api.keys import IGNORE_WARNINGS
from kube.model.field import FieldError
from kube.model.jsontree import dig

MAX_ANNOTATION_LENGTH = 4096
"""The most characters of the annotation that are read."""
_SEPARATOR = re.compile(r"[\s,]+")
_POLICY_RULE_PREFIX = "policy-"
"""Prefix of the ids of rules of policies, which authors of JobSets cannot suppress."""


def ignored_rules(obj: Any) -> tuple[str, ...]:
    """The ids that the annotation of a JobSet lists."""
    text = dig(obj, "metadata", "annotations", IGNORE_WARNINGS)
    return tuple(filter(None, _SEPARATOR.split(text[:MAX_ANNOTATION_LENGTH]))) if isinstance(text, str) else ()


def is_ignored(error: FieldError, ignored: tuple[str, ...]) -> bool:
    """Whether a finding is a warning that the author of the JobSet has suppressed."""
    return bool(ignored) and error.rule is not None and error.rule.id in ignored and can_be_ignored(error)


def can_be_ignored(error: FieldError) -> bool:
    """Whether the author may suppress a finding: it is a warning, and not by a policy."""
    return error.is_warning and error.rule is not None and not error.rule.id.startswith(_POLICY_RULE_PREFIX)
