"""Finds what changes for a JobSet or a pod when the Go JobSet replaces this program (docs/downgrade.md). Pure.

The Go JobSet ignores fields, actions and annotations that it does not know, and never removes the scheduling gates that
this program sets. A concern is one such change for one object.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from api.failure_actions import ACTIONS
from api.indexes import Indexes, parse_indexes
from api.keys import CONTROLLER_NAME, DELETE_ON_SUSPEND, OUR_GATES, SKIP_SUSPEND
from api.names import job_name
from api.own_fields import OWN_FIELDS, USE_GO_POLICY, DroppedField, field_tree, own_field_locations
from kube.model.jsontree import dig, items
from kube.model.meta import JSON

_GO_ACTIONS = frozenset(name for name, action in ACTIONS.items() if action.in_go_jobset)


@dataclass(frozen=True, slots=True)
class Concern:
    """A change for one object: the path of the field that causes it, what would happen, and what to do about it."""

    kind: str
    namespace: str
    name: str
    path: str
    happens: str
    remedy: str


def _is_true(value: Any) -> bool:
    """Whether the value of an annotation is "true"."""
    return bool(value == "true")


UNREAD_ANNOTATIONS: Mapping[str, DroppedField] = {
    SKIP_SUSPEND: DroppedField(
        "Jobs that another controller suspends are resumed at once",
        "have that controller suspend the whole JobSet, or let the JobSet finish",
        _is_true,
    ),
    DELETE_ON_SUSPEND: DroppedField(
        "a suspension keeps the Jobs, and pods of indexes that have succeeded do not come back",
        "let the JobSet finish, or do not suspend it",
        _is_true,
    ),
}
"""Annotations of a JobSet that the Go JobSet does not read, by key."""

_UNKNOWN_ACTION = DroppedField(
    "the Go JobSet does not know the action: its controller reports an error for ever when the rule matches",
    USE_GO_POLICY,
    lambda value: value not in _GO_ACTIONS,
)
# The Go JobSet has the field `action`, but not all of its values.
DROPPED_FIELDS = {**OWN_FIELDS, ("failurePolicy", "rules", "*", "action"): _UNKNOWN_ACTION}
_DROPPED_TREE = field_tree(DROPPED_FIELDS)


def spec_concerns(js: JSON) -> Iterator[Concern]:
    """The concerns about the spec and annotations of a JobSet; none if the Go JobSet would not reconcile the JobSet."""
    if not _is_run_by_go_manager(js):
        return
    meta, spec = js["metadata"], dig(js, "spec")
    for _, path, field, value in own_field_locations(spec, _DROPPED_TREE):
        if field.changes_behavior(value):
            yield Concern("JobSet", meta["namespace"], meta["name"], str(path), field.effect_of_loss, field.remedy)
    for key, unread in UNREAD_ANNOTATIONS.items():
        if unread.changes_behavior(dig(meta, "annotations", key)):
            annotation_path = f"metadata.annotations[{key}]"
            yield Concern(
                "JobSet", meta["namespace"], meta["name"], annotation_path, unread.effect_of_loss, unread.remedy
            )


def has_completed_jobs(js: JSON) -> bool:
    """Whether the status names completed Jobs, so that a caller has to list Jobs for `completed_job_concerns`."""
    return _is_run_by_go_manager(js) and any(True for _ in _completed_jobs(js))


def completed_job_concerns(js: JSON, jobs: AbstractSet[str]) -> Iterator[Concern]:
    """The concerns about completed Jobs that were deleted: the Go JobSet runs them again.

    Only the status of the JobSet says that these Jobs have completed. `jobs`: names of the existing Jobs.
    """
    meta = js["metadata"]
    for path, rjob, indexes in _completed_jobs(js):
        deleted = [name for index in indexes if (name := job_name(meta["name"], rjob, index)) not in jobs]
        if deleted:
            happens = f"completed Jobs that are gone are run again: {len(deleted)}, the first of them {deleted[0]}"
            yield Concern("JobSet", meta["namespace"], meta["name"], path, happens, "let the JobSet finish")


def pod_concerns(pod: JSON) -> Iterator[Concern]:
    """The concern about a pod that has a scheduling gate of this program, unless the pod is being deleted."""
    gates = [gate.get("name") for gate in dig(pod, "spec", "schedulingGates") or ()]
    own_gate_index = next((position for position, gate in enumerate(gates) if gate in OUR_GATES), None)
    if own_gate_index is not None and "deletionTimestamp" not in pod["metadata"]:
        path = f"spec.schedulingGates[{own_gate_index}]"
        meta = pod["metadata"]
        happens = "the pod is never scheduled: only this program lifts the gate"
        yield Concern("Pod", meta["namespace"], meta["name"], path, happens, "jobset rollback-check --release")


def _is_run_by_go_manager(js: JSON) -> bool:
    """Whether the Go JobSet would reconcile this JobSet, which has not finished and is not being deleted."""
    is_ours = dig(js, "spec", "managedBy") in {None, CONTROLLER_NAME}
    return is_ours and not dig(js, "status", "terminalState") and "deletionTimestamp" not in js["metadata"]


def _completed_jobs(js: JSON) -> Iterator[tuple[str, str, Indexes]]:
    """The completed Jobs in the status: for each ReplicatedJob the path of the field, the name, and the indexes."""
    replicas = {rjob["name"]: rjob.get("replicas", 1) for rjob in items(js, "spec", "replicatedJobs")}
    for i, entry in enumerate(items(js, "status", "replicatedJobsStatus")):
        indexes = parse_indexes(entry.get("completedIndexes") or "", replicas.get(entry["name"], 0))
        if indexes:
            yield f"status.replicatedJobsStatus[{i}].completedIndexes", entry["name"], indexes
