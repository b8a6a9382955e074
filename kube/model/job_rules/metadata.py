"""The rules about labels, annotations and selectors in a Job. Pure."""

from collections.abc import Iterator
from typing import Any

from kube.model.field import FieldError, Path
from kube.model.job_rules.checks import Check, each, fields, forbidden, invalid, member, missing, text
from kube.model.job_rules.forms import label_key
from kube.model.validation import label_value

_NEED_VALUES = frozenset({"In", "NotIn"})
_NO_VALUES = frozenset({"Exists", "DoesNotExist"})


def labels(path: Path, value: Any) -> Iterator[FieldError]:
    """A check of labels or of matchLabels. Errors have the path of the whole map."""
    for key, label in value.items() if isinstance(value, dict) else ():
        yield from (invalid(path, key, complaint) for complaint in label_key(key))
        if isinstance(label, str):
            yield from (invalid(path, label, complaint) for complaint in label_value(label))


def annotations(path: Path, value: Any) -> Iterator[FieldError]:
    """A check of the keys of annotations, without regard to case."""
    for key in value if isinstance(value, dict) else ():
        yield from (invalid(path, key, complaint) for complaint in label_key(key.lower()))


metadata = fields(labels=labels, annotations=annotations)
key = text(label_key, empty=True)
"""A check of the key of a label."""
key_member = member("key", "", key)


def operator(*, numbers: bool = False) -> Check:
    """A selector term whose operator fits its number of values; `numbers`: Gt and Lt are operators, too."""

    def check(path: Path, value: Any) -> Iterator[FieldError]:
        name, values = value.get("operator") or "", value.get("values") or []
        if name in _NEED_VALUES and not values:
            yield missing(path.at("values"), "must be specified when `operator` is 'In' or 'NotIn'")
        elif name in _NO_VALUES and values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield forbidden(path.at("values"), detail)
        elif numbers and name in {"Gt", "Lt"} and len(values) != 1:
            yield missing(path.at("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'")
        elif name not in _NEED_VALUES | _NO_VALUES | ({"Gt", "Lt"} if numbers else set()):
            yield invalid(path.at("operator"), name, "not a valid selector operator")

    return check


_EXPRESSION = fields(operator(), key_member, values=each(text(label_value)))
selector = fields(matchLabels=labels, matchExpressions=each(_EXPRESSION))
"""A check of a label selector."""
