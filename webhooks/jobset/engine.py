"""Checks a JobSet from the object alone, in one pass: the CRD's schema, its CEL rules, our rules. Pure.

In the API server each layer hides the next one: a validating webhook is not called for an object that the schema
refuses. In this engine all layers report: values that the schema refuses are repaired in a copy, the other checks read
the copy, and their findings about the repaired paths are dropped as consequences.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from api.execution import STAGE_STATES
from api.features import FeatureGates
from kube.model.field import FieldError, Layer, Path, Rule, by_path
from kube.model.jsontree import dig
from kube.model.meta import JSON
from webhooks.jobset.default import objects_by_name, with_defaults
from webhooks.jobset.existing_paths import move_to_existing_paths
from webhooks.jobset.ignored_rules import ignored_rules, is_ignored
from webhooks.jobset.rules import depends_on, managed_by
from webhooks.jobset.rules.volume_claims import UNMOUNTED
from webhooks.jobset.schema.schema import Schema
from webhooks.jobset.subject import DEFAULT_LIMITS, SetLimits, Subject, Unreadable, subject_of
from webhooks.jobset.update.validate import POLICY_FIELDS, findings_about_update
from webhooks.jobset.validate_create import findings_about_new
from webhooks.work import Work

MAX_FINDINGS = 500
"""The most errors of our rules about one object, after which it is not checked any further, and the most warnings."""

_UPDATE_STEPS = 8
"""Steps of work for comparing two objects, for each step of checking one object."""

_SOURCE_PATH_BY_RULE = {
    UNMOUNTED: ("spec", "replicatedJobs"),
    managed_by.NOT_SENT: ("spec",),
    managed_by.ALTERED: ("spec",),
}
"""The path of the value from which findings of a rule may come. If that value was repaired, they are consequences."""
_PRESENCE_RULES = {depends_on.FIRST}
"""Rules about whether a value is present. A repair inside the value does not change their findings."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Errors and warnings about an object, each in the order of the paths.

    `object` is the JobSet with defaults and repairs, which can be decoded whatever the errors.
    """

    errors: tuple[FieldError, ...]
    warnings: tuple[FieldError, ...]
    object: JSON

    def with_findings(self, further_findings: Iterable[FieldError]) -> "Findings":
        """These findings and `further_findings`, sorted by path."""
        return _findings_by_path([*self.errors, *self.warnings, *further_findings], self.object)

    def with_findings_elsewhere(self, further_findings: Iterable[FieldError]) -> "Findings":
        """These findings, and the findings in `further_findings` at paths without an error."""
        error_paths = {error.path for error in self.errors}
        return self.with_findings(error for error in further_findings if error.path not in error_paths)

    def without_warnings(self, rule: Rule) -> "Findings":
        """These findings without the warnings of one rule."""
        return Findings(self.errors, tuple(error for error in self.warnings if error.rule is not rule), self.object)

    @property
    def hides_other_faults(self) -> bool:
        """Whether the API server would refuse the object by its schema, without its other faults."""
        return any(error.layer is Layer.SCHEMA for error in self.errors)


@dataclass(frozen=True, slots=True)
class Engine:
    """Checks JobSets for a set of feature gates, the schema of the CRD, and limits of one JobSet."""

    gates: FeatureGates
    schema: Schema
    limits: SetLimits = DEFAULT_LIMITS

    def findings_about_new(self, obj: JSON, *, defaults: bool = True, work: Work | None = None) -> Findings:
        """Findings about a new JobSet. `defaults=False`: the JobSet has its defaults already."""
        work = work or Work()
        if defaults:
            obj = with_defaults(obj, work=work)[0]
        faults = self.schema.faults(obj, work)
        repaired = self.schema.repair(obj, faults, work)
        findings = move_to_existing_paths(_without_consequences(faults, self._findings_as_new(repaired, work)), obj)
        return _findings_by_path([*faults, *findings], repaired)

    def findings_about_update(self, old: JSON, new: JSON, work: Work | None = None) -> Findings:
        """Findings about an update: new faults, and warnings that the stored object does not get."""
        work = work or Work()
        new = with_defaults(new, old, work)[0]
        faults = self.schema.faults(new, work)
        repaired = self.schema.repair(new, faults, work)
        update_errors, warnings = self._findings_as_update(old, repaired, work), self._new_warnings(old, repaired, work)
        findings = move_to_existing_paths([*_without_consequences(faults, update_errors), *warnings], new, old)
        return _findings_by_path([*_new_faults(faults, old, new), *findings], repaired)

    def may_hide_other_faults(self, new: JSON, old: JSON | None = None, work: Work | None = None) -> bool:
        """Whether `Findings.hides_other_faults` could be true: a fast check, of which only False is certain.

        `new` has its defaults.
        """
        spec = dig(new, "spec")
        changes_immutable_field = old is not None and _changes_immutable_field(dig(old, "spec"), spec)
        return changes_immutable_field or _may_break_cel(spec) or bool(self.schema.faults(new, work))

    def _findings_as_new(self, repaired: JSON, work: Work) -> Iterator[FieldError]:
        return self._rule_findings(repaired, work, lambda subject: findings_about_new(subject, work))

    def _findings_as_update(self, old: JSON, repaired: JSON, work: Work) -> Iterator[FieldError]:
        def findings(subject: Subject) -> Iterator[FieldError]:
            work.spend(subject.steps_per_check * _UPDATE_STEPS)
            return findings_about_update(subject, old, repaired, self.gates)

        return self._rule_findings(repaired, work, findings)

    def _rule_findings(
        self, repaired: JSON, work: Work, find: Callable[[Subject], Iterator[FieldError]]
    ) -> Iterator[FieldError]:
        """The findings of `find` about the object; if it cannot be decoded, only that error."""
        try:
            subject = subject_of(repaired, self.gates, self.limits, work)
        except Unreadable as unreadable:
            yield unreadable.error
            return
        yield from _first_findings(find(subject))

    def _new_warnings(self, old: JSON, new: JSON, work: Work) -> list[FieldError]:
        """Warnings about an update that the stored object does not get. Empty if only `spec.suspend` changes."""
        if _spec_and_annotations(old) == _spec_and_annotations(new):
            return []
        warnings = [error for error in self._findings_as_new(new, work) if error.is_warning]
        stored = {(error.rule, error.path) for error in self._findings_as_new(old, work)} if warnings else set()
        return [error for error in warnings if (error.rule, error.path) not in stored]


def _first_findings(findings: Iterator[FieldError]) -> Iterator[FieldError]:
    """The first errors, and the first warnings: many warnings must not hide an error."""
    counts = {True: 0, False: 0}
    for error in findings:
        counts[error.is_warning] += 1
        if counts[error.is_warning] <= MAX_FINDINGS:
            yield error
        if counts[False] == MAX_FINDINGS:
            return


def _findings_by_path(findings: Sequence[FieldError], obj: JSON) -> Findings:
    ignored = ignored_rules(obj)
    ordered = [error for error in by_path(findings) if not is_ignored(error, ignored)]
    errors = tuple(error for error in ordered if not error.is_warning)
    return Findings(errors, tuple(error for error in ordered if error.is_warning), obj)


def _without_consequences(faults: Sequence[FieldError], findings: Iterable[FieldError]) -> Iterator[FieldError]:
    """Findings that are no consequence of a repair: not at a repaired path, nor above or below such a path."""
    repaired_paths = {fault.path.parts for fault in faults}
    parent_paths = {parts[:n] for parts in repaired_paths for n in range(len(parts))}
    for error in findings:
        parts = error.path.parts
        source = None if error.rule is None else _SOURCE_PATH_BY_RULE.get(error.rule)
        if source in parent_paths or source in repaired_paths:
            continue
        is_below = any(parts[:n] in repaired_paths for n in range(len(parts) + 1))
        is_above = parts in parent_paths and error.layer is not Layer.SCHEMA and error.rule not in _PRESENCE_RULES
        if not is_below and not is_above:
            yield error


def _new_faults(faults: Sequence[FieldError], old: JSON, new: JSON) -> list[FieldError]:
    """Faults that the stored object does not have: the API server accepts an invalid value that is unchanged."""
    return [fault for fault in faults if _value_or_parent(new, fault.path) != _value_or_parent(old, fault.path)]


def _value_or_parent(obj: JSON, path: Path) -> Any:
    """The value that the API server compares: the value at the path, or the parent of an absent value."""
    value = dig(obj, *path.parts)
    return dig(obj, *path.parts[:-1]) if value is None else value


def _may_break_cel(spec: Any) -> bool:
    """Whether a CEL rule of the CRD could fail that does not compare with the stored object."""
    execution, success = dig(spec, "executionPolicy"), dig(spec, "successPolicy")
    return (
        dig(spec, "startupPolicy", "startupPolicyOrder") == "InOrder"
        or bool(dig(spec, "volumeClaimPolicies"))
        or dig(spec, "scheduling") is not None
        or dig(execution, "executionPolicyOrder") == "InOrder"
        or dig(execution, "replicatedJobsStatus") not in (None, *STAGE_STATES)
        or (dig(success, "operator") == "Any" and dig(success, "minSucceeded") is not None)
    )


def _changes_immutable_field(old: Any, new: Any) -> bool:
    if any(dig(old, key) != dig(new, key) for key in POLICY_FIELDS):
        return True
    old_waits, new_waits = (
        {name: rjob.get("dependsOn") for name, rjob in objects_by_name(dig(spec, "replicatedJobs")).items()}
        for spec in (old, new)
    )
    return old_waits != new_waits


def _spec_and_annotations(obj: JSON) -> tuple[Any, Any]:
    return spec_without_suspend(obj), dig(obj, "metadata", "annotations")


def spec_without_suspend(obj: JSON | None) -> Any:
    """The spec without `suspend`, which may change at any time; a spec that is not an object is returned unchanged."""
    spec = dig(obj, "spec")
    return {key: value for key, value in spec.items() if key != "suspend"} if isinstance(spec, dict) else spec
