"""The checks of the webhook, for manifests that have not been sent yet: one way for `validate` and `render`.

Adds what the API server does before a webhook sees an object: it holds type and metadata to its rules, finds unknown
fields, and sets the defaults of the CRD. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from api.features import FeatureGates
from app.engine import crd_schema, engine
from authoring.documents import KEYS_TWICE, TEMPLATE_HINT, Document, Fault
from authoring.findings import Finding, locate
from authoring.job_checks import with_job_faults
from authoring.object_checks import check_object
from kube.model.field import SPEC, FieldError, Path, render_value
from kube.model.jsontree import dig
from kube.model.meta import JSON
from webhooks.jobset.engine import Findings
from webhooks.jobset.ignored_rules import ignored_rules, is_ignored
from webhooks.jobset.rules import names
from webhooks.jobset.rules.blame import own_name
from webhooks.jobset.rules.success import NO_JOBS

_TWO_SENTENCES = {"subdomain-form", "child-resource-name"}
"""Rules for which the API server has two messages with one remedy."""

_JOB_LENGTH, _POD_LENGTH = "job-name-length", "pod-name-length"
"""Two rules about the length of a name. Where both are broken, only the stricter one, about its pods, is reported."""


class CheckError(Exception):
    """A check cannot be made; the text is one line for the user."""


@dataclass(frozen=True, slots=True)
class PreparedManifest:
    """A manifest as the webhook would receive it, and the faults that the API server would have found before."""

    object: JSON
    faults: tuple[FieldError, ...]


class Checks:
    """The engine, and the checks of the API server before it."""

    def __init__(self, gates: FeatureGates, namespace: str = "") -> None:
        """`namespace`: from -n; used for manifests without one. One that names another namespace is a fault."""
        self.engine = engine(gates)
        self.gates = gates
        self._namespace = namespace

    def respelt(self, document: Document) -> Document:
        """A JobSet with misspelt fields spelled as they were meant, so that faults below them are found as well.

        The misspelt ones are faults of the document. Places are found by either spelling.
        """
        value, found = self.engine.schema.respelt(document.value)
        for error, meant in found:
            *above, name = error.path.parts
            members = document.location.nearest(above)[0].members
            if name in members:
                members[meant] = members[name]
            document.faults.append(
                Fault(document.location.nearest(error.path.parts)[0].marked_span(at_key=True), error)
            )
        return replace(document, value=value)

    def prepare(self, manifest: JSON) -> PreparedManifest:
        """The object as the API server has it before validation."""
        faults, obj = check_object(manifest, self._namespace)
        return PreparedManifest(with_defaults(obj, crd_schema()), (*faults, *self.engine.schema.unknown(obj)))

    def create(self, sent: PreparedManifest, *, children: bool = True) -> Findings:
        """Findings about a new JobSet; `children` False leaves out its Jobs, which the API server checks then."""
        findings = self.engine.create(sent.object)
        return merge_faults(sent, with_job_faults(findings, self.gates, jobs=children))

    def update(self, stored: JSON, sent: PreparedManifest) -> Findings:
        """Findings about an update of a stored JobSet.

        A refused update also gets the errors of a new JobSet, since its author may have to create one, but not errors
        that the stored JobSet has.
        """
        found = merge_faults(sent, self.engine.update(stored, sent.object))
        if not found.errors:
            return found
        known = {
            (error.rule, error.path) for error in (*found.errors, *self.create(PreparedManifest(stored, ())).errors)
        }
        new = self.create(sent).errors
        return found.with_findings(error for error in new if (error.rule, error.path) not in known)


def merge_faults(sent: PreparedManifest, findings: Findings) -> Findings:
    """The findings of both layers; errors about fields that the first one refused are left out as consequences."""
    refused = {error.path for error in sent.faults}
    if any(path.parts[:-1] == SPEC.parts for path in refused):
        findings = findings.without_warnings(NO_JOBS)  # the refused field may stand for replicatedJobs
    errors = [error for error in findings.errors if error.path not in refused]
    return Findings(tuple(errors), findings.warnings, findings.object).with_findings(sent.faults)


def locate_findings(document: Document, findings: Findings | None = None) -> list[Finding]:
    """Findings about a document's text and object, with their places.

    Where the text has a value that cannot be read, findings about the object are left out.
    """
    errors = _each_once((*findings.errors, *findings.warnings)) if findings else []
    ignored = ignored_rules(document.value)
    faults = [fault for fault in document.faults if not is_ignored(fault.error, ignored)]
    texts = [locate(document, fault.error, fault.span) for fault in faults]
    unread = {fault.error.path for fault in document.faults if fault.error.rule not in KEYS_TWICE}
    left = [error for error in errors if error.path not in unread]
    return [*texts, *(_locate(document, error, findings) for error in _report_name_once(left, findings))]


def _locate(document: Document, error: FieldError, findings: Findings | None) -> Finding:
    """The finding at its place; at the JobSet's name where that alone makes the names of Jobs wrong."""
    own = None if findings is None else _name_to_blame(error, findings.object)
    span = document.location.nearest(own.parts)[0].marked_span(at_key=False) if own else None
    return locate(document, _with_template_hint(_with_our_flag(error)), span)


def _report_name_once(errors: Sequence[FieldError], findings: Findings | None) -> list[FieldError]:
    """The errors; one that the JobSet's own name causes is reported for its first ReplicatedJob only."""
    first_errors: dict[object, FieldError] = {}
    for i, error in enumerate(errors):
        own = None if findings is None else _name_to_blame(error, findings.object)
        first_errors.setdefault((error.rule, error.fix) if own else i, error)
    return list(first_errors.values())


def _name_to_blame(error: FieldError, obj: JSON) -> Path | None:
    """The path of the JobSet's name, if the name is what has to change."""
    if error.rule not in names.OF_JOBS:
        return None
    own = own_name(dig(obj, "metadata", "name"), dig(obj, "metadata", "generateName"))
    job = dig(obj, *error.path.parts)
    return own.name_path if names.set_to_blame(error, own, job if isinstance(job, str) else "") else None


def _with_template_hint(error: FieldError) -> FieldError:
    """The error; if its value is an unfilled template, with the hint to fill it in first."""
    templated = isinstance(error.value, str) and "{{" in error.value
    return replace(error, hint=TEMPLATE_HINT) if templated else error


def _with_our_flag(error: FieldError) -> FieldError:
    """The error; if a feature gate decides, with the flags that check for a manager with the gate on."""
    if not error.gates:
        return error
    flag = f"--feature-gates={error.gates}"
    return replace(
        error, hint=f"{error.fix}; if yours runs so, check with jobset validate {flag}, or with --server, which asks it"
    )


def _each_once(errors: Sequence[FieldError]) -> list[FieldError]:
    """The findings, one for each value and text. Admission repeats them, as the API server would."""
    found = dict[tuple[object, ...], list[FieldError]]()
    pods_too_long = {error.path for error in errors if _is(error, _POD_LENGTH)}
    for error in errors:
        if error.path in pods_too_long and _is(error, _JOB_LENGTH):
            continue
        same = found.setdefault((error.path, error.type, render_value(error.value)), [])
        if not any(_says_the_same(error, second) for second in same):
            same.append(error)
    return [error for same in found.values() for error in same]


def _is(error: FieldError, rule: str) -> bool:
    return error.rule is not None and error.rule.id == rule


def _says_the_same(first: FieldError, second: FieldError) -> bool:
    """Whether two findings about one value say the same."""
    if first.rule is not None and first.rule is second.rule and first.rule.id in _TWO_SENTENCES:
        return True
    return (first.detail, first.verbatim) == (second.detail, second.verbatim)


def with_defaults(value: Any, schema: JSON) -> Any:
    """The value with the defaults of a structural schema, as the API server stores it; shares what stays the same."""
    if isinstance(value, dict) and "properties" in schema:
        known: JSON = schema["properties"]
        members = {key: with_defaults(member, known[key]) if key in known else member for key, member in value.items()}
        absent = {key: node["default"] for key, node in known.items() if "default" in node and members.get(key) is None}
        return members | absent
    if isinstance(value, dict) and "additionalProperties" in schema:
        return {key: with_defaults(member, schema["additionalProperties"]) for key, member in value.items()}
    if isinstance(value, list) and "items" in schema:
        return [with_defaults(item, schema["items"]) for item in value]
    return value
