"""Records of suites, which say which JobSets, in which namespace, break which rules of policies. Pure.

A suite is a file for `jobset policy test`, not an object of a cluster. Its schema comes from these records, so a
mistake in a suite is explained like a mistake in a manifest.
"""

from dataclasses import dataclass, field
from typing import Annotated, Final

from kube.model.field import ErrorType, FieldError, Path, Rule
from kube.model.meta import JSON, Base, doc
from policy.exception_types import RULE_NAMES, TIME_EXAMPLE, TIME_PATTERN, JobSetPolicyException
from policy.judged import Namespace
from policy.namespaces import namespace_of
from policy.sentences import source
from policy.types import JobSetPolicy

VALIDATING: Final = "ValidatingAdmissionPolicy"
MUTATING: Final = "MutatingAdmissionPolicy"
ADMISSION_KINDS: Final = (VALIDATING, f"{VALIDATING}Binding", MUTATING, f"{MUTATING}Binding")
MAX_TESTS: Final = 1000
_TEXTS = {"type": "string"}

NO_JOBSET = Rule(
    "policy-suite-jobset",
    ErrorType.NOT_FOUND,
    "no JobSet of this name is in the suite or in its manifests",
    "add one: the names there are {names}",
    source("suites"),
)


class SuiteNamespace(Base, frozen=True, kw_only=True):
    """The namespace that a JobSet of a test is in."""

    name: Annotated[str, doc("Its name.")] = "default"
    labels: Annotated[dict[str, str], doc("Its labels.", additionalProperties=_TEXTS)] = {}
    annotations: Annotated[dict[str, str], doc("Its annotations.", additionalProperties=_TEXTS)] = {}

    @property
    def as_namespace(self) -> Namespace:
        """The namespace in the form that policies read."""
        return namespace_of(self.name, self.labels, self.annotations)


class Expectation(Base, frozen=True, kw_only=True):
    """What a rule is expected to decide."""

    rule: Annotated[
        str,
        doc(
            "Name of the rule, such as maxTotals; or ValidatingAdmissionPolicy, with --server.",
            enum=[*RULE_NAMES, VALIDATING],
        ),
    ]
    action: Annotated[
        str, doc("Deny, Warn, Audit, or Pass for a rule that is met.", enum=["Deny", "Warn", "Audit", "Pass"])
    ]
    policy: Annotated[str, doc("Name of the policy. Absent: any.")] = ""
    path: Annotated[str, doc("Place that the finding is about. Absent: any.")] = ""
    message: Annotated[str, doc("Text that the finding contains. Absent: any.")] = ""


class SuiteTest(Base, frozen=True, kw_only=True):
    """One JobSet, and what its author is told."""

    name: Annotated[str, doc("What the test shows.", minLength=1)]
    jobset: Annotated[str, doc("Name of the JobSet, in the suite's file or in its manifests.")]
    old_jobset: Annotated[str, doc("Name of the JobSet before an update. Absent: it is created.")] = ""
    namespace: Annotated[SuiteNamespace, doc("Its namespace. Absent: default, without labels.")] = SuiteNamespace()
    time: Annotated[
        str,
        doc(
            "When the test is, such as 2030-01-31T12:00:00Z. Absent: before any exception ends.",
            pattern=f"{TIME_PATTERN}|^$",
            example=TIME_EXAMPLE,
        ),
    ] = ""
    defaults: Annotated[
        tuple[str, ...] | None,
        doc("Names of all defaults that a new JobSet gets, such as labels[team]. Absent: any.", maxItems=MAX_TESTS),
    ] = None
    server_only: Annotated[
        bool, doc("Whether only an API server can judge it, since policies of its own are part of the test.")
    ] = False
    expect: Annotated[
        tuple[Expectation, ...], doc("All that is found. Empty: nothing is found.", maxItems=MAX_TESTS)
    ] = ()


class Suite(Base, frozen=True, kw_only=True):
    """Tests of policies. Policies and JobSets stand in the same file, or in those that it names."""

    policies: Annotated[
        tuple[str, ...], doc("Files or directories with policies and exceptions, relative to this file.")
    ] = ()
    manifests: Annotated[tuple[str, ...], doc("Files or directories with JobSets, relative to this file.")] = ()
    tests: Annotated[tuple[SuiteTest, ...], doc("The tests.", maxItems=MAX_TESTS)]


@dataclass(slots=True, kw_only=True)
class SuiteContents:
    """A suite with the objects of the files that it names: policies, exceptions, and JobSets by name.

    `manifests`: the manifests of the policies by name. `admission`: admission policies of the API server.
    """

    suite: Suite
    policies: list[JobSetPolicy] = field(default_factory=list)
    exceptions: list[JobSetPolicyException] = field(default_factory=list)
    jobsets: dict[str, JSON] = field(default_factory=dict)
    manifests: dict[str, JSON] = field(default_factory=dict)
    admission: list[JSON] = field(default_factory=list)


def missing_jobset_finding(path: Path, name: str, jobsets: dict[str, JSON]) -> FieldError:
    """The finding that a test names an unknown JobSet."""
    return NO_JOBSET.at(path, name, names=", ".join(sorted(jobsets)) or "none")


def failure(name: str, message: str, fix: str) -> Rule:
    """The message about a test that fails; its id ends with `name`."""
    return Rule(f"policy-test-{name}", ErrorType.INVALID, message, fix, source("suites"))
