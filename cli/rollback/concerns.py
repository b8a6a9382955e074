"""What the Go JobSet would do otherwise about a JobSet or a pod: fields that its CRD drops, gates it never lifts. Pure.

See docs/downgrade.md.
"""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from api.failure_actions import ACTIONS
from api.indexes import Indexes, parse_indexes
from api.keys import CONTROLLER_NAME, DELETE_ON_SUSPEND, PLACEMENT_GATE, SKIP_SUSPEND
from api.names import job_name
from kube.model.jsontree import dig, items
from kube.model.meta import JSON

_GO_ACTIONS = frozenset(name for name, action in ACTIONS.items() if action.since_go)


@dataclass(frozen=True, slots=True)
class Concern:
    """An object that is concerned: where in it, what would happen, and what to do."""

    kind: str
    namespace: str
    name: str
    path: str
    happens: str
    remedy: str


def _is_set(value: Any) -> bool:
    return value is not None


def _is_true(value: Any) -> bool:
    """Whether an annotation has the one value that turns it on."""
    return bool(value == "true")


@dataclass(frozen=True, slots=True)
class Dropped:
    """A field that the Go JobSet does not know. `acts`: whether this value of it makes a difference."""

    happens: str
    remedy: str
    acts: Callable[[Any], bool] = _is_set


_IMMUTABLE = "let the JobSet finish, or delete it and create it again without the field"
_POLICY = "let the JobSet finish, or delete it and create it again with a policy of the Go JobSet"
_PATTERN = (
    "let the JobSet finish, or create it again with a podFailurePolicy and onJobFailureReasons: [PodFailurePolicy]"
)

DROPPED: Mapping[tuple[str, ...], Dropped] = {
    ("executionPolicy",): Dropped(
        "all stages start together",
        "let the JobSet finish, or create it again with dependsOn",
        lambda value: dig(value, "executionPolicyOrder") == "InOrder",
    ),
    ("scheduling",): Dropped(
        "pods that are created from then on are scheduled one by one, without gangs and topology",
        "suspend the JobSet and remove spec.scheduling, or let it finish",
    ),
    ("activeDeadlineSeconds",): Dropped(
        "the set has no deadline before version 0.13 of the Go JobSet, nor without its feature gate"
        " JobSetActiveDeadlineSeconds",
        "let the JobSet finish, or set the deadline on its Jobs",
    ),
    ("successPolicy", "minSucceeded"): Dropped("every targeted Job has to succeed", _POLICY),
    ("successPolicy", "unit"): Dropped("Jobs are counted, not pods", _POLICY, lambda value: value == "Pod"),
    ("failurePolicy", "failOn"): Dropped(
        "a Job counts as failed only when the last of its pods is gone",
        _IMMUTABLE,
        lambda value: value == "FailureTarget",
    ),
    ("failurePolicy", "inPlaceRestarts"): Dropped("maxRestarts alone limits restarts in place", _IMMUTABLE),
    ("failurePolicy", "startTimeoutSeconds"): Dropped(
        "pods that do not run are waited for without a limit", _IMMUTABLE
    ),
    ("failurePolicy", "nodeFailure"): Dropped(
        "pods of nodes that fail are waited for until Kubernetes ends them", _IMMUTABLE
    ),
    ("failurePolicy", "agent"): Dropped(
        "pods that are created from then on have no agent, and the set waits for their reports",
        "let the JobSet finish, or create it again with the agent in its pod templates",
    ),
    ("failurePolicy", "avoidNodes"): Dropped(
        "pods that are created from then on may go back to nodes that failed",
        _IMMUTABLE,
    ),
    ("failurePolicy", "rules", "*", "onExitCodes"): Dropped(
        "the rule matches whatever the exit code is; with no other condition it matches every failure",
        _PATTERN,
    ),
    ("failurePolicy", "rules", "*", "onPodReasons"): Dropped(
        "the rule matches whatever the pod says; with no other condition it matches every failure",
        _PATTERN,
    ),
    ("failurePolicy", "rules", "*", "maxRestarts"): Dropped("the rule restarts without a limit of its own", _POLICY),
    ("failurePolicy", "rules", "*", "then"): Dropped("the rule takes the same action each time", _POLICY, bool),
    ("replicatedJobs", "*", "exitCodePolicy"): Dropped(
        "Jobs that are created from then on, after a restart too, treat all exit codes alike",
        "let the JobSet finish, or create it again with a podFailurePolicy in the Job template",
    ),
}
"""By the path below `spec`; `*` stands for each item of a list."""
UNREAD: Mapping[str, Dropped] = {
    SKIP_SUSPEND: Dropped(
        "Jobs that another controller suspends are resumed at once",
        "have that controller suspend the whole JobSet, or let the JobSet finish",
        _is_true,
    ),
    DELETE_ON_SUSPEND: Dropped(
        "a suspension keeps the Jobs, and pods of indexes that have succeeded do not come back",
        "let the JobSet finish, or do not suspend it",
        _is_true,
    ),
}
"""Annotations of a JobSet that the Go JobSet does not read."""

_ACTION = Dropped(
    "the Go JobSet does not know the action: its controller reports an error for ever when the rule matches",
    _POLICY,
    lambda value: value not in _GO_ACTIONS,
)


def of_jobset(js: JSON) -> Iterator[Concern]:
    """What would be otherwise about its spec; nothing for a set that no Go manager would run."""
    if not _runs(js):
        return
    meta = js["metadata"]
    for parts, field in {**DROPPED, ("failurePolicy", "rules", "*", "action"): _ACTION}.items():
        for path, value in _values(dig(js, "spec"), parts, "spec"):
            if field.acts(value):
                yield Concern("JobSet", meta["namespace"], meta["name"], path, field.happens, field.remedy)
    for key, unread in UNREAD.items():
        if unread.acts(dig(meta, "annotations", key)):
            path = f"metadata.annotations[{key}]"
            yield Concern("JobSet", meta["namespace"], meta["name"], path, unread.happens, unread.remedy)


def has_completed_jobs(js: JSON) -> bool:
    """Whether `of_completed_jobs` needs to know which Jobs exist."""
    return _runs(js) and any(True for _ in _completed_jobs(js))


def of_completed_jobs(js: JSON, jobs: AbstractSet[str]) -> Iterator[Concern]:
    """The status says which Jobs have completed; the Go JobSet looks at its Jobs. `jobs`: names of those that exist."""
    meta = js["metadata"]
    for path, rjob, indexes in _completed_jobs(js):
        gone = [name for index in indexes if (name := job_name(meta["name"], rjob, index)) not in jobs]
        if gone:
            happens = f"completed Jobs that are gone are run again: {len(gone)}, the first of them {gone[0]}"
            yield Concern("JobSet", meta["namespace"], meta["name"], path, happens, "let the JobSet finish")


def of_pod(pod: JSON) -> Iterator[Concern]:
    """A follower that waits for us to lift its gate; one in deletion goes without that."""
    gates = [gate.get("name") for gate in dig(pod, "spec", "schedulingGates") or ()]
    if PLACEMENT_GATE in gates and "deletionTimestamp" not in pod["metadata"]:
        path = f"spec.schedulingGates[{gates.index(PLACEMENT_GATE)}]"
        meta = pod["metadata"]
        happens = "the pod is never scheduled: only this program lifts the gate"
        yield Concern("Pod", meta["namespace"], meta["name"], path, happens, "jobset rollback-check --release")


def _runs(js: JSON) -> bool:
    """Whether a Go manager would do anything for it: it is not finished, not in deletion, of no other controller."""
    ours = dig(js, "spec", "managedBy") in {None, CONTROLLER_NAME}
    return ours and not dig(js, "status", "terminalState") and "deletionTimestamp" not in js["metadata"]


def _completed_jobs(js: JSON) -> Iterator[tuple[str, str, Indexes]]:
    """Path, ReplicatedJob and indexes of the completed Jobs that the status names."""
    replicas = {rjob["name"]: rjob.get("replicas", 1) for rjob in items(js, "spec", "replicatedJobs")}
    for i, entry in enumerate(items(js, "status", "replicatedJobsStatus")):
        indexes = parse_indexes(entry.get("completedIndexes") or "", replicas.get(entry["name"], 0))
        if indexes:
            yield f"status.replicatedJobsStatus[{i}].completedIndexes", entry["name"], indexes


def _values(value: Any, parts: tuple[str, ...], path: str) -> Iterator[tuple[str, Any]]:
    """The values at a path, each with its own path; nothing where it leads nowhere."""
    if not parts:
        yield path, value
    elif parts[0] == "*":
        for i, item in enumerate(value if isinstance(value, list) else ()):
            yield from _values(item, parts[1:], f"{path}[{i}]")
    elif isinstance(value, dict) and parts[0] in value:
        yield from _values(value[parts[0]], parts[1:], f"{path}.{parts[0]}")
