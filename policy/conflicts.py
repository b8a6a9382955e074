"""Warnings for the author of a policy about contradictions between its defaults and other policies. Pure."""

from collections.abc import Iterator, Sequence

from api.features import FeatureGates
from kube.model.field import SPEC, FieldError, Path, by_path
from policy.defaults import DEADLINE_GATE, Default, each_default, refusals
from policy.judged import Namespace
from policy.recorded import DEADLINE
from policy.sentences import caution
from policy.types import JobSetPolicy, Selector

REFUSED = caution(
    "default-refused",
    "rule {rule} of policy {policy} refuses it",
    "it is not set where both match; change one of them",
    "defaults",
)
REFUSES = caution(
    "default-refusing",
    "refuses the default {default} of policy {policy}",
    "that is not set where both match; change one of them",
    "defaults",
)
OTHER_VALUE = caution(
    "default-other-value",
    "policy {policy} has another value",
    "where both match, that of {first} is set: its name comes first",
    "defaults",
)
NO_GATE = caution(
    "default-gate",
    "not set without the feature gate {gate}",
    "turn it on with --feature-gates={gate}=true, or remove the default",
    "defaults",
)
_UNKNOWN_NAMESPACE = Namespace()


def conflicts(policy: JobSetPolicy, policies: Sequence[JobSetPolicy], gates: FeatureGates) -> list[FieldError]:
    """Warnings about contradictions between a policy and all other policies, sorted by path.

    Limits of namespaces are not compared. Policies whose selectors exclude each other never conflict.
    """
    warnings = [] if gates[DEADLINE_GATE] else list(_gate_warnings(policy))
    for other in sorted(policies, key=lambda candidate: candidate.metadata.name):
        if other.metadata.name != policy.metadata.name and _may_both_match(policy, other):
            warnings += _conflicts_with(policy, other)
    return by_path(warnings)


def _gate_warnings(policy: JobSetPolicy) -> Iterator[FieldError]:
    for default in each_default(policy.spec.defaults):
        if default.name == DEADLINE:
            yield NO_GATE.at(_default_path(default), gate=DEADLINE_GATE)


def _conflicts_with(policy: JobSetPolicy, other: JobSetPolicy) -> Iterator[FieldError]:
    name = other.metadata.name
    for refusal in refusals(policy, other, _UNKNOWN_NAMESPACE):
        yield REFUSED.at(_default_path(refusal.default), rule=refusal.rule, policy=name)
    for refusal in refusals(other, policy, _UNKNOWN_NAMESPACE):
        yield REFUSES.at(SPEC.at("rules", refusal.rule), default=refusal.default.name, policy=name)
    other_values = {default.name: default.value for default in each_default(other.spec.defaults)}
    for default in each_default(policy.spec.defaults):
        if other_values.get(default.name, default.value) != default.value:
            yield OTHER_VALUE.at(_default_path(default), policy=name, first=min(name, policy.metadata.name))


def _default_path(default: Default) -> Path:
    return SPEC.at("defaults", *default.location)


def _may_both_match(policy: JobSetPolicy, other: JobSetPolicy) -> bool:
    """Whether a JobSet may match both policies. It may not if they require different values of one label."""
    match, other_match = policy.spec.match, other.spec.match
    return _may_agree(match.namespace_selector, other_match.namespace_selector) and _may_agree(
        match.object_selector, other_match.object_selector
    )


def _may_agree(selector: Selector, other: Selector) -> bool:
    return all(other.match_labels.get(key, value) == value for key, value in selector.match_labels.items())
