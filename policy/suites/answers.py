"""Compares the API server's answer about the JobSet of a test with the verdict that was computed here. Pure.

The manager's webhook records every violation by policy and rule in audit annotations (`Answer.annotations`), because
the policies of a suite are stored with the action Audit added, which changes no verdict.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from kube.model.field import MAX_SHOWN_ERRORS, FieldError, Path, shorten
from kube.model.jsontree import dig
from kube.model.meta import JSON
from policy.recorded import recorded_defaults
from policy.suites.judge import AUDIT, MAX_QUOTED, Finding, Verdict, action_of
from policy.suites.types import VALIDATING, failure
from policy.types import AUDIT_KEY, DENY, MAX_AUDITED_TEXT, WARN, JobSetPolicy

OUR_ANNOTATION = f"vjobset.kb.io/{AUDIT_KEY}"
SERVER_ANNOTATION = "validation.policy.admission.k8s.io/validation_failure"
"""The annotation in which the API server records failures of its own policies."""

_DENIED = re.compile(r"ValidatingAdmissionPolicy '([^']+)' with binding '[^']+' denied request: (.*)", re.DOTALL)
_WARNED = re.compile(r"Validation failed for ValidatingAdmissionPolicy '([^']+)' with binding '[^']+': (.*)", re.DOTALL)

DIFFERENCE = failure(
    "differs",
    "the API server does not judge as this command does without it: {what}",
    "please report it, unless another admission policy of the suite explains it: write serverOnly then",
)
OTHER_REFUSAL = failure("refused", "the API server refuses the JobSet, whatever the policies say", "correct it: {text}")


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of the API server about a JobSet.

    `object`: the JobSet that would be stored; None if refused. `causes`: paths and texts of the causes of a refusal.
    """

    object: JSON | None = None
    message: str = ""
    causes: Sequence[tuple[str, str]] = ()
    warnings: Sequence[str] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Interpretation:
    """The parts of an answer of the API server.

    - `verdict`: the verdict of policies.
    - `unrecorded`: the number of violations that are not in the audit annotation, whose length is limited.
    - `other_causes`: why the JobSet is refused, or could not be judged, for reasons beside policies.
    """

    verdict: Verdict
    unrecorded: int = 0
    other_causes: Sequence[str] = ()


def interpret(answer: Answer, policies: Sequence[JobSetPolicy], *, update: bool) -> Interpretation:
    """The verdict of policies in an answer of the API server."""
    actions = {policy.metadata.name: action_of(policy) for policy in policies}
    record = _annotation_value(answer.annotations.get(OUR_ANNOTATION, ""), dict)
    unrecorded = int(record.get("more") or 0)
    entries = [entry for entry in record.get("violations") or () if isinstance(entry, dict)]
    findings = [
        _finding(actions.get(entry["policy"], AUDIT), entry["policy"], entry["rule"], entry["path"], entry["message"])
        for entry in entries
        if "message" in entry
    ]
    failed = [f"{entry['rule']} of policy {entry['policy']}: {entry['error']}" for entry in entries if "error" in entry]
    denied = _DENIED.search(answer.message) if answer.object is None else None
    findings += _api_server_findings(answer, denied)
    other_causes = failed
    if answer.object is None and denied is None:
        other_causes = [*failed, *_other_causes(answer, findings, list(actions) if unrecorded else [])]
    defaults = None if update or answer.object is None else recorded_defaults(answer.object)
    return Interpretation(Verdict(findings, defaults), unrecorded, other_causes)


def _finding(action: str, policy: str, rule: str, path: str, complaint: str) -> Finding:
    return Finding(action, policy, rule, path, complaint, f"{path}: {complaint}" if path else complaint)


def _annotation_value(text: str, kind: type) -> Any:
    """The value of an annotation with JSON, or an empty value if its type is not `kind`."""
    value = json.loads(text) if text else None
    return value if isinstance(value, kind) else kind()


def _api_server_findings(answer: Answer, denied: re.Match[str] | None) -> Iterator[Finding]:
    """Findings of ValidatingAdmissionPolicies. `denied`: the match of `_DENIED` in the message of a refusal."""
    if denied:
        yield _finding(DENY, denied[1], VALIDATING, "", denied[2])
    for text in answer.warnings:
        if warned := _WARNED.fullmatch(text):
            yield _finding(WARN, warned[1], VALIDATING, "", warned[2])
    for entry in _annotation_value(answer.annotations.get(SERVER_ANNOTATION, ""), list):
        if AUDIT in (entry.get("validationActions") or ()):
            yield _finding(AUDIT, entry.get("policy", ""), VALIDATING, "", entry.get("message", ""))


def _other_causes(answer: Answer, findings: Sequence[Finding], unrecorded: Sequence[str]) -> list[str]:
    """The causes of a refusal that are not violations of policies.

    `unrecorded`: names of policies that may have violations that are not in the audit annotation.
    """
    violations = Counter((finding.path, finding.complaint) for finding in findings if finding.action == DENY)
    other_causes = []
    for path, text in answer.causes:
        violation = next(
            (key for key in violations if key[0] == path and _begins(text, key[1]) and violations[key]), None
        )
        if violation is None and any(f"policy {name}" in text for name in unrecorded):
            continue
        if violation is None:
            other_causes.append(f"{path}: {text}" if path else text)
        else:
            violations[violation] -= 1
    return other_causes if answer.causes else [answer.message]


def _begins(text: str, complaint: str) -> bool:
    """Whether a text begins with a complaint, which the audit log may have cut."""
    is_cut = len(complaint) == MAX_AUDITED_TEXT and complaint.endswith("...")
    return text.startswith(complaint[:-3] if is_cut else complaint)


def differences(own: Verdict, answer: Answer, server: Interpretation, path: Path, name: str) -> Iterator[FieldError]:
    """Findings about differences between the verdict `own` and the API server's answer. `name`: that of the test."""
    for text in islice(_differences(own, answer, server), MAX_QUOTED):
        yield DIFFERENCE.at(path, name, what=text)


def _differences(own: Verdict, answer: Answer, server: Interpretation) -> Iterator[str]:
    own_keys = Counter(map(_finding_key, own.findings))
    server_keys = Counter(map(_finding_key, server.verdict.findings))
    for key in (server_keys - own_keys).elements():
        yield f"only the API server says: {_describe(key)}"
    missing = list((own_keys - server_keys).elements())
    if len(missing) != server.unrecorded:
        yield from (f"only this command says: {_describe(key)}" for key in missing)
    is_denied = any(finding.action == DENY for finding in server.verdict.findings)
    if is_denied and answer.object is not None:
        yield "a rule that denies is broken, and the JobSet is admitted"
    yield from _not_in_refusal(own, answer)
    defaults = server.verdict.defaults
    if defaults is not None and own.defaults != defaults:
        yield f"the JobSet gets the defaults {defaults or 'none'} there, and {own.defaults or 'none'} here"


def _finding_key(finding: Finding) -> tuple[str, str, str, str, str]:
    return finding.action, finding.policy, finding.rule, finding.path, shorten(finding.complaint, MAX_AUDITED_TEXT)


def _describe(key: tuple[str, str, str, str, str]) -> str:
    action, policy, rule, path, complaint = key
    return f"{action} by {rule} of {policy}" + (f" at {path}" if path else "") + f": {complaint}"


def _not_in_refusal(own: Verdict, answer: Answer) -> Iterator[str]:
    """Differences about violations that a refusal does not name; none if the refusal has left out errors."""
    if answer.object is not None or not answer.causes or len(answer.causes) > MAX_SHOWN_ERRORS:
        return
    answered_texts = {f"{path}: {text}" for path, text in answer.causes}
    for finding in own.findings:
        if finding.action == DENY and finding.text not in answered_texts:
            yield f"the refusal does not say: {finding.text}"


def other_refusals(interpretation: Interpretation, path: Path, name: str) -> Iterator[FieldError]:
    """The finding that the JobSet of a test is refused for reasons beside policies. `name`: the name of the JobSet."""
    if interpretation.other_causes:
        yield OTHER_REFUSAL.at(path, name, text="; ".join(interpretation.other_causes[:MAX_QUOTED]))


def answer_of_response(code: int, body: Any, warnings: Sequence[str], annotations: Mapping[str, str]) -> Answer:
    """The answer in a response of the API server."""
    if code < 300:
        return Answer(body, "", (), warnings, annotations)
    stated = dig(body, "details", "causes") or ()
    causes = [(dig(cause, "field") or "", dig(cause, "message") or "") for cause in stated]
    message = dig(body, "message")
    return Answer(None, message if isinstance(message, str) else f"code {code}", causes, warnings, annotations)
