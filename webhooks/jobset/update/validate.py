"""Updates: which fields of a stored JobSet may change. Pure.

See docs/reference/validation.md#updates.

The stored and the new object are raw JSON. Both are compared with their defaults, so omitting a default value is no
change. Checks of new JobSets are repeated for fields that an update may change.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from api.features import FeatureGates
from api.keys import COMPLETED, FAILED
from kube.model.field import NAME_PATH, SPEC, FieldError, Layer, Path, Rule
from kube.model.jsontree import dig, items
from kube.model.meta import JSON
from kube.model.semantic import differences, semantically_equal
from webhooks.jobset.default import objects_by_name
from webhooks.jobset.rules import (
    Source,
    SubjectCheck,
    coordinator,
    elastic,
    execution,
    gated_fields,
    placement,
    suspension,
)
from webhooks.jobset.subject import Subject, Unreadable, subject_of
from webhooks.jobset.update.resize import JOB_COUNT_PATH, POD_COUNT_PATHS, Change, size_findings, size_paths
from webhooks.jobset.update.resources import is_amount, with_amounts_of, with_value_of
from webhooks.jobset.validate_create import scheduling_findings

MAX_DIFFERENCES = 20
"""The most changed paths that are reported for one ReplicatedJob or policy."""

POLICY_FIELDS = (
    "network",
    "successPolicy",
    "failurePolicy",
    "startupPolicy",
    "executionPolicy",
    "volumeClaimPolicies",
)
"""Fields that the CRD allows to be added or removed, but not to be changed."""

_POD = ("template", "spec", "template")
_MUTABLE_WHILE_SUSPENDED: tuple[tuple[str, ...], ...] = (
    (*_POD, "metadata", "annotations"),
    (*_POD, "metadata", "labels"),
    (*_POD, "spec", "nodeSelector"),
    (*_POD, "spec", "tolerations"),
    (*_POD, "spec", "schedulingGates"),
)
"""Fields that queueing controllers change while the set is suspended."""

_IMMUTABLE = "field is immutable"
_DOCS = Source("docs/reference/validation.md#what-does-not-change")
TEMPLATE = _DOCS.error(
    "immutable-replicated-job",
    _IMMUTABLE,
    "create a new JobSet; while suspended, labels, annotations, nodeSelector, tolerations and schedulingGates of"
    " the pod template may change",
)
WHILE_SUSPENDED = _DOCS.error(
    "immutable-while-running",
    _IMMUTABLE,
    "this may change while the JobSet is suspended: set spec.suspend to true before, or in the same update",
)
SIZE = _DOCS.error(
    "immutable-size",
    _IMMUTABLE,
    "Indexed Jobs may be resized where the manager runs with --feature-gates=ElasticJobSet=true; else create a new"
    " JobSet",
    gates="ElasticJobSet=true",
)
REPLICAS = Source("KEP-463, docs/reference/validation.md#what-does-not-change").error(
    "immutable-replicas",
    _IMMUTABLE,
    "the number of Jobs may change where the manager runs with --feature-gates=ElasticJobSet=true; else create a"
    " new JobSet",
    gates="ElasticJobSet=true",
)
RESOURCES = Source("KEP-1150, docs/reference/validation.md#what-does-not-change").error(
    "immutable-resources",
    _IMMUTABLE,
    "requests and limits may change while the JobSet is suspended, where the manager runs with"
    " --feature-gates=MutablePodResourcesForSuspendedJobSets=true; else create a new JobSet",
    gates="MutablePodResourcesForSuspendedJobSets=true",
)
LIST = _DOCS.error(
    "immutable-replicated-jobs",
    _IMMUTABLE,
    "ReplicatedJobs can be neither added, removed, renamed nor reordered; they are {names_that_exist}: create a new"
    " JobSet",
)
DEPENDS_ON = Source("CRD rule on dependsOn", Layer.SCHEMA).error(
    "immutable-depends-on",
    "Value is immutable",
    "the order of start is fixed at creation: create a new JobSet",
)
DEPENDS_ON_PRESENCE = _DOCS.error("immutable-depends-on-presence", _IMMUTABLE, DEPENDS_ON.fix)
MANAGED_BY = _DOCS.error(
    "immutable-managed-by",
    _IMMUTABLE,
    "the managing controller is chosen at creation: create a new JobSet",
)
_POLICY_FIX = "{policy} can be neither changed, added nor removed, suspended or not: create a new JobSet"
POLICY = Source("CRD rules on the policies", Layer.SCHEMA).error("immutable-policy", "Value is immutable", _POLICY_FIX)
SCHEDULING = Source("spec.scheduling").error(
    "immutable-scheduling",
    "field is immutable while the JobSet runs: its groups are there{active}",
    "set spec.suspend to true, wait until status.replicatedJobsStatus counts no active Jobs, then change it; the"
    " same update may resume the JobSet",
)
POLICY_PRESENCE = Source("docs/reference/validation.md#what-does-not-change, defect 5").error(
    "immutable-policy-presence",
    _IMMUTABLE,
    _POLICY_FIX,
)
REPLACE = _DOCS.warning(
    "immutable-replace",
    "a JobSet of this name is stored, and what is changed here never changes in it",
    "to replace it{with_what}: kubectl delete jobset {name} -n {namespace} && kubectl apply -f FILE",
)
_IMMUTABLE_RULES = {
    TEMPLATE,
    LIST,
    SIZE,
    REPLICAS,
    RESOURCES,
    DEPENDS_ON,
    DEPENDS_ON_PRESENCE,
    MANAGED_BY,
    POLICY,
    POLICY_PRESENCE,
}
"""Rules about fields that this manager never lets change in a stored JobSet."""


def findings_about_update(subject: Subject, old: JSON, new: JSON, gates: FeatureGates) -> Iterator[FieldError]:
    """Findings about an update, in discovery order. If only a new JobSet helps, a warning says how to replace the set.

    `new` has its defaults; `subject` is the decoded `new`.
    """
    needs_new_set = False
    for error in _findings(subject, old, new, gates):
        needs_new_set = needs_new_set or error.rule in _IMMUTABLE_RULES
        yield error
    if needs_new_set:
        policies = items(old, "spec", "volumeClaimPolicies")
        deletes_claims = any(dig(policy, "retentionPolicy", "whenDeleted") != "Retain" for policy in policies)
        yield REPLACE.at(
            NAME_PATH,
            name=subject.js.metadata.name,
            namespace=dig(old, "metadata", "namespace") or "default",
            with_what=", its pods and its claims with their data" if deletes_claims else " and its pods",
        )


def _findings(subject: Subject, old: JSON, new: JSON, gates: FeatureGates) -> Iterator[FieldError]:
    changes = _changes(old, new)
    has_new_sizes = gates["ElasticJobSet"] and any(change.is_resized or change.is_scaled for change in changes)
    if has_new_sizes:
        yield from size_findings(subject, changes, is_finished=_is_finished(old))
    yield from _replicated_job_findings(old, new, changes, gates)
    if dig(old, "spec", "managedBy") != dig(new, "spec", "managedBy"):
        yield MANAGED_BY.at(SPEC.at("managedBy"), dig(new, "spec", "managedBy"))
    for policy in POLICY_FIELDS:
        old_policy, new_policy = dig(old, "spec", policy), dig(new, "spec", policy)
        rule = POLICY_PRESENCE if old_policy is None or new_policy is None else POLICY
        for parts in islice(differences(old_policy, new_policy), MAX_DIFFERENCES):
            yield rule.at(SPEC.at(policy, *parts), dig(new_policy, *parts), policy=policy)
    if dig(old, "spec", "executionPolicy") is None:  # the CRD's rule on changes does not cover additions
        yield from execution.check_single_order(subject)
        yield from execution.check_state(subject)
    if has_new_sizes or not semantically_equal(dig(old, "spec", "coordinator"), dig(new, "spec", "coordinator")):
        yield from coordinator.check_coordinator(subject)
    yield from _new_faults(subject, old, _placement_findings)
    yield from _new_faults(subject, old, elastic.check_bounds)
    yield from _new_faults(subject, old, gated_fields.check_deadline_gate)
    yield from _new_faults(subject, old, suspension.check_suspend)
    yield from _scheduling_findings(subject, old, new)


def _changes(old: JSON, new: JSON) -> list[Change]:
    """The stored and the new form of each ReplicatedJob that both objects have, in the order of the new object."""
    stored: Mapping[Any, JSON] = objects_by_name(dig(old, "spec", "replicatedJobs"))
    rjobs = items(new, "spec", "replicatedJobs")
    return [Change(i, stored[rjob["name"]], rjob) for i, rjob in enumerate(rjobs) if rjob["name"] in stored]


def _is_finished(old: JSON) -> bool:
    conditions = items(old, "status", "conditions")
    return any(dig(c, "type") in {COMPLETED, FAILED} and dig(c, "status") == "True" for c in conditions)


def _replicated_job_findings(
    old: JSON, new: JSON, changes: Sequence[Change], gates: FeatureGates
) -> Iterator[FieldError]:
    """Findings about immutable fields of ReplicatedJobs, one for each changed path."""
    old_names, new_names = ([dig(r, "name") for r in items(js, "spec", "replicatedJobs")] for js in (old, new))
    if old_names != new_names:
        names_that_exist = ", ".join(map(str, old_names[:MAX_DIFFERENCES])) or "none"
        yield LIST.at(SPEC.at("replicatedJobs"), new_names, names_that_exist=names_that_exist)
    is_suspended = dig(old, "spec", "suspend") is True or dig(new, "spec", "suspend") is True
    for change in changes:
        reverted = _revert_mutable(change, gates, is_suspended=is_suspended)
        if semantically_equal(change.old, reverted):
            continue
        for parts in islice(differences(change.old, reverted), MAX_DIFFERENCES):
            yield _broken_rule(change, parts, gates).at(change.path.at(*parts), dig(change.new, *parts))


def _revert_mutable(change: Change, gates: FeatureGates, *, is_suspended: bool) -> JSON:
    """The new ReplicatedJob with the old values of all mutable fields."""
    mutable_paths = list(_MUTABLE_WHILE_SUSPENDED) if is_suspended else []
    if gates["ElasticJobSet"]:
        mutable_paths += size_paths(change)
    elif not change.is_scaled:
        mutable_paths.append(JOB_COUNT_PATH)  # absent is the same as 1
    reverted = change.new
    for keys in mutable_paths:
        reverted = with_value_of(reverted, change.old, keys)
    if is_suspended and gates["MutablePodResourcesForSuspendedJobSets"]:
        reverted = with_amounts_of(change.old, reverted)
    return reverted


def _broken_rule(change: Change, parts: tuple[str | int, ...], gates: FeatureGates) -> Rule:
    """The rule that a change at this path of a ReplicatedJob breaks."""
    if parts[:1] == ("dependsOn",):
        is_added_or_removed = any(dig(rjob, "dependsOn") is None for rjob in (change.old, change.new))
        return DEPENDS_ON_PRESENCE if is_added_or_removed else DEPENDS_ON  # the CRD's rule needs both values
    if parts in POD_COUNT_PATHS:
        return SIZE
    if parts == JOB_COUNT_PATH:
        return REPLICAS
    if is_amount(parts):
        return WHILE_SUSPENDED if gates["MutablePodResourcesForSuspendedJobSets"] else RESOURCES
    return WHILE_SUSPENDED if any(parts[: len(keys)] == keys for keys in _MUTABLE_WHILE_SUSPENDED) else TEMPLATE


def _scheduling_findings(subject: Subject, old: JSON, new: JSON) -> Iterator[FieldError]:
    """Check that spec.scheduling changes only while the set has no groups, and that its groups are still possible."""
    old_scheduling, new_scheduling = dig(old, "spec", "scheduling"), dig(new, "spec", "scheduling")
    counts = (dig(count, "active") for count in items(old, "status", "replicatedJobsStatus"))
    active = sum(count for count in counts if isinstance(count, int))
    if dig(old, "spec", "suspend") is not True or active:
        words = f" ({active} Jobs are active)" if active else ""
        for parts in islice(differences(old_scheduling, new_scheduling), MAX_DIFFERENCES):
            yield SCHEDULING.at(SPEC.at("scheduling", *parts), dig(new_scheduling, *parts), active=words)
    if new_scheduling is not None:
        yield from _new_faults(subject, old, scheduling_findings)


def _placement_findings(subject: Subject) -> Iterator[FieldError]:
    """Findings about exclusive placement, which are repeated because its annotations may change at any time."""
    for entry in subject.entries:
        yield from placement.check_replicated_job(subject, entry)
    yield from placement.check_jobset(subject)


def _new_faults(subject: Subject, old: JSON, check: SubjectCheck) -> Iterator[FieldError]:
    """The errors that a check finds in the new object and not in the stored object. Warnings are left out."""
    faults = [error for error in check(subject) if not error.is_warning]
    stored: set[tuple[Rule | None, Path]] = set()
    if faults:
        with contextlib.suppress(Unreadable):
            stored = {(error.rule, error.path) for error in check(subject_of(old, subject.gates))}
    yield from (error for error in faults if (error.rule, error.path) not in stored)
