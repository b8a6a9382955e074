"""Lists the fields that this program adds to the spec of the Go JobSet, and finds them in a spec. Pure.

Kubernetes clients that were built with the types of the Go JobSet do not know these own fields. Such a client drops
them when it reads a JobSet and writes it back. The Go JobSet, too, ignores them when it replaces this program. So each
field is listed with the effect of its loss, and with a remedy: what a user can do before the field is lost.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from itertools import pairwise
from typing import Any

from kube.model.field import SPEC, Path
from kube.model.jsontree import dig
from kube.model.meta import JSON


@dataclass(frozen=True, slots=True)
class DroppedField:
    """A field that clients with the Go types drop.

    - `effect_of_loss`: how the JobSet behaves without the field.
    - `remedy`: what to do before the field is lost.
    - `changes_behavior`: takes a value of the field, and returns whether the JobSet behaves differently without it.
    """

    effect_of_loss: str
    remedy: str
    changes_behavior: Callable[[Any], bool] = lambda value: value is not None


FieldsByPath = Mapping[tuple[str, ...], DroppedField]
"""Fields by the keys on their path below `spec`. The key `*` stands for each item of a list whose items have names."""

_REMOVE_FIELD = "let the JobSet finish, or delete it and create it again without the field"
USE_GO_POLICY = "let the JobSet finish, or delete it and create it again with a policy of the Go JobSet"
_USE_POD_FAILURE_POLICY = (
    "let the JobSet finish, or create it again with a podFailurePolicy and onJobFailureReasons: [PodFailurePolicy]"
)

OWN_FIELDS: FieldsByPath = {
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
"""All fields that the Go JobSet does not have."""


@dataclass(slots=True)
class FieldTree:
    """Dropped fields of one object, and of objects inside it, by key. With a tree, a search reads each value once.

    - `fields`: the dropped fields of the object itself.
    - `objects`: the trees of values that are objects. `lists`: the tree of the items of each list.
    """

    fields: dict[str, DroppedField] = dataclass_field(default_factory=dict)
    objects: dict[str, "FieldTree"] = dataclass_field(default_factory=dict)
    lists: dict[str, "FieldTree"] = dataclass_field(default_factory=dict)


def field_tree(fields: FieldsByPath) -> FieldTree:
    """The fields as a tree, whose root is the spec."""
    root = FieldTree()
    for keys, field in fields.items():
        tree = root
        for key, next_key in pairwise(keys):
            if key != "*":
                subtrees = tree.lists if next_key == "*" else tree.objects
                tree = subtrees.setdefault(key, FieldTree())
        tree.fields[keys[-1]] = field
    return root


_OWN_TREE = field_tree(OWN_FIELDS)


def own_field_locations(
    spec: Any, tree: FieldTree = _OWN_TREE, *, absent: bool = False
) -> Iterator[tuple[str, Path, DroppedField, Any]]:
    """The fields of the tree that have a value in a spec: the readable name, path, field and value of each.

    The readable name has names of items instead of indexes, as in `replicatedJobs[workers].exitCodePolicy`. With
    `absent`, the result is instead the fields without a value whose parent object exists.
    """
    return _locations(spec, tree, SPEC.parts, "", absent=absent) if isinstance(spec, dict) else iter(())


def _locations(
    obj: JSON, tree: FieldTree, parts: tuple[str | int, ...], prefix: str, *, absent: bool
) -> Iterator[tuple[str, Path, DroppedField, Any]]:
    for key, field in tree.fields.items():
        value = obj.get(key)
        if (value is None) == absent:
            yield f"{prefix}{key}", Path((*parts, key)), field, value
    for key, subtree in tree.objects.items():
        if isinstance(value := obj.get(key), dict):
            yield from _locations(value, subtree, (*parts, key), f"{prefix}{key}.", absent=absent)
    for key, subtree in tree.lists.items():
        value = obj.get(key)
        for i, item in enumerate(value if isinstance(value, (list, tuple)) else ()):
            if isinstance(item, dict):  # a client may send any number of other items, so they must cost little
                name = f"{prefix}{key}[{_item_name(item, i)}]."
                yield from _locations(item, subtree, (*parts, key, i), name, absent=absent)


def _item_name(item: JSON, index: int) -> str:
    """The name of a list item. An item without a name gets the name that the mutating webhook gives to such rules."""
    name = item.get("name")
    return name if isinstance(name, str) and name else f"failurePolicyRule{index}"
