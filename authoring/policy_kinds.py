"""Recognizes objects of policies in files, also with a misspelt kind, which would be ignored silently otherwise."""

from collections.abc import Iterator
from typing import Final

from api import keys
from kube.model.field import ErrorType, FieldError, Path, Rule
from kube.model.meta import JSON
from kube.model.suggest import nearest
from policy.kinds import EXCEPTION_KIND, GROUP, KIND
from policy.sentences import source

SUITE_KIND: Final = "JobSetPolicySuite"
KINDS: Final = (KIND, EXCEPTION_KIND, SUITE_KIND)

POLICY_KIND = Rule(
    "policy-kind",
    ErrorType.NOT_SUPPORTED,
    f"the kinds of {GROUP} are {', '.join(KINDS)}",
    "write `kind: {kind}`",
    source("README"),
)


def intended_kind(obj: JSON) -> str:
    """The kind of a policy, an exception or a suite, or the kind that was probably meant; "" for other objects."""
    kind, group = str(obj.get("kind") or ""), str(obj.get("apiVersion", "")).partition("/")[0]
    if match := next((known for known in KINDS if known.lower() == kind.lower()), ""):
        return match
    if group != GROUP or kind == keys.KIND or kind.endswith("List"):
        return ""
    return nearest(kind, KINDS) or KIND


def is_policy(obj: JSON) -> bool:
    """Whether an object is a JobSetPolicy, or is probably meant to be one."""
    return intended_kind(obj) == KIND


def is_exception(obj: JSON) -> bool:
    """Whether an object is a JobSetPolicyException, or is probably meant to be one."""
    return intended_kind(obj) == EXCEPTION_KIND


def is_policy_or_exception(obj: JSON) -> bool:
    """Whether an object is a policy or an exception, or is probably meant to be one."""
    return is_policy(obj) or is_exception(obj)


def is_suite(obj: JSON) -> bool:
    """Whether an object is a suite, or is probably meant to be one."""
    return intended_kind(obj) == SUITE_KIND


def kind_faults(obj: JSON) -> Iterator[FieldError]:
    """A fault if the kind is misspelt."""
    if obj.get("kind") not in KINDS:
        yield POLICY_KIND.at(Path(("kind",)), obj.get("kind"), kind=intended_kind(obj) or KIND)
