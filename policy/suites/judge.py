"""One test of a suite: the verdict of the policies about its JobSet, and the expected one. Pure."""

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
from policy.namespaces import namespace_of
from policy.recorded import Record, recorded_defaults
from policy.suites.types import VALIDATING, Expectation, SuiteContents, SuiteTest, failure, missing_jobset
from policy.types import DENY, WARN, JobSetPolicy

PASS = "Pass"  # noqa: S105 - a verdict
AUDIT = "Audit"
MAX_QUOTED = 5

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
    """A JobSet after admission: with defaults, as rules read it (None if it cannot be read), and its faults."""

    object: JSON
    jobset: JudgedJobSet | None
    errors: Sequence[FieldError]


Admit = Callable[[JSON, Sequence[JobSetPolicy], Namespace], AdmittedJobSet]
"""Admits a JobSet, as it is written, with the defaults that these policies set in that namespace."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding about a JobSet. `text`: the whole message, path included; `complaint`: without path and fix."""

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
    """The verdict of policies about a JobSet. `defaults`: those that it gets; None for a stored one.

    `excused_rules`: those that exceptions allow it to break. `asked`: the policies, each with the reason why it does
    not match the JobSet, or None; None: unknown which were asked.
    """

    found: Sequence[Finding] = ()
    defaults: Record | None = None
    asked: Sequence[tuple[JobSetPolicy, Mismatch | None]] | None = None
    excused_rules: Excused = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """A test that was run; without failures it has passed.

    `verdict`: None if it could not be judged. `skipped`: only an API server can judge it. `differs`: an API server's
    verdict was different. `note`: that nothing was checked, and why.
    """

    name: str
    failures: tuple[FieldError, ...] = ()
    verdict: Verdict | None = None
    skipped: bool = False
    differs: bool = False
    note: str = ""

    @property
    def is_askable(self) -> bool:
        """Whether an API server can be asked about the JobSet."""
        return self.skipped or self.verdict is not None

    @property
    def state(self) -> str:
        """The state in a word, for the table."""
        if self.differs:
            return "DIFF"
        return "FAIL" if self.failures else "skip" if self.skipped else "ok"


def action_of(policy: JobSetPolicy) -> str:
    """The action that a violation of the policy leads to."""
    return DENY if policy.spec.denies else WARN if policy.spec.warns else AUDIT


def judge(contents: SuiteContents, number: int, admit: Admit) -> Result:
    """Run the test of that number."""
    test, path = contents.suite.tests[number], Path(("tests", number))
    objects: dict[str, JSON] = {}
    for member, name in (("jobset", test.jobset), ("oldJobset", test.old_jobset)):
        if not name:
            continue
        if name not in contents.jobsets:
            return Result(test.name, (missing_jobset(path.at(member), name, contents.jobsets),))
        objects[member] = contents.jobsets[name]
    if test.server_only:
        return Result(test.name, skipped=True)
    verdict, faults = _verdict(contents, test, path, objects, admit)
    failures = faults if verdict is None else list(compare(verdict, test, path))
    return Result(test.name, tuple(failures), verdict, note="" if verdict is None or failures else _note(verdict))


def _verdict(
    contents: SuiteContents, test: SuiteTest, path: Path, objects: dict[str, JSON], admit: Admit
) -> tuple[Verdict | None, list[FieldError]]:
    """The verdict; or None, and why there is none."""
    judged: dict[str, JudgedJobSet] = {}
    got: Record | None = None
    location = namespace_of(test.namespace.name, test.namespace.labels, test.namespace.annotations)
    for member, obj in objects.items():
        is_new = member == "jobset" and "oldJobset" not in objects
        admitted = admit(obj, contents.policies if is_new else (), location)
        if admitted.errors or admitted.jobset is None:
            return None, list(_faults(admitted.errors, path.at(member), dig(obj, "metadata", "name")))
        judged[member] = admitted.jobset
        if is_new:
            got = recorded_defaults(admitted.object)
    own = namespace_exceptions(contents.exceptions, test.namespace.name)
    without = excused_rules(own, contents.policies, judged["jobset"], location, time_of(test.time) or EARLIEST)
    found = violations(
        contents.policies,
        judged["jobset"],
        location,
        judged.get("oldJobset"),
        excepted=lambda policy, rule: (policy.metadata.name, rule) in without,
    )
    labels = judged["jobset"].js.metadata.labels
    mismatches = [(policy, policy_mismatch(policy, labels, location)) for policy in contents.policies]
    return Verdict([_finding(violation) for violation in found], got, mismatches, without), []


def _note(verdict: Verdict) -> str:
    """A note that no policy matches the JobSet, and why; empty if one does."""
    mismatches = verdict.asked or ()
    if any(mismatch is None for _, mismatch in mismatches):
        return ""
    return f"no policy matches: {_mismatches(mismatches)}" if mismatches else "the suite has no policy"


def _mismatches(mismatches: Iterable[tuple[JobSetPolicy, Mismatch | None]]) -> str:
    return _join_first(f"policy {policy.metadata.name}: {mismatch}" for policy, mismatch in mismatches)


def _faults(errors: Sequence[FieldError], path: Path, name: Any) -> Iterator[FieldError]:
    """Why a JobSet is not judged: gates that it needs, and its faults."""
    gated = [error for error in errors if error.gates]
    if gated:
        names = dict.fromkeys(name for error in gated for name in error.gates.split(","))
        fields = _join_first(str(error.path) for error in gated)
        yield NEEDS_GATE.at(path, name, flag=f"--feature-gates={','.join(names)}", fields=fields)
    other_faults = [str(error) for error in errors if not error.gates]
    if other_faults or not gated:
        yield INVALID_JOBSET.at(path, name, text=_join_first(other_faults))


def _finding(violation: Violation) -> Finding:
    error, policy = violation.error, violation.policy
    return Finding(
        action_of(policy), policy.metadata.name, violation.rule, str(error.path), error.complaint, str(error)
    )


def compare(verdict: Verdict, test: SuiteTest, path: Path) -> Iterator[FieldError]:
    """The differences between the verdict and what the test expects."""
    if test.defaults is not None:
        names = sorted(name for names in (verdict.defaults or {}).values() for name in names)
        if sorted(test.defaults) != names:
            name_list = ", ".join(names) or "none"
            yield OTHER_DEFAULTS.at(path.at("defaults"), list(test.defaults), found=name_list)
    found = verdict.found
    fitting = [{i for i, each in enumerate(found) if _fits(wanted, each)} for wanted in test.expect]
    known = set().union(*fitting)
    for number, (wanted, fits) in enumerate(zip(test.expect, fitting, strict=True)):
        expectation_path = path.at("expect", number)
        reason, remedy = _why_unchecked(verdict, wanted)
        if bool(fits) != (wanted.action == PASS):
            if reason and wanted.action == PASS:
                yield NOT_CHECKED.at(expectation_path, wanted.rule, rule=wanted.rule, why=reason, remedy=remedy)
            continue
        left = {i: each for i, each in enumerate(found) if i not in set().union(*fitting)}
        if near := _near(wanted, left, expectation_path):
            error, close = near
            yield error
            known |= close
            continue
        reason = f"{reason}; {remedy}" if reason else _exception_note(verdict, wanted, test)
        actual = _join_first(str(each) for each in found if each.rule == wanted.rule) or (
            f"nothing by this rule: {reason}" if reason else "nothing by this rule"
        )
        yield NOT_FOUND.at(expectation_path, wanted.rule, rule=wanted.rule, action=wanted.action.lower(), found=actual)
    for i, each in enumerate(found):
        if i not in known:
            yield UNEXPECTED.at(path.at("expect"), each.rule, rule=each.rule, action=each.action, text=each.text)


def _near(wanted: Expectation, found: Mapping[int, Finding], path: Path) -> tuple[FieldError, set[int]] | None:
    """The note about findings that differ from the expected ones only in text or path, and these findings."""
    if wanted.action == PASS:
        return None
    for rule, member in ((OTHER_MESSAGE, "message"), (OTHER_PATH, "path")):
        without = msgspec.structs.replace(wanted, **{member: ""})
        if close := {i for i, each in found.items() if _fits(without, each)}:
            actual = _join_first(found[i].path if rule is OTHER_PATH else found[i].text for i in sorted(close))
            words = {"rule": wanted.rule, "action": wanted.action, "found": actual}
            return rule.at(path.at(member), getattr(wanted, member), **words), close
    return None


def _exception_note(verdict: Verdict, wanted: Expectation, test: SuiteTest) -> str:
    """A note about the exception that lets the JobSet break the rule, and how to test a later time; may be empty."""
    own = {name: each for (name, rule), each in verdict.excused_rules.items() if rule == wanted.rule}
    exception = own.get(wanted.policy, "") if wanted.policy else next(iter(own.values()), "")
    if not exception:
        return ""
    time = "" if test.time else "; without `time` no exception has ended: write a time after its end"
    return f"exception {exception} excepts the JobSet from it{time}"


def _why_unchecked(verdict: Verdict, wanted: Expectation) -> tuple[str, str]:
    """Why the rule was not checked, and what to do; empty texts if it was, or if unknown."""
    if verdict.asked is None:
        return "", ""
    if wanted.rule == VALIDATING:
        return "only an API server checks it", "write `serverOnly: true` into the test"
    own = [
        (policy, mismatch)
        for policy, mismatch in verdict.asked
        if wanted.policy in {"", policy.metadata.name}
        and wanted.rule in {rule.name for rule, _ in rules_in_force(policy)}
    ]
    if not own:
        policy_text = f"policy {wanted.policy}" if wanted.policy else "policy"
        return (
            f"the suite has no {policy_text} with this rule",
            "add it to the files in `policies`, or correct the name",
        )
    mismatches = [mismatch for _, mismatch in own if mismatch]
    if len(mismatches) < len(own):
        return "", ""
    return _mismatches(own), f"{_remedy(mismatches[0])}, or correct the selectors"


def _remedy(mismatch: Mismatch) -> str:
    """What to write into the test, so that the policy matches its JobSet."""
    wanted = mismatch.requirement
    if mismatch.selector == "objectSelector":
        return "change the labels of the JobSet"
    if wanted.operator not in {"In", "Exists"}:
        return "change the labels under `namespace` of the test"
    value = wanted.values[0] if wanted.values else "VALUE"
    if wanted.key == NAMESPACE_NAME:
        return f"write `name: {value}` under `namespace` of the test"
    return f"write `labels: {{{wanted.key}: {json.dumps(value)}}}` under `namespace` of the test"


def _join_first(texts: Iterable[str]) -> str:
    return "; ".join(islice(texts, MAX_QUOTED))


def _fits(wanted: Expectation, found: Finding) -> bool:
    """Whether a finding is the expected one; for `Pass`, the one that must not occur."""
    return (
        found.rule == wanted.rule
        and wanted.action in {PASS, found.action}
        and wanted.policy in {"", found.policy}
        and wanted.path in {"", found.path}
        and wanted.message in found.text
    )
