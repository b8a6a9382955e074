"""Findings with their positions in files, and the report of a run. Pure.

The JSON form is an interface: members may be added, and are never renamed.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from api import keys
from authoring.documents import Document
from authoring.policy_kinds import intended_kind
from jobset_client.source import Span
from jobset_client.words import count_noun
from kube.model.field import MAX_SHOWN_VALUE, ErrorType, FieldError, Path, shorten
from kube.model.jsontree import dig

MAX_FINDINGS = 5000
"""At most this many findings are kept. Further findings are only counted."""
NOTE_RULES = {
    "dry-run-incomplete", "stored-unreadable", "references-not-looked-up", "children-not-allowed", "jobset-not-tried",
    "policy-no-match", "immutable-replace", "workflow-manifest-unchecked",
}  # fmt: skip
"""Rules of notes, which are neither errors nor warnings. Most notes say what was not checked, and why."""
SKIPPED_CHECK_RULES = {"dry-run-incomplete", "stored-unreadable", "children-not-allowed", "jobset-not-tried"}
"""Rules of notes about a skipped check. The check would be possible with more rights or at another time."""
RULES_AT_KEY = {"schema-unknown-field", "schema-misplaced-field"}
"""Rules about a field that should not exist. The mark goes under the key of the field, not its value."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An error, warning or note with its position in a file. Lines and columns count from 1, in characters.

    - `document`: the number of the document in the file; `item`: the index in a list, None outside of a list.
    - `jobset`: the name of the object (`name_of`), whatever its kind.
    - `line_text`: the text of the line.
    """

    file: str
    document: int
    item: int | None
    jobset: str
    line: int
    column: int
    end_column: int
    line_text: str
    error: FieldError
    kind: str = keys.KIND

    @property
    def severity(self) -> str:
        if not self.error.is_warning:
            return "error"
        return "note" if self.rule in NOTE_RULES else "warning"

    @property
    def rule(self) -> str:
        return self.error.rule.id if self.error.rule else "other"

    @property
    def reader_text(self) -> str:
        """The text for readers: the path, the fault and the fix."""
        return self.error.reader_text

    def json(self) -> dict[str, Any]:
        """The finding as JSON. Members may be added."""
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "endColumn": self.end_column,
            "document": self.document,
            "item": self.item,
            "jobset": self.jobset,
            "path": str(self.error.path),
            "severity": self.severity,
            "rule": self.rule,
            "type": self.error.type.text,
            "reason": self.error.type.value,
            "value": _scalar(self.error.value),
            "message": self.error.detail if self.error.is_warning else self.error.complaint,
            "fix": self.error.fix,
            "layer": self.error.layer.value,
        }


def locate(document: Document, error: FieldError, span: Span | None = None) -> Finding:
    """The finding for an error, at `span`, or at the value of its path, or at the nearest parent of a missing value."""
    if span is None:
        parts = error.path.parts
        location, depth = document.location.nearest(parts)
        is_missing = depth < len(parts) or (error.type is ErrorType.REQUIRED and not dig(document.value, *parts))
        span = location.marked_span(at_key=is_missing or (error.rule is not None and error.rule.id in RULES_AT_KEY))
    source = document.source
    line, column = source.position(min(span.start, len(source.text)))
    line_text = source.line(line)
    width = max(1, min(span.end - span.start, len(line_text) - column + 1))
    return Finding(
        file=source.name,
        document=document.number,
        item=document.item,
        jobset=name_of(document.value),
        line=line,
        column=column,
        end_column=column + width,
        line_text=line_text,
        error=error,
        kind=(intended_kind(document.value) if isinstance(document.value, dict) else "") or keys.KIND,
    )


def line_of(document: Document, path: Path) -> int:
    """The line of the value at a path."""
    return locate(document, FieldError(path, ErrorType.INVALID)).line


def name_of(obj: Any) -> str:
    """The name of an object for messages: namespace/name, or the part of it that the object has."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    if not isinstance(metadata, dict):
        return ""
    name = metadata.get("name") or f"{metadata.get('generateName') or ''}*"
    namespace = metadata.get("namespace")
    return shorten(f"{namespace}/{name}" if namespace else str(name), MAX_SHOWN_VALUE)


def _scalar(value: Any) -> Any:
    if isinstance(value, str):
        return shorten(value, MAX_SHOWN_VALUE)
    return value if isinstance(value, int | float) else None


@dataclass(slots=True)
class Report:
    """All findings of a run, and counts of what was checked.

    - `skipped_checks`: the number of checks that could not be made.
    - `other_objects`: the number of objects of kinds that are not checked.
    - `policies`: the number of JobSetPolicies that were read.
    - `problems`: why inputs could not be checked.
    - `explanations`: the decisions of each policy, if the user asks for them.
    - `max_findings`: at most this many findings are kept.
    """

    findings: list[Finding] = field(default_factory=list)
    errors: int = 0
    warnings: int = 0
    notes: int = 0
    skipped_checks: int = 0
    jobsets: int = 0
    files: int = 0
    other_objects: int = 0
    policies: int = 0
    problems: list[str] = field(default_factory=list)
    explanations: list[dict[str, Any]] = field(default_factory=list)
    max_findings: int = MAX_FINDINGS
    _jobsets_by_file: Counter[str] = field(default_factory=Counter)

    def count_jobset(self, file: str) -> None:
        """Count one more JobSet of a file."""
        self.jobsets += 1
        self._jobsets_by_file[file] += 1

    @property
    def files_with_several(self) -> set[str]:
        """The names of files with more than one JobSet."""
        return {file for file, jobsets in self._jobsets_by_file.items() if jobsets > 1}

    def add(self, findings: Sequence[Finding]) -> None:
        """Add the findings of one document, sorted by position."""
        severities = Counter(finding.severity for finding in findings)
        self.errors += severities["error"]
        self.warnings += severities["warning"]
        self.notes += severities["note"]
        self.skipped_checks += sum(finding.rule in SKIPPED_CHECK_RULES for finding in findings)
        ordered = sorted(findings, key=lambda finding: (finding.line, finding.column))
        self.findings += ordered[: self.max_findings - len(self.findings)]

    def finish(self, files: int, other_objects: int, *, allow_none: bool = False, hint: str = "") -> None:
        """Store the counts. If no JobSet was found, add a problem unless `allow_none`.

        `hint`: the end of that problem, about objects of other kinds.
        """
        self.files, self.other_objects = files, other_objects
        if not (self.jobsets or self.errors or self.problems or allow_none):
            self.problems.append(f"no JobSet found in these files ({self.inputs_text}){hint}")

    @property
    def hidden_count(self) -> int:
        """The number of findings that were not kept."""
        return self.errors + self.warnings + self.notes - len(self.findings)

    @property
    def inputs_text(self) -> str:
        """What was checked, as in `3 files, 5 JobSets, 2 policies`; only policies if no other files were read."""
        other_text = (
            f" ({count_noun(self.other_objects, 'object')} of other kinds passed over)" if self.other_objects else ""
        )
        jobsets = f"{count_noun(self.files, 'file')}, {count_noun(self.jobsets, 'JobSet')}{other_text}"
        policies = "1 policy" if self.policies == 1 else f"{self.policies} policies"
        if not self.policies:
            return jobsets
        return f"{jobsets}, {policies}" if self.files else policies

    @property
    def summary(self) -> str:
        """One line, as in `3 files, 5 JobSets, 4 errors, 1 warning`. It has no colon, unlike a finding."""
        notes = f", {count_noun(self.notes, 'note')}" if self.notes else ""
        return f"{self.inputs_text}, {count_noun(self.errors, 'error')}, {count_noun(self.warnings, 'warning')}{notes}"

    def json(self) -> dict[str, Any]:
        """The report as JSON. Members may be added."""
        counts = {
            "files": self.files,
            "jobsets": self.jobsets,
            "others": self.other_objects,
            "errors": self.errors,
            "warnings": self.warnings,
            "notes": self.notes,
        }
        explained = {"policies": self.explanations} if self.explanations else {}
        findings = [finding.json() for finding in self.findings]
        return {**counts, "problems": self.problems, **explained, "findings": findings}
