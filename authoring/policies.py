"""Reads JobSetPolicies from files, finds their faults, and checks JobSets against them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import Any, Generic, NamedTuple, TypeVar

from api.features import FeatureGates
from api.keys import NAMESPACE_NAME
from app.engine import exception_schema, policy_schema
from authoring.checks import PreparedManifest
from authoring.documents import Document
from authoring.findings import Report, line_of, locate
from authoring.manifest_files import Inputs
from authoring.policy_kinds import is_exception, is_policy_or_exception, kind_faults
from kube.model.field import SPEC, ErrorType, FieldError, Path, Rule, Severity
from kube.model.jsontree import dig, without_nulls
from kube.model.meta import JSON
from kube.model.validation import dns1123_subdomain
from policy.conflicts import conflicts
from policy.defaults import defaults_for
from policy.evaluate import Violation, numbers_by_rule, rules_in_force, violations
from policy.exception_faults import exception_warnings, own_faults
from policy.exception_types import JobSetPolicyException, read_exception
from policy.exceptions import EARLIEST, Excused, excused_rules, namespace_exceptions
from policy.faults import cautions
from policy.judged import JudgedJobSet, Namespace
from policy.kinds import API_VERSION, GROUP, KIND
from policy.limits import Number
from policy.mismatch import Mismatch, namespace_mismatch, policy_mismatch
from policy.namespaces import DEFAULT, namespace_of
from policy.recorded import recorded_defaults
from policy.sentences import source
from policy.types import JobSetPolicy
from webhooks.jobset.policy_defaults import set_defaults
from webhooks.jobset.subject import Unreadable, subject_of
from webhooks.json_patch import PatchDraft
from webhooks.policy.handlers import faults_of

_SOURCE = source("README")

POLICY_API_VERSION = Rule(
    "policy-api-version",
    ErrorType.NOT_SUPPORTED,
    f'policies are served as "{API_VERSION}"',
    f"write `apiVersion: {API_VERSION}`",
    _SOURCE,
)
POLICY_NAME = Rule("policy-name", ErrorType.INVALID, "{complaint}", "use lower case letters, digits and '-'", _SOURCE)
POLICY_TWICE = Rule("policy-twice", ErrorType.DUPLICATE, "{place} has it, too", "give it another name", _SOURCE)
POLICY_NAMESPACE = Rule(
    "policy-namespace",
    ErrorType.FORBIDDEN,
    "policies are of the whole cluster, and the API server drops it",
    f"remove it; to mean one namespace, write match: {{{{namespaceSelector: {{{{matchLabels: {{{{{NAMESPACE_NAME}:"
    " {namespace}}}}}}} into the spec",
    _SOURCE,
    severity=Severity.WARNING,
)
NO_MATCH = Rule(
    "policy-no-match",
    ErrorType.INVALID,
    "no policy matches JobSet {jobset}, so no rule of {policies} was checked: {why}",
    "{remedy}, or correct the selectors",
    _SOURCE,
    severity=Severity.WARNING,
)
NO_NAMESPACE = Rule(
    "policy-exception-namespace",
    ErrorType.REQUIRED,
    "exception {name} is taken for one of namespace default, and no JobSet here is in it",
    "write `namespace: {namespace}` into its metadata",
    source("exceptions"),
    severity=Severity.WARNING,
)
MAX_NAMED_POLICIES = 3
"""For at most this many policies that do not match, the reason is given."""


def policy_faults(obj: JSON) -> tuple[list[FieldError], JobSetPolicy | None]:
    """The faults of a policy, and the policy if it has no faults."""
    schema, obj = policy_schema(), without_nulls(obj)
    faults, policy = faults_of(schema, obj, [*_head_faults(obj), *schema.unknown_fields(obj)])
    return faults, None if faults else policy


def _head_faults(obj: JSON) -> Iterator[FieldError]:
    yield from kind_faults(obj)
    if obj.get("apiVersion") != API_VERSION:
        yield POLICY_API_VERSION.at(Path(("apiVersion",)), obj.get("apiVersion"))
    name = dig(obj, "metadata", "name")
    for complaint in dns1123_subdomain(name) if isinstance(name, str) else ("must be a text",):
        yield POLICY_NAME.at(Path(("metadata", "name")), name, complaint=complaint)


T = TypeVar("T")


class FiledObject(NamedTuple, Generic[T]):
    """A policy or an exception, and the document that contains it."""

    document: Document
    value: T

    def line(self, path: Path) -> tuple[str, int]:
        """The file, and the line of the field at a path."""
        return self.document.source.name, line_of(self.document, path)


@dataclass(frozen=True, slots=True)
class Policies:
    """Policies, exceptions from them, and the namespace of the JobSets.

    - `at`: the time at which exceptions have to count.
    - `known_namespaces`: by name. `labels` and `annotations` override the labels and annotations of all of these.
    """

    policies: Sequence[JobSetPolicy] = ()
    exceptions: Sequence[JobSetPolicyException] = ()
    at: datetime = EARLIEST
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    known_namespaces: dict[str, Namespace] = field(default_factory=dict)

    def namespace(self, name: str) -> Namespace:
        """The namespace of this name, with the labels and annotations that it is assumed to have."""
        base = self.known_namespaces.get(name, Namespace(name))
        return namespace_of(base.name, {**base.labels, **self.labels}, {**base.annotations, **self.annotations})

    def with_defaults(self, sent: PreparedManifest, gates: FeatureGates) -> PreparedManifest:
        """The manifest of a new JobSet with the defaults of the policies."""
        name = dig(sent.object, "metadata", "namespace")
        namespace = self.namespace(name if isinstance(name, str) else "")
        return replace(sent, object=with_policy_defaults(self.policies, sent.object, namespace, gates))

    def violations(self, judged: JudgedJobSet, old: JudgedJobSet | None = None) -> list[Violation]:
        """The violations by a JobSet, without violations of rules that exceptions excuse."""
        excused = self.excused_rules(judged)
        return violations(
            self.policies,
            judged,
            self.namespace(judged.js.metadata.namespace),
            old,
            is_excepted=lambda policy, rule: (policy.metadata.name, rule) in excused,
        )

    def excused_rules(self, judged: JudgedJobSet) -> Excused:
        """The rules that exceptions allow a JobSet to break."""
        name = judged.js.metadata.namespace
        exceptions = namespace_exceptions(self.exceptions, name)
        return excused_rules(exceptions, self.policies, judged, self.namespace(name), self.at)

    def findings(self, judged: JudgedJobSet) -> list[FieldError]:
        """The finding that no policy matches, or violations of policies that deny or warn."""
        meta = judged.js.metadata
        namespace = self.namespace(meta.namespace)
        mismatches = [policy_mismatch(policy, meta.labels, namespace) for policy in self.policies]
        if mismatches and all(mismatches):
            return [_no_match_warning(judged, list(zip(self.policies, filter(None, mismatches), strict=True)))]
        return [
            violation.error
            for violation in self.violations(judged)
            if violation.policy.spec.denies or violation.policy.spec.warns
        ]


@dataclass(frozen=True, slots=True)
class FiledPolicies(Policies):
    """The policies of files. `jobset_namespaces`: the namespaces of the JobSets that were checked, by name."""

    filed_policies: Sequence[FiledObject[JobSetPolicy]] = ()
    filed_exceptions: Sequence[FiledObject[JobSetPolicyException]] = ()
    jobset_namespaces: dict[str, Namespace] = field(default_factory=dict)

    def note_namespace(self, name: str) -> None:
        """Store the namespace of a JobSet that is checked."""
        self.jobset_namespaces[name or DEFAULT] = self.namespace(name)

    def warn(self, report: Report, gates: FeatureGates, *, everywhere: bool) -> None:
        """Report contradictions, and exceptions without effect, `everywhere` or in namespaces of checked JobSets."""
        warn_of_conflicts(self.filed_policies, report, gates)
        namespaces = None if everywhere else self.jobset_namespaces
        warn_of_exceptions(self.filed_exceptions, self.policies, namespaces, self.at, report)


def _no_match_warning(judged: JudgedJobSet, mismatches: Sequence[tuple[JobSetPolicy, Mismatch]]) -> FieldError:
    meta = judged.js.metadata
    named = mismatches[:MAX_NAMED_POLICIES]
    why = "; ".join(f"policy {policy.metadata.name}: {mismatch}" for policy, mismatch in named)
    policies = "1 policy" if len(mismatches) == 1 else f"{len(mismatches)} policies"
    jobset = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
    remedy = _remedy(mismatches[0][1])
    return NO_MATCH.at(Path(("metadata", "name")), meta.name, jobset=jobset, policies=policies, why=why, remedy=remedy)


def _remedy(mismatch: Mismatch) -> str:
    """The change of the manifest, or the flag for labels of the namespace, that makes a policy match."""
    requirement = mismatch.requirement
    value = requirement.values[0] if requirement.operator == "In" else "VALUE"
    if mismatch.selector == "objectSelector":
        return "change the labels of the JobSet"
    if requirement.key == NAMESPACE_NAME and requirement.operator == "In":
        return f"write `namespace: {value}` into its metadata, or -n {value}"
    if requirement.operator in {"In", "Exists"}:
        return f"pass --namespace-label {requirement.key}={value} if its namespace has that label"
    return "pass the labels of its namespace with --namespace-label KEY=VALUE"


def with_policy_defaults(
    policies: Sequence[JobSetPolicy], obj: JSON, namespace: Namespace, gates: FeatureGates
) -> JSON:
    """A new JobSet with the defaults that policies set in this namespace."""
    if all(policy.spec.defaults is None for policy in policies):
        return obj
    draft = PatchDraft(obj)
    set_defaults(draft, defaults_for(policies, obj, namespace, gates))
    return draft.object


def judged_of(obj: JSON, gates: FeatureGates) -> JudgedJobSet | None:
    """The JobSet in the form that rules read; None if it cannot be decoded, for which there are other findings."""
    try:
        return JudgedJobSet(subject_of(obj, gates).js)
    except Unreadable:
        return None


def load(names: Sequence[str], report: Report) -> tuple[list[FiledObject[JobSetPolicy]], list[Document]]:
    """The policies and the documents of exceptions in files. Reports faults of policies. Reads each file once."""
    inputs = Inputs(names, recursive=True, wanted=is_policy_or_exception, problems=report.problems)
    other_documents, exceptions = _split_exceptions(inputs.documents())
    policies = policies_in(other_documents, report)
    if not policies and not (report.problems or report.errors):
        report.problems.append(f"no {KIND} ({GROUP}) found in {', '.join(names)}")
    return policies, exceptions


def _split_exceptions(documents: Iterable[Document]) -> tuple[list[Document], list[Document]]:
    """The documents without exceptions, and the documents of exceptions."""
    other_documents: list[Document] = []
    exceptions: list[Document] = []
    for document in documents:
        has_exception = isinstance(document.value, dict) and is_exception(document.value)
        (exceptions if has_exception else other_documents).append(document)
    return other_documents, exceptions


def check_each_file(documents: Iterable[Document], report: Report, gates: FeatureGates) -> None:
    """Report the faults of policies and exceptions, file by file, since two files may be alternatives."""
    for _, file_documents in groupby(documents, key=lambda document: document.source.name):
        other_documents, exceptions = _split_exceptions(file_documents)
        warn_of_conflicts(policies_in(other_documents, report), report, gates)
        exception_documents(exceptions, report)


def exception_documents(documents: Iterable[Document], report: Report) -> list[FiledObject[JobSetPolicyException]]:
    """The valid exceptions among documents. Reports the faults of invalid exceptions."""
    valid: list[FiledObject[JobSetPolicyException]] = []
    for document in documents:
        if document.broken or not isinstance(document.value, dict):
            continue
        report.add([locate(document, fault.error, fault.span) for fault in document.faults])
        schema, obj = exception_schema(), without_nulls(document.value)
        faults = [*_head_faults(obj), *schema.unknown_fields(obj), *schema.faults(obj)]
        if not faults:
            exception = read_exception(obj)
            faults = own_faults(exception)
            valid += [] if faults else [FiledObject(document, exception)]
        report.add([locate(document, error) for error in faults])
    return valid


def warn_of_exceptions(
    filed: Sequence[FiledObject[JobSetPolicyException]],
    policies: Sequence[JobSetPolicy],
    namespaces: Mapping[str, Namespace] | None,
    at: datetime,
    report: Report,
) -> None:
    """Report why exceptions in these namespaces have no effect. None: all namespaces, whatever their labels."""
    policies_by_name = {policy.metadata.name: policy for policy in policies}
    for document, exception in filed:
        meta = exception.metadata
        namespace = None if namespaces is None else namespaces.get(meta.namespace or DEFAULT)
        if namespaces and not namespace and not meta.namespace:
            error = NO_NAMESPACE.at(Path(("metadata", "namespace")), name=meta.name, namespace=min(namespaces))
            report.add([locate(document, error)])
        if namespace or namespaces is None:
            errors = exception_warnings(exception, policies_by_name, namespace, at)
            errors = [_with_flag(error, policies_by_name, exception, namespace) for error in errors]
            report.add([locate(document, error) for error in errors])


def _with_flag(
    error: FieldError,
    policies: Mapping[str, JobSetPolicy],
    exception: JobSetPolicyException,
    namespace: Namespace | None,
) -> FieldError:
    """The finding. If labels of the namespace decide, its fix names the flag that sets them, too."""
    policy = policies.get(exception.spec.policy)
    allowed = policy.spec.exceptions if policy else None
    if allowed is None or namespace is None or error.path != SPEC.at("policy"):
        return error
    mismatch = namespace_mismatch(allowed.allowed_namespaces, "", namespace)
    return error if mismatch is None else replace(error, hint=f"{_remedy(mismatch)}, or {error.fix}")


def policies_in(documents: Iterable[Document], report: Report) -> list[FiledObject[JobSetPolicy]]:
    """The valid policies among documents, in their order. Reports the faults of all policies."""
    valid: dict[str, FiledObject[JobSetPolicy]] = {}
    for document in documents:
        report.add([locate(document, fault.error, fault.span) for fault in document.faults])
        if document.broken or not isinstance(document.value, dict):
            continue
        report.policies += 1
        faults, policy = policy_faults(document.value)
        if policy is not None and policy.metadata.name in valid:
            file, line = valid[policy.metadata.name].line(path := Path(("metadata", "name")))
            faults = [POLICY_TWICE.at(path, policy.metadata.name, place=f"the policy in line {line} of {file}")]
        elif policy is not None:
            valid[policy.metadata.name] = FiledObject(document, policy)
        report.add([locate(document, error) for error in faults])
    return list(valid.values())


def warn_of_conflicts(filed: Sequence[FiledObject[JobSetPolicy]], report: Report, gates: FeatureGates) -> None:
    """Report warnings about each policy, and each contradiction between policies once."""
    for position, (document, policy) in enumerate(filed):
        later_policies = [item.value for item in filed[position + 1 :]]
        warnings = [*_namespace_warning(document), *cautions(policy), *conflicts(policy, later_policies, gates)]
        report.add([locate(document, error) for error in warnings])


def _namespace_warning(document: Document) -> Iterator[FieldError]:
    """A warning if the manifest of a policy has a namespace."""
    path = Path(("metadata", "namespace"))
    if isinstance(namespace := dig(document.value, *path.parts), str) and namespace:
        yield POLICY_NAMESPACE.at(path, namespace, namespace=namespace)


def explanation(policies: Policies, judged: JudgedJobSet, jobset: str) -> list[dict[str, Any]]:
    """The decisions of each policy and each of its rules, with the compared numbers, as JSON. Members may be added."""
    namespace = policies.namespace(judged.js.metadata.namespace)
    excused = policies.excused_rules(judged)
    defaults = recorded_defaults({"metadata": {"annotations": judged.js.metadata.annotations}})
    violated_paths: dict[tuple[str, str], list[str]] = {}
    for violation in policies.violations(judged):
        texts = violated_paths.setdefault((violation.policy.metadata.name, violation.rule), [])
        texts.append(str(violation.error.path))
    result: list[dict[str, Any]] = []
    for policy in policies.policies:
        name, actions = policy.metadata.name, list(policy.spec.validation_actions)
        head = {"jobset": jobset, "policy": name, "actions": actions}
        if mismatch := policy_mismatch(policy, judged.js.metadata.labels, namespace):
            result.append({**head, "matches": False, "why": str(mismatch), "rules": []})
            continue
        rule_numbers = numbers_by_rule(policy, judged, namespace)
        rules = [
            {
                "rule": rule.name,
                "exception": excused.get((name, rule.name)),
                "violatedAt": violated_paths.get((name, rule.name), []),
                "numbers": [_number(number) for number in rule_numbers.get(rule.name, ())],
            }
            for rule, _ in rules_in_force(policy)
        ]
        result.append({**head, "matches": True, "defaults": list(defaults.get(name, ())), "rules": rules})
    return result


def _number(number: Number) -> dict[str, Any]:
    limit = number.limit
    return {
        "what": number.name,
        "amount": number.amount_text,
        "limit": limit.text if limit.amount is not None or limit.is_unreadable else None,
        "source": limit.source or "the policy",
        "path": str(number.find_path()),
        "parts": number.parts(),
    }


def explanation_lines(decisions: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The result of `explanation` as lines of text."""
    for policy in decisions:
        yield f"{policy['jobset']}: policy {policy['policy']} ({', '.join(policy['actions'])})"
        if not policy["matches"]:
            yield f"  is not about this JobSet: {policy['why']}"
        if policy.get("defaults"):
            yield f"  defaults: {', '.join(policy['defaults'])}"
        for rule in policy["rules"]:
            paths = rule["violatedAt"]
            excepted = f"does not count by exception {rule['exception']}" if rule["exception"] else "met"
            yield f"  {rule['rule']}: " + (f"violated at {', '.join(paths)}" if paths else excepted)
            for number in rule["numbers"]:
                limit = "no limit" if number["limit"] is None else f"limit {number['limit']} by {number['source']}"
                yield f"    {number['amount']} {number['what']}, {limit}"
                yield from (f"      {part}" for part in number["parts"])
