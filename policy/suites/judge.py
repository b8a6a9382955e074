"""Runs one test of a suite: compares the verdict of policies about a JobSet with the expectations. Pure."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from api.keys import NAMESPACE_NAME
from kube.model.field import FieldError, Path
from kube.model.jsontree import dig
from kube.model.meta import JSON
from policy.evaluate import Violation, rules_in_force, violations
from policy.exceptions import EARLIEST, Excused, excused_rules, namespace_exceptions, time_of
from policy.judged import JudgedJobSet, Namespace
from policy.mismatch import Mismatch, policy_mismatch
from policy.recorded import Record, recorded_defaults
from policy.suites.types import VALIDATING, Expectation, SuiteContents, SuiteTest, failure, missing_jobset_finding
from policy.types import DENY, WARN, JobSetPolicy

PASS = "Pass"  # noqa: S105 - a verdict
AUDIT = "Audit"
MAX_QUOTED = 5
"""At most this many findings or faults are quoted in a message."""

NOT_FOUND = failure("missing", "{rule} was expected to {action}", "found was: {found}")
NOT_CHECKED = failure("unchecked", "{rule} was expected to pass, but was not checked: {why}", "{remedy}")
OTHER_MESSAGE = failure(
    "message",
    "{action} by {rule} was found as expected, but its message does not contain this text",
    "it says: {found}",
)
OTHER_PATH = failure(
    "path", "{action} by {rule} was found as expected, but not at this path", "it was found at: {found}"
)
UNEXPECTED = failure("unexpected", "{action} by {rule} was not expected", "it says: {text}")
OTHER_DEFAULTS = failure("defaults", "the JobSet gets other defaults", "those set are: {found}")
INVALID_JOBSET = failure("jobset", "the JobSet has faults of its own", "correct it: {text}")
NEEDS_GATE = failure(
    "gate",
    "the JobSet needs feature gates that are off in this run",
    "run `jobset policy test {flag}` if the manager has them on; for {fields}",
)


class AdmittedJobSet(NamedTuple):
    """A JobSet after admission: the object with defaults, its form for rules (None if unreadable), and its faults."""

    object: JSON
    jobset: JudgedJobSet | None
    errors: Sequence[FieldError]


Admit = Callable[[JSON, Sequence[JobSetPolicy], Namespace], AdmittedJobSet]
"""Function that admits a JobSet from a manifest, with the defaults that policies set in a namespace."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding about a JobSet. `text`: the message with path and fix. `complaint`: the message without them."""

    action: str
    policy: str
    rule: str
    path: str
    complaint: str
    text: str

    def __str__(self) -> str:
        return f"{self.action} {self.text}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of policies about a JobSet.

    - `findings`: the violations.
    - `defaults`: the defaults that a new JobSet gets; None for an update.
    - `mismatches`: the policies, each with the reason why it does not match the JobSet, or None if it matches. The
      field is None in a verdict of an API server.
    - `excused_rules`: the rules that exceptions allow the JobSet to break.
    """

    findings: Sequence[Finding] = ()
    defaults: Record | None = None
    mismatches: Sequence[tuple[JobSetPolicy, Mismatch | None]] | None = None
    excused_rules: Excused = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a test. A test without failures has passed.

    - `verdict`: None if the JobSet could not be judged.
    - `is_skipped`: whether only an API server can judge the JobSet.
    - `is_different`: whether the verdict of an API server was different.
    - `note`: says that nothing was checked, and why; else empty.
    """

    name: str
    failures: tuple[FieldError, ...] = ()
    verdict: Verdict | None = None
    is_skipped: bool = False
    is_different: bool = False
    note: str = ""

    @property
    def is_askable(self) -> bool:
        """Whether an API server can judge the JobSet."""
        return self.is_skipped or self.verdict is not None

    @property
    def state(self) -> str:
        """The state as one word, for a table."""
        if self.is_different:
            return "DIFF"
        return "FAIL" if self.failures else "skip" if self.is_skipped else "ok"


def action_of(policy: JobSetPolicy) -> str:
    """The strongest action of the policy: Deny, Warn or Audit."""
    return DENY if policy.spec.denies else WARN if policy.spec.warns else AUDIT


def judge(contents: SuiteContents, index: int, admit: Admit) -> Result:
    """Run one test. `index`: its index in the suite."""
    test, path = contents.suite.tests[index], Path(("tests", index))
    objects: dict[str, JSON] = {}
    for member, name in (("jobset", test.jobset), ("oldJobset", test.old_jobset)):
        if not name:
            continue
        if name not in contents.jobsets:
            return Result(test.name, (missing_jobset_finding(path.at(member), name, contents.jobsets),))
        objects[member] = contents.jobsets[name]
    if test.server_only:
        return Result(test.name, is_skipped=True)
    verdict, faults = _verdict(contents, test, path, objects, admit)
    failures = faults if verdict is None else list(compare(verdict, test, path))
    return Result(test.name, tuple(failures), verdict, note="" if verdict is None or failures else _note(verdict))


def _verdict(
    contents: SuiteContents, test: SuiteTest, path: Path, objects: dict[str, JSON], admit: Admit
) -> tuple[Verdict | None, list[FieldError]]:
    """The verdict, or None and the reasons why there is no verdict. `objects`: by field of the test."""
    judged: dict[str, JudgedJobSet] = {}
    defaults: Record | None = None
    namespace = test.namespace.as_namespace
    for member, obj in objects.items():
        is_new = member == "jobset" and "oldJobset" not in objects
        admitted = admit(obj, contents.policies if is_new else (), namespace)
        if admitted.errors or admitted.jobset is None:
            return None, list(_admission_faults(admitted.errors, path.at(member), dig(obj, "metadata", "name")))
        judged[member] = admitted.jobset
        if is_new:
            defaults = recorded_defaults(admitted.object)
    exceptions = namespace_exceptions(contents.exceptions, test.namespace.name)
    excused = excused_rules(exceptions, contents.policies, judged["jobset"], namespace, time_of(test.time) or EARLIEST)
    unexcused = violations(
        contents.policies,
        judged["jobset"],
        namespace,
        judged.get("oldJobset"),
        is_excepted=lambda policy, rule: (policy.metadata.name, rule) in excused,
    )
    labels = judged["jobset"].js.metadata.labels
    mismatches = [(policy, policy_mismatch(policy, labels, namespace)) for policy in contents.policies]
    return Verdict([_finding(violation) for violation in unexcused], defaults, mismatches, excused), []


def _note(verdict: Verdict) -> str:
    """A note that no policy matches the JobSet, and why; empty if a policy matches."""
    mismatches = verdict.mismatches or ()
    if any(mismatch is None for _, mismatch in mismatches):
        return ""
    return f"no policy matches: {_join_mismatches(mismatches)}" if mismatches else "the suite has no policy"


def _join_mismatches(mismatches: Iterable[tuple[JobSetPolicy, Mismatch | None]]) -> str:
    return _join_first(f"policy {policy.metadata.name}: {mismatch}" for policy, mismatch in mismatches)


def _admission_faults(errors: Sequence[FieldError], path: Path, name: Any) -> Iterator[FieldError]:
    """Findings about why a JobSet is not judged: feature gates that are off, and faults of the JobSet."""
    gated = [error for error in errors if error.gates]
    if gated:
        names = dict.fromkeys(name for error in gated for name in error.gates.split(","))
        fields = _join_first(str(error.path) for error in gated)
        yield NEEDS_GATE.at(path, name, flag=f"--feature-gates={','.join(names)}", fields=fields)
    other_faults = [str(error) for error in errors if not error.gates]
    if other_faults or not gated:
        yield INVALID_JOBSET.at(path, name, text=_join_first(other_faults))


def _finding(violation: Violation) -> Finding:
    error, name = violation.error, violation.policy.metadata.name
    return Finding(action_of(violation.policy), name, violation.rule, str(error.path), error.complaint, str(error))


def compare(verdict: Verdict, test: SuiteTest, path: Path) -> Iterator[FieldError]:
    """Findings about differences between the verdict and the expectations of a test."""
    if test.defaults is not None:
        names = sorted(name for names in (verdict.defaults or {}).values() for name in names)
        if sorted(test.defaults) != names:
            name_list = ", ".join(names) or "none"
            yield OTHER_DEFAULTS.at(path.at("defaults"), list(test.defaults), found=name_list)
    findings = verdict.findings
    indexes_by_expectation = [
        {i for i, finding in enumerate(findings) if _meets(expectation, finding)} for expectation in test.expect
    ]
    met_indexes = set().union(*indexes_by_expectation)
    expected_indexes = set(met_indexes)
    for i, (expectation, indexes) in enumerate(zip(test.expect, indexes_by_expectation, strict=True)):
        expectation_path = path.at("expect", i)
        reason, remedy = _why_unchecked(verdict, expectation)
        is_met = not indexes if expectation.action == PASS else bool(indexes)
        if is_met:
            if reason and expectation.action == PASS:
                yield NOT_CHECKED.at(
                    expectation_path, expectation.rule, rule=expectation.rule, why=reason, remedy=remedy
                )
            continue
        other_findings = {k: finding for k, finding in enumerate(findings) if k not in met_indexes}
        if near_miss := _near_miss(expectation, other_findings, expectation_path):
            error, similar = near_miss
            yield error
            expected_indexes |= similar
            continue
        reason = f"{reason}; {remedy}" if reason else _exception_note(verdict, expectation, test)
        actual = _join_first(str(finding) for finding in findings if finding.rule == expectation.rule) or (
            f"nothing by this rule: {reason}" if reason else "nothing by this rule"
        )
        yield NOT_FOUND.at(
            expectation_path, expectation.rule, rule=expectation.rule, action=expectation.action.lower(), found=actual
        )
    for i, finding in enumerate(findings):
        if i not in expected_indexes:
            words = {"rule": finding.rule, "action": finding.action, "text": finding.text}
            yield UNEXPECTED.at(path.at("expect"), finding.rule, **words)


def _near_miss(
    expectation: Expectation, findings: Mapping[int, Finding], path: Path
) -> tuple[FieldError, set[int]] | None:
    """The failure that findings meet all of an expectation except its message or path, and the keys of the findings."""
    if expectation.action == PASS:
        return None
    for rule, member in ((OTHER_MESSAGE, "message"), (OTHER_PATH, "path")):
        relaxed = msgspec.structs.replace(expectation, **{member: ""})
        if similar := {i for i, finding in findings.items() if _meets(relaxed, finding)}:
            actual = _join_first(findings[i].path if rule is OTHER_PATH else findings[i].text for i in sorted(similar))
            words = {"rule": expectation.rule, "action": expectation.action, "found": actual}
            return rule.at(path.at(member), getattr(expectation, member), **words), similar
    return None


def _exception_note(verdict: Verdict, expectation: Expectation, test: SuiteTest) -> str:
    """A note about the exception that lets the JobSet break the rule, and how to test a later time; else empty."""
    by_policy = {policy: name for (policy, rule), name in verdict.excused_rules.items() if rule == expectation.rule}
    exception = by_policy.get(expectation.policy, "") if expectation.policy else next(iter(by_policy.values()), "")
    if not exception:
        return ""
    time = "" if test.time else "; without `time` no exception has ended: write a time after its end"
    return f"exception {exception} excepts the JobSet from it{time}"


def _why_unchecked(verdict: Verdict, expectation: Expectation) -> tuple[str, str]:
    """Why the rule was not checked, and the fix; empty texts if it was checked, or if this is not known."""
    if verdict.mismatches is None:
        return "", ""
    if expectation.rule == VALIDATING:
        return "only an API server checks it", "write `serverOnly: true` into the test"
    policies_with_rule = [
        (policy, mismatch)
        for policy, mismatch in verdict.mismatches
        if expectation.policy in {"", policy.metadata.name}
        and expectation.rule in {rule.name for rule, _ in rules_in_force(policy)}
    ]
    if not policies_with_rule:
        policy_text = f"policy {expectation.policy}" if expectation.policy else "policy"
        return (
            f"the suite has no {policy_text} with this rule",
            "add it to the files in `policies`, or correct the name",
        )
    mismatches = [mismatch for _, mismatch in policies_with_rule if mismatch]
    if len(mismatches) < len(policies_with_rule):
        return "", ""
    return _join_mismatches(policies_with_rule), f"{_remedy(mismatches[0])}, or correct the selectors"


def _remedy(mismatch: Mismatch) -> str:
    """How to change a test so that the policy matches its JobSet."""
    requirement = mismatch.requirement
    if mismatch.selector == "objectSelector":
        return "change the labels of the JobSet"
    if requirement.operator not in {"In", "Exists"}:
        return "change the labels under `namespace` of the test"
    value = requirement.values[0] if requirement.values else "VALUE"
    if requirement.key == NAMESPACE_NAME:
        return f"write `name: {value}` under `namespace` of the test"
    return f"write `labels: {{{requirement.key}: {json.dumps(value)}}}` under `namespace` of the test"


def _join_first(texts: Iterable[str]) -> str:
    return "; ".join(islice(texts, MAX_QUOTED))


def _meets(expectation: Expectation, finding: Finding) -> bool:
    """Whether a finding meets an expectation; for `Pass`, whether the finding must not occur."""
    return (
        finding.rule == expectation.rule
        and expectation.action in {PASS, finding.action}
        and expectation.policy in {"", finding.policy}
        and expectation.path in {"", finding.path}
        and expectation.message in finding.text
    )
