"""The fields of the spec that the Go JobSet does not have, and that clients with its types drop. Pure."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kube.model.field import SPEC, Path
from kube.model.jsontree import dig


@dataclass(frozen=True, slots=True)
class DroppedField:
    """A field that the Go JobSet does not know.

    - `effect_of_loss`: what happens without the field.
    - `remedy`: what to do before the field is lost.
    - `changes_behavior`: whether a value of the field changes what the set does.
    """

    effect_of_loss: str
    remedy: str
    changes_behavior: Callable[[Any], bool] = lambda value: value is not None


Fields = Mapping[tuple[str, ...], DroppedField]

_REMOVE_FIELD = "let the JobSet finish, or delete it and create it again without the field"
USE_GO_POLICY = "let the JobSet finish, or delete it and create it again with a policy of the Go JobSet"
_USE_POD_FAILURE_POLICY = (
    "let the JobSet finish, or create it again with a podFailurePolicy and onJobFailureReasons: [PodFailurePolicy]"
)

OWN_FIELDS: Fields = {
    ("executionPolicy",): DroppedField(
        "all stages start together",
        "let the JobSet finish, or create it again with dependsOn",
        lambda value: dig(value, "executionPolicyOrder") == "InOrder",
    ),
    ("scheduling",): DroppedField(
        "pods that are created from then on are scheduled one by one, without gangs and topology",
        "suspend the JobSet and remove spec.scheduling, or let it finish",
    ),
    ("activeDeadlineSeconds",): DroppedField(
        "the set has no deadline before version 0.13 of the Go JobSet, nor without its feature gate"
        " JobSetActiveDeadlineSeconds",
        "let the JobSet finish, or set the deadline on its Jobs",
    ),
    ("successPolicy", "minSucceeded"): DroppedField("every targeted Job has to succeed", USE_GO_POLICY),
    ("successPolicy", "unit"): DroppedField("Jobs are counted, not pods", USE_GO_POLICY, lambda value: value == "Pod"),
    ("failurePolicy", "failOn"): DroppedField(
        "a Job counts as failed only when the last of its pods is gone",
        _REMOVE_FIELD,
        lambda value: value == "FailureTarget",
    ),
    ("failurePolicy", "inPlaceRestarts"): DroppedField("maxRestarts alone limits restarts in place", _REMOVE_FIELD),
    ("failurePolicy", "startTimeoutSeconds"): DroppedField(
        "pods that do not run are waited for without a limit", _REMOVE_FIELD
    ),
    ("failurePolicy", "nodeFailure"): DroppedField(
        "pods of nodes that fail are waited for until Kubernetes ends them", _REMOVE_FIELD
    ),
    ("failurePolicy", "maintenance"): DroppedField(
        "pods stay on nodes with a taint of maintenance until somebody ends or evicts them, which counts as a failure",
        _REMOVE_FIELD,
    ),
    ("failurePolicy", "agent"): DroppedField(
        "pods that are created from then on have no agent, and the set waits for their reports",
        "let the JobSet finish, or create it again with the agent in its pod templates",
    ),
    ("failurePolicy", "avoidNodes"): DroppedField(
        "pods that are created from then on may go back to nodes that failed",
        _REMOVE_FIELD,
    ),
    ("failurePolicy", "rules", "*", "onExitCodes"): DroppedField(
        "the rule matches whatever the exit code is; with no other condition it matches every failure",
        _USE_POD_FAILURE_POLICY,
    ),
    ("failurePolicy", "rules", "*", "onPodReasons"): DroppedField(
        "the rule matches whatever the pod says; with no other condition it matches every failure",
        _USE_POD_FAILURE_POLICY,
    ),
    ("failurePolicy", "rules", "*", "maxRestarts"): DroppedField(
        "the rule restarts without a limit of its own", USE_GO_POLICY
    ),
    ("failurePolicy", "rules", "*", "then"): DroppedField(
        "the rule takes the same action each time", USE_GO_POLICY, bool
    ),
    ("replicatedJobs", "*", "exitCodePolicy"): DroppedField(
        "Jobs that are created from then on, after a restart too, treat all exit codes alike",
        "let the JobSet finish, or create it again with a podFailurePolicy in the Job template",
    ),
    ("replicatedJobs", "*", "elastic"): DroppedField(
        "replicas never changes, a set that runs with fewer Jobs gets the missing ones without a restart, and"
        " containers have no variable JOBSET_REPLICAS",
        "let the JobSet finish, or suspend it and resume it afterwards",
    ),
    ("replicatedJobs", "*", "spareFor"): DroppedField(
        "the spares count as workers, and never complete",
        _REMOVE_FIELD,
    ),
}
"""The fields by path below `spec`; `*` stands for each item of a list whose items have names."""


def own_field_locations(spec: Any, fields: Fields = OWN_FIELDS) -> Iterator[tuple[str, Path, DroppedField, Any]]:
    """The places of `fields` in a spec: for each place a readable name, the path, the field, and its value or None.

    The readable name has names of items instead of indexes, as in `replicatedJobs[workers].exitCodePolicy`.
    """
    for keys, field in fields.items():
        for name, path, value in _locations(spec, keys, SPEC, ""):
            yield name, path, field, value


def _locations(node: Any, keys: tuple[str, ...], path: Path, name: str) -> Iterator[tuple[str, Path, Any]]:
    """Name, path and value of each field at `keys` below `node`. The value is None if only the parent exists."""
    first, rest = keys[0], keys[1:]
    if first == "*":
        for i, item in enumerate(node if isinstance(node, list | tuple) else ()):
            if not isinstance(item, dict):
                continue
            item_name = item.get("name")
            # The mutating webhook gives this name to rules without a name.
            label = item_name if isinstance(item_name, str) and item_name else f"failurePolicyRule{i}"
            yield from _locations(item, rest, path.at(i), f"{name}[{label}]")
    elif isinstance(node, dict):
        name = f"{name}.{first}" if name else first
        value = node.get(first)
        if not rest:
            yield name, path.at(first), value
        elif value is not None:
            yield from _locations(value, rest, path.at(first), name)
