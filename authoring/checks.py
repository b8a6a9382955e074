"""Checks manifests that have not been sent with the engine of the webhook, for `validate` and `render`.

Before the engine, the checks of the API server before webhooks are made: type, metadata and unknown fields. The
defaults of the CRD are set, too. Pure.
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
from webhooks.jobset.rules.blame import jobset_name_of
from webhooks.jobset.rules.success import NO_JOBS

_TWO_SENTENCES = {"subdomain-form", "child-resource-name"}
"""Rules for which the API server has two messages with the same fix. Only one of them is reported."""

_JOB_LENGTH, _POD_LENGTH = "job-name-length", "pod-name-length"
"""Two rules about the length of a Job's name. If both are broken, only the stricter rule, about pods, is reported."""


class CheckError(Exception):
    """A check cannot be made. The text is one line for the user."""


@dataclass(frozen=True, slots=True)
class PreparedManifest:
    """The object that the webhook would receive, and the faults that the API server would find before."""

    object: JSON
    faults: tuple[FieldError, ...]


class Checks:
    """The engine of the webhook, and the checks of the API server before it calls the webhook."""

    def __init__(self, gates: FeatureGates, namespace: str = "") -> None:
        """`namespace`: from -n, for manifests without a namespace. A manifest with another namespace has a fault."""
        self.engine = engine(gates)
        self.gates = gates
        self._namespace = namespace

    def respelt(self, document: Document) -> Document:
        """The document with misspelt fields corrected, so that faults below these fields are found, too.

        The misspelt fields are added to the faults of the document. Its locations have both spellings.
        """
        value, corrections = self.engine.schema.with_right_names(document.value)
        for error, corrected_name in corrections:
            *above, name = error.path.parts
            members = document.location.nearest(above)[0].members
            if name in members:
                members[corrected_name] = members[name]
            document.faults.append(
                Fault(document.location.nearest(error.path.parts)[0].marked_span(at_key=True), error)
            )
        return replace(document, value=value)

    def prepare(self, manifest: JSON) -> PreparedManifest:
        """The object in the form that the API server validates, with the faults of type, metadata and field names."""
        faults, obj = check_object(manifest, self._namespace)
        return PreparedManifest(with_defaults(obj, crd_schema()), (*faults, *self.engine.schema.unknown_fields(obj)))

    def findings_about_new(self, sent: PreparedManifest, *, children: bool = True) -> Findings:
        """Findings about a new JobSet. `children`: whether to check its Jobs, too; False if an API server does."""
        findings = self.engine.findings_about_new(sent.object)
        return merge_faults(sent, with_job_faults(findings, self.gates, jobs=children))

    def findings_about_update(self, stored: JSON, sent: PreparedManifest) -> Findings:
        """Findings about an update of a stored JobSet.

        If the update has errors, errors of a new JobSet are added, since the author may have to create the JobSet
        again. Errors that the stored JobSet has, too, are left out.
        """
        findings = merge_faults(sent, self.engine.findings_about_update(stored, sent.object))
        if not findings.errors:
            return findings
        stored_errors = self.findings_about_new(PreparedManifest(stored, ())).errors
        known_errors = {(error.rule, error.path) for error in (*findings.errors, *stored_errors)}
        errors = self.findings_about_new(sent).errors
        return findings.with_findings(error for error in errors if (error.rule, error.path) not in known_errors)


def merge_faults(sent: PreparedManifest, findings: Findings) -> Findings:
    """The findings of the engine and the faults of the manifest.

    Errors of the engine about refused fields are left out, since they are consequences.
    """
    refused = {error.path for error in sent.faults}
    if any(path.parts[:-1] == SPEC.parts for path in refused):
        findings = findings.without_warnings(NO_JOBS)  # the refused field may be a misspelt replicatedJobs
    errors = [error for error in findings.errors if error.path not in refused]
    return Findings(tuple(errors), findings.warnings, findings.object).with_findings(sent.faults)


def locate_findings(document: Document, findings: Findings | None = None) -> list[Finding]:
    """Findings about the text and the object of a document, with their positions in the file.

    Findings about the object are left out at paths whose text cannot be parsed.
    """
    errors = _each_once((*findings.errors, *findings.warnings)) if findings else []
    ignored = ignored_rules(document.value)
    faults = [fault for fault in document.faults if not is_ignored(fault.error, ignored)]
    located_faults = [locate(document, fault.error, fault.span) for fault in faults]
    unparsed = {fault.error.path for fault in document.faults if fault.error.rule not in KEYS_TWICE}
    errors = [error for error in errors if error.path not in unparsed]
    return [*located_faults, *(_locate(document, error, findings) for error in _report_name_once(errors, findings))]


def _locate(document: Document, error: FieldError, findings: Findings | None) -> Finding:
    """The finding with its position, which is the name of the JobSet if only this name has to change."""
    name_path = None if findings is None else _name_to_blame(error, findings.object)
    span = document.location.nearest(name_path.parts)[0].marked_span(at_key=False) if name_path else None
    return locate(document, _with_template_hint(_with_our_flag(error)), span)


def _report_name_once(errors: Sequence[FieldError], findings: Findings | None) -> list[FieldError]:
    """The errors. An error that the JobSet's name causes is reported only for the first ReplicatedJob."""
    first_errors: dict[object, FieldError] = {}
    for i, error in enumerate(errors):
        name_path = None if findings is None else _name_to_blame(error, findings.object)
        first_errors.setdefault((error.rule, error.fix) if name_path else i, error)
    return list(first_errors.values())


def _name_to_blame(error: FieldError, obj: JSON) -> Path | None:
    """The path of the JobSet's name, if the name has to change to correct the error; else None."""
    if error.rule not in names.JOB_NAME_RULES:
        return None
    jobset_name = jobset_name_of(dig(obj, "metadata", "name"), dig(obj, "metadata", "generateName"))
    job = dig(obj, *error.path.parts)
    return (
        jobset_name.name_path
        if names.is_jobset_name_to_blame(error, jobset_name, job if isinstance(job, str) else "")
        else None
    )


def _with_template_hint(error: FieldError) -> FieldError:
    """The error. If its value is a template, its fix says to render the template first."""
    is_template = isinstance(error.value, str) and "{{" in error.value
    return replace(error, hint=TEMPLATE_HINT) if is_template else error


def _with_our_flag(error: FieldError) -> FieldError:
    """The error. If a feature gate decides, its fix also names flags of `validate` for a manager with the gate on."""
    if not error.gates:
        return error
    flag = f"--feature-gates={error.gates}"
    return replace(
        error, hint=f"{error.fix}; if yours runs so, check with jobset validate {flag}, or with --server, which asks it"
    )


def _each_once(errors: Sequence[FieldError]) -> list[FieldError]:
    """The findings without repetitions, which admission has like the API server."""
    by_value = dict[tuple[object, ...], list[FieldError]]()
    pods_too_long = {error.path for error in errors if _is(error, _POD_LENGTH)}
    for error in errors:
        if error.path in pods_too_long and _is(error, _JOB_LENGTH):
            continue
        distinct = by_value.setdefault((error.path, error.type, render_value(error.value)), [])
        if not any(_says_the_same(error, other) for other in distinct):
            distinct.append(error)
    return [error for distinct in by_value.values() for error in distinct]


def _is(error: FieldError, rule: str) -> bool:
    return error.rule is not None and error.rule.id == rule


def _says_the_same(first: FieldError, second: FieldError) -> bool:
    """Whether two findings about one value say the same."""
    if first.rule is not None and first.rule is second.rule and first.rule.id in _TWO_SENTENCES:
        return True
    return (first.detail, first.verbatim) == (second.detail, second.verbatim)


def with_defaults(value: Any, schema: JSON) -> Any:
    """The value with the defaults of a structural schema, as the API server sets them. Unchanged parts are shared."""
    if isinstance(value, dict) and "properties" in schema:
        nodes: JSON = schema["properties"]
        members = {key: with_defaults(member, nodes[key]) if key in nodes else member for key, member in value.items()}
        defaults = {
            key: node["default"] for key, node in nodes.items() if "default" in node and members.get(key) is None
        }
        return members | defaults
    if isinstance(value, dict) and "additionalProperties" in schema:
        return {key: with_defaults(member, schema["additionalProperties"]) for key, member in value.items()}
    if isinstance(value, list) and "items" in schema:
        return [with_defaults(item, schema["items"]) for item in value]
    return value
