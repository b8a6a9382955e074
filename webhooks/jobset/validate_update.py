"""What may change in a stored JobSet (behaviour section 3.3). Pure.

Both objects are raw JSON; they are compared after defaulting, so that leaving out what equals the default is no change.
Checks of creation are made again for what an update is allowed to change.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from api.features import FeatureGates
from api.field import SPEC, ErrorType, FieldError, Layer, Path, Rule
from api.jsontree import dig, set_in
from api.keys import COMPLETED, FAILED
from api.meta import JSON
from api.semantic import differences, semantically_equal
from webhooks.jobset.default import by_name
from webhooks.jobset.rules import coordinator, names, placement
from webhooks.jobset.subject import Subject, Unreadable, subject

MAX_PLACES = 20
"""Changed places that are named for one ReplicatedJob or policy."""

POLICIES = ("network", "successPolicy", "failurePolicy", "startupPolicy", "volumeClaimPolicies")
"""The CRD refuses a change of these, but not their removal or addition."""

_ELASTIC: tuple[tuple[str, ...], ...] = (("template", "spec", "parallelism"), ("template", "spec", "completions"))
_POD = ("template", "spec", "template")
_SCHEDULING: tuple[tuple[str, ...], ...] = (
    (*_POD, "metadata", "annotations"),
    (*_POD, "metadata", "labels"),
    (*_POD, "spec", "nodeSelector"),
    (*_POD, "spec", "tolerations"),
    (*_POD, "spec", "schedulingGates"),
)
"""What queueing controllers change while the set is suspended."""

_IMMUTABLE = "field is immutable"
TEMPLATE = Rule(
    id="immutable-replicated-job",
    type=ErrorType.INVALID,
    message=_IMMUTABLE,
    fix="create a new JobSet; while suspended, labels, annotations, nodeSelector, tolerations and schedulingGates of"
    " the pod template may change",
    source="behaviour 3.3 step C",
)
WHILE_SUSPENDED = Rule(
    id="immutable-while-running",
    type=ErrorType.INVALID,
    message=_IMMUTABLE,
    fix="this may change while the JobSet is suspended: set spec.suspend to true before, or in the same update",
    source="behaviour 3.3 step B",
)
SIZE = Rule(
    id="immutable-size",
    type=ErrorType.INVALID,
    message=_IMMUTABLE,
    fix="Indexed Jobs may be resized where the manager runs with --feature-gates=ElasticJobSet=true; else create a new"
    " JobSet",
    source="behaviour 3.3 step A",
)
LIST = Rule(
    id="immutable-replicated-jobs",
    type=ErrorType.INVALID,
    message=_IMMUTABLE,
    fix="ReplicatedJobs can be neither added, removed, renamed nor reordered; they are {names_that_exist}: create a new"
    " JobSet",
    source="behaviour 3.3 step C",
)
DEPENDS_ON = Rule(
    id="immutable-depends-on",
    type=ErrorType.INVALID,
    message="Value is immutable",
    fix="the order of start is fixed at creation: create a new JobSet",
    source="CRD rule on dependsOn",
    layer=Layer.SCHEMA,
)
MANAGED_BY = Rule(
    id="immutable-managed-by",
    type=ErrorType.INVALID,
    message=_IMMUTABLE,
    fix="the managing controller is chosen at creation: create a new JobSet",
    source="behaviour 3.3 step D",
)
_POLICY_FIX = "{policy} can be neither changed, added nor removed, suspended or not: create a new JobSet"
POLICY = Rule(
    id="immutable-policy",
    type=ErrorType.INVALID,
    message="Value is immutable",
    fix=_POLICY_FIX,
    source="CRD rules on the policies",
    layer=Layer.SCHEMA,
)
POLICY_PRESENCE = Rule(
    id="immutable-policy-presence",
    type=ErrorType.INVALID,
    message=_IMMUTABLE,
    fix=_POLICY_FIX,
    source="behaviour 7.1 item 5",
)
FINISHED = Rule(
    id="resize-finished",
    type=ErrorType.FORBIDDEN,
    message="Cannot mutate parallelism or completions when JobSet is in a terminal state (Completed or Failed)",
    fix="create a new JobSet",
    source="behaviour 3.3 step A",
)
AT_LEAST_ONE = Rule(
    id="resize-at-least-one",
    type=ErrorType.INVALID,
    message="{field} must be >= 1",
    fix="suspend the JobSet to run no pods",
    source="behaviour 3.3 step A",
)
TOGETHER = Rule(
    id="resize-together",
    type=ErrorType.INVALID,
    message="completions must be equal to parallelism for Elastic Indexed Jobs",
    fix="set both to {parallelism}, or both to {completions}",
    source="behaviour 3.3 step A",
)


@dataclass(frozen=True, slots=True)
class _Change:
    """One ReplicatedJob that is in both objects."""

    index: int
    old: JSON
    new: JSON

    @property
    def path(self) -> Path:
        return SPEC.at("replicatedJobs", self.index)

    @property
    def resized(self) -> bool:
        """Whether parallelism or completions differ; absent differs from any number."""
        return any(bool(dig(self.new, *keys) != dig(self.old, *keys)) for keys in _ELASTIC)

    @property
    def elastic(self) -> bool:
        return bool(dig(self.new, "template", "spec", "completionMode") == "Indexed")


def update_findings(js: Subject, old: JSON, new: JSON, gates: FeatureGates) -> Iterator[FieldError]:
    """All that an update must not do, in discovery order. `new` is defaulted, and `js` is what it reads as."""
    changes = _changes(old, new)
    resized = [change for change in changes if change.elastic and change.resized] if gates["ElasticJobSet"] else []
    for change in resized:
        yield from _resize(change, finished=_is_finished(old))
    yield from _replicated_jobs(old, new, changes, gates)
    if dig(old, "spec", "managedBy") != dig(new, "spec", "managedBy"):
        yield MANAGED_BY.at(SPEC.at("managedBy"), dig(new, "spec", "managedBy"))
    for policy in POLICIES:
        before, after = dig(old, "spec", policy), dig(new, "spec", policy)
        rule = POLICY_PRESENCE if before is None or after is None else POLICY
        for place in islice(differences(before, after), MAX_PLACES):
            yield rule.at(SPEC.at(policy, *place), dig(after, *place), policy=policy)
    yield from _still_valid(js, old, new, resized)


def _changes(old: JSON, new: JSON) -> list[_Change]:
    before: Mapping[Any, JSON] = by_name(dig(old, "spec", "replicatedJobs"))
    after = dig(new, "spec", "replicatedJobs") or []
    return [_Change(i, before[rjob["name"]], rjob) for i, rjob in enumerate(after) if rjob["name"] in before]


def _is_finished(old: JSON) -> bool:
    conditions = dig(old, "status", "conditions") or []
    return any(dig(c, "type") in {COMPLETED, FAILED} and dig(c, "status") == "True" for c in conditions)


def _resize(change: _Change, *, finished: bool) -> Iterator[FieldError]:
    """Step A: a running Indexed Job may grow and shrink, its two numbers together."""
    path = change.path.at("template", "spec")
    if finished:
        yield FINISHED.at(path)
        return
    for keys in _ELASTIC:
        number = dig(change.new, *keys)
        if number != dig(change.old, *keys) and number is not None and number < 1:
            yield AT_LEAST_ONE.at(change.path.at(*keys), number, field=keys[-1])
    parallelism, completions = (dig(change.new, *keys) for keys in _ELASTIC)
    if parallelism is not None and completions is not None and parallelism != completions:
        yield TOGETHER.at(path.at("completions"), completions, parallelism=parallelism, completions=completions)


def _replicated_jobs(old: JSON, new: JSON, changes: Sequence[_Change], gates: FeatureGates) -> Iterator[FieldError]:
    """Steps B and C: what is not carved out stays as it is; every changed place is named."""
    before, after = ([dig(r, "name") for r in dig(js, "spec", "replicatedJobs") or []] for js in (old, new))
    if before != after:
        path, known = SPEC.at("replicatedJobs"), ", ".join(map(str, before[:MAX_PLACES]))
        yield LIST.at(path, after, names_that_exist=known)
    suspended = dig(old, "spec", "suspend") is True or dig(new, "spec", "suspend") is True
    for change in changes:
        elastic = gates["ElasticJobSet"] and change.elastic
        keep = (*(_ELASTIC if elastic else ()), *(_SCHEDULING if suspended else ()))
        munged = change.new
        for keys in keep:
            munged = _graft(munged, change.old, keys)
        if semantically_equal(change.old, munged):
            continue
        for place in islice(differences(change.old, munged), MAX_PLACES):
            yield _immutable(place).at(change.path.at(*place), dig(change.new, *place))


def _immutable(place: tuple[str | int, ...]) -> Rule:
    """The rule that a change at this place of a ReplicatedJob breaks."""
    if place[:1] == ("dependsOn",):
        return DEPENDS_ON
    if place in _ELASTIC:
        return SIZE
    return WHILE_SUSPENDED if any(place[: len(keys)] == keys for keys in _SCHEDULING) else TEMPLATE


def _graft(new: JSON, old: JSON, keys: tuple[str, ...]) -> JSON:
    """`new` with what `old` has at `keys`."""
    ours, theirs = dig(new, *keys), dig(old, *keys)
    return new if ours == theirs else set_in(new, keys, theirs)


def _still_valid(js: Subject, old: JSON, new: JSON, resized: list[_Change]) -> Iterator[FieldError]:
    """The create checks of what this update is allowed to change."""
    for change in resized:
        entry = js.entries[change.index]
        yield from names.pod_count(js, entry)
        yield from names.pod_names(js, entry)
    if resized or not semantically_equal(dig(old, "spec", "coordinator"), dig(new, "spec", "coordinator")):
        yield from coordinator.coordinator(js)
    if found := list(_placement(js)):
        stale = {(error.rule, error.path) for error in _placement_of(old, js.gates)}
        yield from (error for error in found if (error.rule, error.path) not in stale)


def _placement(js: Subject) -> Iterator[FieldError]:
    """Faults, not warnings, of exclusive placement: annotations may change at any time."""
    for entry in js.entries:
        yield from (error for error in placement.exclusive(js, entry) if not error.is_warning)
    yield from (error for error in placement.levels(js) if not error.is_warning)


def _placement_of(obj: JSON, gates: FeatureGates) -> list[FieldError]:
    try:
        return list(_placement(subject(obj, gates)))
    except Unreadable:
        return []
