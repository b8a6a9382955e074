"""Decides which defaults of policies a new JobSet gets, and which defaults a rule of a policy refuses. Pure.

A default is not set if a policy that also matches the JobSet has a rule that refuses the value. So no JobSet is refused
for a value that its author has not written. The author of the policy gets a warning (policy/conflicts.py).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from api.features import FeatureGates
from api.jobset import JobSet, JobSetSpec, ReplicatedJob
from kube.model.field import FieldError, Path
from kube.model.jsontree import dig
from kube.model.meta import JSON, ObjectMeta
from policy.default_types import Defaults
from policy.evaluate import matches, rules_in_force
from policy.judged import JudgedJobSet, Namespace
from policy.recorded import DEADLINE
from policy.rule import PolicyRule, pod_fields
from policy.types import JobSetPolicy

DEADLINE_GATE: Final = "JobSetActiveDeadlineSeconds"
POD: Final = ("template", "spec", "template", "spec")
"""The path from a ReplicatedJob to the spec of its pods."""

_SET_FIELDS: Final = (
    "metadata.labels{}",
    "spec.ttlSecondsAfterFinished",
    "spec.activeDeadlineSeconds",
    *pod_fields("priorityClassName", "nodeSelector{}", "tolerations"),
)
"""Fields that defaults set, in the form of `PolicyRule.reads`."""


@dataclass(frozen=True, slots=True)
class Default:
    """One default of a policy.

    - `location`: its path in the policy, below `spec.defaults`.
    - `name`: its name in messages and annotations, such as `labels[team]`.
    - `parts`: its path in the JobSet, or in the spec of each pod if `of_pods` is true. For a toleration it is the path
      of the list.
    """

    location: tuple[str | int, ...]
    name: str
    parts: tuple[str, ...]
    value: Any
    of_pods: bool = False


def each_default(defaults: Defaults | None) -> Iterator[Default]:
    """All defaults of a policy."""
    if defaults is None:
        return
    for key, value in defaults.labels.items():
        yield Default(("labels", key), f"labels[{key}]", ("metadata", "labels", key), value)
    for name, seconds in (
        ("ttlSecondsAfterFinished", defaults.ttl_seconds_after_finished),
        (DEADLINE, defaults.active_deadline_seconds),
    ):
        if seconds is not None:
            yield Default((name,), name, ("spec", name), seconds)
    if defaults.priority_class_name:
        name = "priorityClassName"
        yield Default((name,), name, (name,), defaults.priority_class_name, of_pods=True)
    for key, value in defaults.node_selector.items():
        yield Default(("nodeSelector", key), f"nodeSelector[{key}]", ("nodeSelector", key), value, of_pods=True)
    for i, item in enumerate(defaults.tolerations):
        toleration = {"operator": item.operator, **msgspec.to_builtins(item)}
        yield Default(("tolerations", i), f"tolerations[{item.key}]", ("tolerations",), toleration, of_pods=True)


OnFailure = Callable[[JobSetPolicy, Exception], None]
"""Called with the policy whose defaults could not be computed, and the exception."""


def defaults_for(
    policies: Sequence[JobSetPolicy],
    obj: JSON,
    namespace: Namespace,
    gates: FeatureGates,
    *,
    on_failure: OnFailure | None = None,
) -> list[tuple[JobSetPolicy, Default]]:
    """The defaults that a new JobSet may get, one for each name. The first policy by name wins.

    Selectors match the labels that the author has written. `on_failure` is called with each policy whose defaults raise
    an exception, and all other policies still count. Without `on_failure` the exception is raised.
    """
    stated_labels = dig(obj, "metadata", "labels")
    labels = stated_labels if isinstance(stated_labels, dict) else {}
    matching_policies = sorted(
        (policy for policy in policies if matches(policy, labels, namespace)), key=lambda policy: policy.metadata.name
    )
    demands = [demand for policy in matching_policies for demand in _default_demands(policy)]
    chosen: dict[str, tuple[JobSetPolicy, Default]] = {}
    for policy in matching_policies:
        try:
            defaults = list(each_default(policy.spec.defaults))
            if all(default.name in chosen for default in defaults):
                continue
            refused_names = {refusal.default.name for refusal in _find_refusals(defaults, demands, namespace)}
            for default in defaults:
                if default.name not in refused_names and (default.name != DEADLINE or gates[DEADLINE_GATE]):
                    chosen.setdefault(default.name, (policy, default))
        except Exception as error:
            if on_failure is None:
                raise
            on_failure(policy, error)
    return list(chosen.values())


@dataclass(frozen=True, slots=True)
class Refusal:
    """A default that a rule refuses, the name of the rule, and its finding."""

    default: Default
    rule: str
    error: FieldError


def refusals(policy: JobSetPolicy, other: JobSetPolicy, namespace: Namespace) -> Iterator[Refusal]:
    """The defaults of `policy` that rules of `other` refuse. `other` may be the same policy."""
    demands = _default_demands(other)
    if demands and (defaults := list(each_default(policy.spec.defaults))):
        yield from _find_refusals(defaults, demands, namespace)


Demand = tuple[PolicyRule, object]
"""A rule, and the value of its field in a policy, which says what the rule demands."""


def _default_demands(policy: JobSetPolicy) -> list[Demand]:
    """The demands of a policy that may refuse a default, since they read a field that defaults set."""
    return [
        (rule, demanded)
        for rule, demanded in rules_in_force(policy)
        if any(field.startswith(_SET_FIELDS) for field in rule.reads)
    ]


def _find_refusals(defaults: Sequence[Default], demands: Iterable[Demand], namespace: Namespace) -> Iterator[Refusal]:
    by_location = {_location_in_sample(default): default for default in defaults}
    sample = _sample(defaults)
    for rule, demanded in demands:
        for error in rule.find(demanded, sample, namespace):
            if default := by_location.get(error.path.parts):
                yield Refusal(default, rule.name, error)


_SAMPLE_POD = Path(("spec", "replicatedJobs", 0, *POD)).parts


def _location_in_sample(default: Default) -> tuple[str | int, ...]:
    """The path of the default in the JobSet of `_sample`."""
    if not default.of_pods:
        return default.parts
    index = default.location[1:] if default.parts == ("tolerations",) else ()
    return (*_SAMPLE_POD, *default.parts, *index)


def _sample(defaults: Sequence[Default]) -> JudgedJobSet:
    """A JobSet that has these defaults and nothing else."""
    values = {default.name: default.value for default in defaults}
    pod: JSON = {
        "priorityClassName": values.get("priorityClassName"),
        "nodeSelector": {default.parts[1]: default.value for default in defaults if default.parts[0] == "nodeSelector"},
        "tolerations": [default.value for default in defaults if default.parts == ("tolerations",)],
    }
    spec = JobSetSpec(
        replicated_jobs=(ReplicatedJob(name="", template={"spec": {"template": {"spec": pod}}}),),
        ttl_seconds_after_finished=values.get("ttlSecondsAfterFinished"),
        active_deadline_seconds=values.get(DEADLINE),
    )
    labels = {default.parts[2]: default.value for default in defaults if default.parts[:2] == ("metadata", "labels")}
    return JudgedJobSet(JobSet(metadata=ObjectMeta(labels=labels), spec=spec))
