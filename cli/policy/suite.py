"""Suites of tests of policies: a file says which JobSets, in which namespace, break which rule. Records and reading.

A suite is a file for `jobset policy test`, and no object of a cluster. Its schema comes from these records, so that a
mistake in a suite is explained like one in a manifest.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path as FilePath
from typing import Annotated, Final

import msgspec
from msgspec import inspect as mi

from api.features import FeatureGates
from cli.check.documents import Document
from cli.check.findings import Report, locate
from cli.check.manifest_files import Inputs
from cli.check.object_checks import is_jobset
from cli.check.policies import exceptions_in, policies_in, warn_of_conflicts
from cli.check.policy_kinds import is_exception, is_policy, is_suite, kind_faults
from kube.model.field import ErrorType, FieldError, Path, Rule
from kube.model.jsontree import dig, without_nulls
from kube.model.meta import JSON, Base, doc
from manifests.definition import schema_of
from policy.exception_types import RULE_NAMES, TIME_EXAMPLE, TIME_PATTERN, JobSetPolicyException
from policy.sentences import source
from policy.types import API_VERSION, JobSetPolicy
from webhooks.jobset.schema.schema import Schema

VALIDATING: Final = "ValidatingAdmissionPolicy"
MUTATING: Final = "MutatingAdmissionPolicy"
ADMISSION_KINDS: Final = (VALIDATING, f"{VALIDATING}Binding", MUTATING, f"{MUTATING}Binding")
MOST_TESTS: Final = 1000
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
        doc("Names of all defaults that a new JobSet gets, such as labels[team]. Absent: any.", maxItems=MOST_TESTS),
    ] = None
    server_only: Annotated[
        bool,
        doc("Whether only an API server can judge it, since policies of its own are part of the test."),
    ] = False
    expect: Annotated[
        tuple[Expectation, ...], doc("All that is found. Empty: nothing is found.", maxItems=MOST_TESTS)
    ] = ()


class Suite(Base, frozen=True, kw_only=True):
    """Tests of policies. Policies and JobSets stand in the same file, or in those that it names."""

    policies: Annotated[
        tuple[str, ...], doc("Files or directories with policies and exceptions, relative to this file.")
    ] = ()
    manifests: Annotated[tuple[str, ...], doc("Files or directories with JobSets, relative to this file.")] = ()
    tests: Annotated[tuple[SuiteTest, ...], doc("The tests.", maxItems=MOST_TESTS)]


@dataclass(slots=True)
class Loaded:
    """A suite with what it names: the document that it stands in, policies, exceptions, and JobSets by name.

    `manifests`: the policies by name, as they are written. `admission`: policies of the API server itself.
    """

    document: Document
    suite: Suite
    policies: list[JobSetPolicy] = field(default_factory=list)
    exceptions: list[JobSetPolicyException] = field(default_factory=list)
    jobsets: dict[str, JSON] = field(default_factory=dict)
    manifests: dict[str, JSON] = field(default_factory=dict)
    admission: list[JSON] = field(default_factory=list)


@cache
def suite_schema() -> Schema:
    """The schema of a suite's document."""
    root = schema_of(mi.type_info(Suite))
    head = {"apiVersion": {"type": "string", "enum": [API_VERSION]}, "kind": {"type": "string"}}
    return Schema({**root, "properties": {**head, **root["properties"]}})


def is_admission(obj: JSON) -> bool:
    """Whether a document is a policy of the API server itself, or a binding of one."""
    return obj.get("kind") in ADMISSION_KINDS


def suites(names: Sequence[str], report: Report, gates: FeatureGates) -> Iterator[Loaded]:
    """Every suite below these files and directories that can be read; the report gets what is wrong with the others."""
    inputs = Inputs(names, recursive=True, wanted=is_suite, problems=report.problems)
    for document in inputs.documents():
        report.add([locate(document, fault.error, fault.span) for fault in document.faults])
        if document.broken or not isinstance(document.value, dict):
            continue
        value = without_nulls(document.value)
        found = [*kind_faults(value), *suite_schema().faults(value), *suite_schema().unknown(value)]
        report.add([locate(document, error) for error in found])
        if not found:
            yield _with_files(document, msgspec.convert(value, Suite, strict=False), report, gates)
    report.files = inputs.files


def _with_files(document: Document, suite: Suite, report: Report, gates: FeatureGates) -> Loaded:
    own, folder = document.source.name, FilePath(document.source.name).parent
    loaded = Loaded(document, suite)
    names = [own, *(str(folder / name) for name in suite.policies)]
    documents = list(_documents(names, is_policy, report))
    rules = policies_in(documents, report)
    warn_of_conflicts(rules, report, gates)
    loaded.policies = [each.value for each in rules]
    good = {policy.metadata.name for policy in loaded.policies}
    for found in documents:
        if (name := dig(found.value, "metadata", "name")) in good:
            loaded.manifests.setdefault(name, found.value)
    found_too = Inputs(names, recursive=True, wanted=is_admission).documents()
    loaded.admission = [each.value for each in found_too if isinstance(each.value, dict)]
    loaded.exceptions = [each.value for each in exceptions_in(_documents(names, is_exception, report), report)]
    for found in _documents([own, *(str(folder / name) for name in suite.manifests)], is_jobset, report):
        metadata = found.value.get("metadata") if isinstance(found.value, dict) else None
        if isinstance(metadata, dict) and isinstance(metadata.get("name"), str):
            loaded.jobsets[metadata["name"]] = found.value
    return loaded


def _documents(names: Sequence[str], wanted: Callable[[JSON], bool], report: Report) -> Iterator[Document]:
    return Inputs(names, recursive=True, wanted=wanted, problems=report.problems).documents()


def missing(path: Path, name: str, jobsets: dict[str, JSON]) -> FieldError:
    """The finding that a test names a JobSet that is not there."""
    return NO_JOBSET.at(path, name, names=", ".join(sorted(jobsets)) or "none")
