"""The rules about a JobSet, one subject per file. Pure.

See docs/reference/validation.md#new-jobsets.

A check (`check_...`) takes a `Subject`, or a `Subject` and an `Entry` if it is about one ReplicatedJob, and yields the
findings of its rules. A check does not assume that other checks have passed. docs/reference/admission-differences.md
says how the rules differ from the rules of the Go JobSet.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kube.model.field import ErrorType, FieldError, Layer, Rule, Severity
from webhooks.jobset.subject import Entry, Subject

SubjectCheck = Callable[[Subject], Iterator[FieldError]]
EntryCheck = Callable[[Subject, Entry], Iterator[FieldError]]


MAX_FINDINGS = 8
"""The most findings of one kind about a set: an answer has no more warnings (`answers.MAX_WARNINGS`)."""


@dataclass(frozen=True, slots=True)
class Source:
    """The source of rules: a section of a page, a KEP, a field that the Go JobSet lacks, or a rule of the CRD."""

    name: str
    layer: Layer = Layer.WEBHOOK

    def error(
        self, rule_id: str, message: str, fix: str, kind: ErrorType = ErrorType.INVALID, *, gates: str = ""
    ) -> Rule:
        """A rule that refuses a JobSet. `message`, `fix` and `gates` are templates."""
        return Rule(rule_id, kind, message, fix, self.name, self.layer, gates=gates)

    def warning(self, rule_id: str, message: str, fix: str, kind: ErrorType = ErrorType.INVALID) -> Rule:
        """A rule that only warns the author of the JobSet."""
        return Rule(rule_id, kind, message, fix, self.name, self.layer, Severity.WARNING)

    def gate(self, rule_id: str, gate: str, effect_if_off: str) -> Rule:
        """A rule that refuses a field while its feature gate is off."""
        message = f"needs the feature gate {gate}: without it {effect_if_off}"
        fix = f"start the manager with --feature-gates={gate}=true, or remove the field"
        return self.error(rule_id, message, fix, ErrorType.FORBIDDEN, gates=f"{gate}=true")
