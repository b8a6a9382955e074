"""What may change in a stored JobSet (behaviour section 3.3). Pure.

Both objects are raw JSON; they are compared after defaulting, so that leaving out what equals the default is no change.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from api.features import FeatureGates
from api.field import SPEC, FieldError, Path, forbidden, invalid
from api.jsontree import dig, set_in
from api.keys import COMPLETED, FAILED
from api.meta import JSON
from api.semantic import semantically_equal
from webhooks.jobset.default import by_name, with_defaults
from webhooks.jobset.rules import coordinator, names
from webhooks.jobset.subject import Entry, Subject, Unreadable, subject

IMMUTABLE = "field is immutable"
_POLICIES = ("network", "successPolicy", "failurePolicy", "startupPolicy", "volumeClaimPolicies")
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


def update_errors(old: JSON, new: JSON, gates: FeatureGates) -> list[FieldError]:
    """All that an update must not do, in discovery order; empty when it may be stored."""
    new = with_defaults(new, old)[0]
    try:
        js = subject(new, gates)
    except Unreadable as unreadable:
        return [unreadable.error]
    changes = _changes(old, new)
    resized = [change for change in changes if change.elastic and change.resized] if gates["ElasticJobSet"] else []
    return [
        *(error for change in resized for error in _resize_errors(change, finished=_is_finished(old))),
        *_immutable(old, new, changes, gates),
        *_still_valid(js, old, new, resized),
    ]


def _changes(old: JSON, new: JSON) -> list[_Change]:
    before: Mapping[Any, JSON] = by_name(dig(old, "spec", "replicatedJobs"))
    after = dig(new, "spec", "replicatedJobs") or []
    return [_Change(i, before[rjob["name"]], rjob) for i, rjob in enumerate(after) if rjob["name"] in before]


def _is_finished(old: JSON) -> bool:
    conditions = dig(old, "status", "conditions") or []
    return any(dig(c, "type") in {COMPLETED, FAILED} and dig(c, "status") == "True" for c in conditions)


def _resize_errors(change: _Change, *, finished: bool) -> Iterator[FieldError]:
    """Step A: a running Indexed Job may grow and shrink, its two numbers together."""
    path = change.path.at("template", "spec")
    if finished:
        detail = "Cannot mutate parallelism or completions when JobSet is in a terminal state (Completed or Failed)"
        yield forbidden(path, detail)
        return
    for keys in _ELASTIC:
        number = dig(change.new, *keys)
        if number != dig(change.old, *keys) and number is not None and number < 1:
            yield invalid(change.path.at(*keys), number, f"{keys[-1]} must be >= 1")
    parallelism, completions = (dig(change.new, *keys) for keys in _ELASTIC)
    if parallelism is not None and completions is not None and parallelism != completions:
        detail = "completions must be equal to parallelism for Elastic Indexed Jobs"
        yield invalid(path.at("completions"), completions, detail)


def _immutable(old: JSON, new: JSON, changes: list[_Change], gates: FeatureGates) -> Iterator[FieldError]:
    """Steps B to D, and the policies."""
    suspended = dig(old, "spec", "suspend") is True or dig(new, "spec", "suspend") is True
    munged = list(dig(new, "spec", "replicatedJobs") or [])
    for change in changes:
        keep = [*(_ELASTIC if gates["ElasticJobSet"] and change.elastic else ()), *(_SCHEDULING if suspended else ())]
        for keys in keep:
            munged[change.index] = _graft(munged[change.index], change.old, keys)
    if not semantically_equal(dig(old, "spec", "replicatedJobs"), munged):
        yield invalid(SPEC.at("replicatedJobs"), munged, IMMUTABLE)
    if dig(old, "spec", "managedBy") != dig(new, "spec", "managedBy"):
        yield invalid(SPEC.at("managedBy"), dig(new, "spec", "managedBy"), IMMUTABLE)
    for policy in _POLICIES:
        value = dig(new, "spec", policy)
        if not semantically_equal(dig(old, "spec", policy), value):
            yield invalid(SPEC.at(policy), value, IMMUTABLE)


def _graft(new: JSON, old: JSON, keys: tuple[str, ...]) -> JSON:
    """`new` with what `old` has at `keys`."""
    ours, theirs = dig(new, *keys), dig(old, *keys)
    return new if ours == theirs else set_in(new, keys, theirs)


def _still_valid(js: Subject, old: JSON, new: JSON, resized: list[_Change]) -> Iterator[FieldError]:
    """The create checks of what this update is allowed to change."""
    for change in resized:
        entry: Entry = js.entries[change.index]
        yield from names.pod_count(js, entry)
        yield from names.pod_names(js, entry)
    if resized or not semantically_equal(dig(old, "spec", "coordinator"), dig(new, "spec", "coordinator")):
        yield from coordinator.coordinator(js)
