"""The rules about a JobSet, one subject per file. Pure.

See docs/reference/validation.md#new-jobsets.

A check takes a `Subject` (and an `Entry`, when it is about one ReplicatedJob) and yields findings of a `Rule`. It does
not assume that other checks have passed. docs/reference/admission-differences.md says how the rules differ from the Go
JobSet's.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kube.model.field import ErrorType, FieldError, Layer, Rule, Severity
from webhooks.jobset.subject import Entry, Subject

SubjectCheck = Callable[[Subject], Iterator[FieldError]]
EntryCheck = Callable[[Subject, Entry], Iterator[FieldError]]


MAX_FINDINGS = 8
"""Findings of one kind about a set, at most: an answer has no more warnings (`answers.MAX_WARNINGS`)."""


@dataclass(frozen=True, slots=True)
class Source:
    """The source of rules: a section of a page, a KEP, a field of ours, or a rule of the CRD that they repeat."""

    name: str
    layer: Layer = Layer.WEBHOOK

    def error(self, name: str, message: str, fix: str, kind: ErrorType = ErrorType.INVALID, *, gates: str = "") -> Rule:
        """A rule without which no JobSet is stored. `name` is its id; `message`, `fix` and `gates` are templates."""
        return Rule(name, kind, message, fix, self.name, self.layer, gates=gates)

    def warning(self, name: str, message: str, fix: str, kind: ErrorType = ErrorType.INVALID) -> Rule:
        """A rule that warns the author of the JobSet."""
        return Rule(name, kind, message, fix, self.name, self.layer, Severity.WARNING)

    def gate(self, name: str, gate: str, without: str) -> Rule:
        """A rule about a field that needs a feature gate; `without`: what would happen while it is off."""
        message = f"needs the feature gate {gate}: without it {without}"
        fix = f"start the manager with --feature-gates={gate}=true, or remove the field"
        return self.error(name, message, fix, ErrorType.FORBIDDEN, gates=f"{gate}=true")
