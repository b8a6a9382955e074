"""Reads suites of tests of policies, and the files that they name."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path as FilePath

import msgspec
from msgspec import inspect as mi

from api.features import FeatureGates
from authoring.checks import Checks
from authoring.documents import Document
from authoring.findings import Report, locate
from authoring.manifest_files import Inputs
from authoring.object_checks import is_jobset
from authoring.policies import exception_documents, judged_of, policies_in, warn_of_conflicts, with_policy_defaults
from authoring.policy_kinds import is_exception, is_policy, is_suite, kind_faults
from kube.model.jsontree import dig, without_nulls
from kube.model.meta import JSON
from manifests.definition import schema_of
from policy.judged import Namespace
from policy.kinds import API_VERSION
from policy.suites.judge import Admit, AdmittedJobSet
from policy.suites.types import ADMISSION_KINDS, Suite, SuiteContents
from policy.types import JobSetPolicy
from webhooks.jobset.schema.schema import Schema


@dataclass(slots=True, kw_only=True)
class LoadedSuite(SuiteContents):
    """A suite, the objects that it names, and the document that contains it."""

    document: Document


@cache
def suite_schema() -> Schema:
    """The schema of a suite's document."""
    root = schema_of(mi.type_info(Suite))
    head = {"apiVersion": {"type": "string", "enum": [API_VERSION]}, "kind": {"type": "string"}}
    return Schema({**root, "properties": {**head, **root["properties"]}})


def is_admission(obj: JSON) -> bool:
    """Whether a document is a policy of the API server itself, or a binding of one."""
    return obj.get("kind") in ADMISSION_KINDS


def suites(names: Sequence[str], report: Report, gates: FeatureGates) -> Iterator[LoadedSuite]:
    """Every suite below these files and directories that can be read; the faults of the others are reported."""
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


def _with_files(document: Document, suite: Suite, report: Report, gates: FeatureGates) -> LoadedSuite:
    own, folder = document.source.name, FilePath(document.source.name).parent
    loaded = LoadedSuite(document=document, suite=suite)
    names = [own, *(str(folder / name) for name in suite.policies)]
    documents = list(_documents(names, is_policy, report))
    filed_policies = policies_in(documents, report)
    warn_of_conflicts(filed_policies, report, gates)
    loaded.policies = [each.value for each in filed_policies]
    good = {policy.metadata.name for policy in loaded.policies}
    for found in documents:
        if (name := dig(found.value, "metadata", "name")) in good:
            loaded.manifests.setdefault(name, found.value)
    admission_documents = Inputs(names, recursive=True, wanted=is_admission).documents()
    loaded.admission = [each.value for each in admission_documents if isinstance(each.value, dict)]
    loaded.exceptions = [each.value for each in exception_documents(_documents(names, is_exception, report), report)]
    for found in _documents([own, *(str(folder / name) for name in suite.manifests)], is_jobset, report):
        metadata = found.value.get("metadata") if isinstance(found.value, dict) else None
        if isinstance(metadata, dict) and isinstance(metadata.get("name"), str):
            loaded.jobsets[metadata["name"]] = found.value
    return loaded


def _documents(names: Sequence[str], wanted: Callable[[JSON], bool], report: Report) -> Iterator[Document]:
    return Inputs(names, recursive=True, wanted=wanted, problems=report.problems).documents()


def admission(gates: FeatureGates) -> Admit:
    """How JobSets are admitted with these feature gates, without a cluster."""
    checks = Checks(gates)

    def admit(obj: JSON, policies: Sequence[JobSetPolicy], namespace: Namespace) -> AdmittedJobSet:
        sent = checks.prepare(obj)
        sent = replace(sent, object=with_policy_defaults(policies, sent.object, namespace, gates))
        findings = checks.create(sent, children=False)
        return AdmittedJobSet(findings.object, judged_of(findings.object, gates), findings.errors)

    return admit
