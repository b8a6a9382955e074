"""One test of a suite: what the policies say about its JobSet, beside what is expected. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from api.features import FeatureGates
from api.field import ErrorType, FieldError, Path, Rule
from api.jobset_policy.evaluate import Violation, violations
from api.jobset_policy.exceptions import excused, time_of
from api.jobset_policy.judged import Judged
from api.jobset_policy.rules.words import source
from api.jobset_policy.types import DENY, WARN
from api.meta import JSON
from app.check.checks import Checks
from app.check.policies import EARLIEST, in_namespace, judged_of, namespace_of, with_policy_defaults
from app.policy.suite import Expectation, Loaded, SuiteTest, missing
from webhooks.jobset.policy_defaults import Record, recorded

PASS = "Pass"  # noqa: S105 - a verdict
MOST_QUOTED = 5

_SOURCE = source("suites")
NOT_FOUND = Rule(
    "policy-test-missing", ErrorType.INVALID, "{rule} was expected to {action}", "found was: {found}", _SOURCE
)
UNEXPECTED = Rule(
    "policy-test-unexpected", ErrorType.INVALID, "{action} by {rule} was not expected", "it says: {text}", _SOURCE
)
OTHER_DEFAULTS = Rule(
    "policy-test-defaults", ErrorType.INVALID, "the JobSet gets other defaults", "those set are: {found}", _SOURCE
)
INVALID_JOBSET = Rule(
    "policy-test-jobset", ErrorType.INVALID, "the JobSet has faults of its own", "correct it: {text}", _SOURCE
)


@dataclass(frozen=True, slots=True)
class Result:
    """A test that was run; without failures it has passed."""

    name: str
    failures: tuple[FieldError, ...]


def action_of(violation: Violation) -> str:
    """What a violation leads to."""
    spec = violation.policy.spec
    return DENY if spec.denies else WARN if spec.warns else "Audit"


def judge(loaded: Loaded, number: int, gates: FeatureGates) -> Result:
    """The test of that number."""
    test, path = loaded.suite.tests[number], Path(("tests", number))
    objects: dict[str, JSON] = {}
    for member, name in (("jobset", test.jobset), ("oldJobset", test.old_jobset)):
        if not name:
            continue
        if name not in loaded.jobsets:
            return Result(test.name, (missing(path.at(member), name, loaded.jobsets),))
        objects[member] = loaded.jobsets[name]
    return Result(test.name, tuple(_failures(loaded, test, path, objects, gates)))


def _failures(
    loaded: Loaded, test: SuiteTest, path: Path, objects: dict[str, JSON], gates: FeatureGates
) -> Iterator[FieldError]:
    judged: dict[str, Judged | None] = {}
    checks = Checks(gates)
    got: Record = {}
    where = namespace_of(test.namespace.name, test.namespace.labels, test.namespace.annotations)
    for member, obj in objects.items():
        sent = checks.sent(obj)
        if member == "jobset" and "oldJobset" not in objects:
            sent = replace(sent, object=with_policy_defaults(loaded.policies, sent.object, where, gates))
            got = recorded(sent.object)
        findings = checks.create(sent, children=False)
        judged[member] = judged_of(findings.object, gates)
        if findings.errors or judged[member] is None:
            text = "; ".join(str(error) for error in findings.errors[:MOST_QUOTED])
            yield INVALID_JOBSET.at(path.at(member), text=text)
            return
    new = judged["jobset"]
    if test.defaults is not None:
        yield from _other_defaults(test.defaults, got, path.at("defaults"))
    if new is not None:
        own = in_namespace(loaded.exceptions, test.namespace.name)
        without = excused(own, loaded.policies, new, where, time_of(test.time) or EARLIEST)
        found = violations(
            loaded.policies,
            new,
            where,
            judged.get("oldJobset"),
            excepted=lambda policy, rule: (policy.metadata.name, rule) in without,
        )
        yield from compared(found, test.expect, path)


def _other_defaults(expected: Sequence[str], got: Record, path: Path) -> Iterator[FieldError]:
    names = sorted(name for names in got.values() for name in names)
    if sorted(expected) != names:
        yield OTHER_DEFAULTS.at(path, list(expected), found=", ".join(names) or "none")


def compared(found: Sequence[Violation], expected: Sequence[Expectation], path: Path) -> Iterator[FieldError]:
    """What is expected and was not found, and what was found and is not expected."""
    fitting = [{i for i, violation in enumerate(found) if _fits(wanted, violation)} for wanted in expected]
    for number, (wanted, fits) in enumerate(zip(expected, fitting, strict=True)):
        if bool(fits) == (wanted.action == PASS):
            of_rule = [_text(violation) for violation in found if violation.rule == wanted.rule]
            shown = "; ".join(of_rule[:MOST_QUOTED]) or "nothing by this rule"
            place = path.at("expect", number)
            yield NOT_FOUND.at(place, wanted.rule, rule=wanted.rule, action=wanted.action.lower(), found=shown)
    known = set().union(*fitting)
    for i, violation in enumerate(found):
        if i not in known:
            text, action = str(violation.error), action_of(violation)
            yield UNEXPECTED.at(path.at("expect"), violation.rule, rule=violation.rule, action=action, text=text)


def _fits(wanted: Expectation, violation: Violation) -> bool:
    """Whether a violation is what is meant; for `Pass`, what must not be there."""
    return (
        violation.rule == wanted.rule
        and wanted.action in {PASS, action_of(violation)}
        and wanted.policy in {"", violation.policy.metadata.name}
        and wanted.path in {"", str(violation.error.path)}
        and wanted.message in str(violation.error)
    )


def _text(violation: Violation) -> str:
    return f"{action_of(violation)} {violation.error}"
