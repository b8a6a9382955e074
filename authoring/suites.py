"""Reads suites, which are files with tests of policies, and the files that a suite names."""

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
    """A suite, the objects of the files that it names, and its document."""

    document: Document


@cache
def suite_schema() -> Schema:
    """The schema of the document of a suite."""
    root = schema_of(mi.type_info(Suite))
    head = {"apiVersion": {"type": "string", "enum": [API_VERSION]}, "kind": {"type": "string"}}
    return Schema({**root, "properties": {**head, **root["properties"]}})


def is_admission(obj: JSON) -> bool:
    """Whether an object is an admission policy of the API server, or a binding."""
    return obj.get("kind") in ADMISSION_KINDS


def suites(names: Sequence[str], report: Report, gates: FeatureGates) -> Iterator[LoadedSuite]:
    """The suites without faults in files and directories. Reports the faults of the other suites."""
    inputs = Inputs(names, recursive=True, wanted=is_suite, problems=report.problems)
    for document in inputs.documents():
        report.add([locate(document, fault.error, fault.span) for fault in document.faults])
        if document.broken or not isinstance(document.value, dict):
            continue
        value = without_nulls(document.value)
        faults = [*kind_faults(value), *suite_schema().faults(value), *suite_schema().unknown_fields(value)]
        report.add([locate(document, error) for error in faults])
        if not faults:
            yield _with_files(document, msgspec.convert(value, Suite, strict=False), report, gates)
    report.files = inputs.files


def _with_files(document: Document, suite: Suite, report: Report, gates: FeatureGates) -> LoadedSuite:
    """The suite with the objects of its own file and of the files that it names."""
    file, folder = document.source.name, FilePath(document.source.name).parent
    loaded = LoadedSuite(document=document, suite=suite)
    names = [file, *(str(folder / name) for name in suite.policies)]
    documents = list(_documents(names, is_policy, report))
    filed_policies = policies_in(documents, report)
    warn_of_conflicts(filed_policies, report, gates)
    loaded.policies = [filed.value for filed in filed_policies]
    valid_names = {policy.metadata.name for policy in loaded.policies}
    for policy_document in documents:
        if (name := dig(policy_document.value, "metadata", "name")) in valid_names:
            loaded.manifests.setdefault(name, policy_document.value)
    admission_documents = Inputs(names, recursive=True, wanted=is_admission).documents()
    loaded.admission = [item.value for item in admission_documents if isinstance(item.value, dict)]
    loaded.exceptions = [filed.value for filed in exception_documents(_documents(names, is_exception, report), report)]
    for jobset_document in _documents([file, *(str(folder / name) for name in suite.manifests)], is_jobset, report):
        value = jobset_document.value
        metadata = value.get("metadata") if isinstance(value, dict) else None
        if isinstance(metadata, dict) and isinstance(metadata.get("name"), str):
            loaded.jobsets[metadata["name"]] = value
    return loaded


def _documents(names: Sequence[str], wanted: Callable[[JSON], bool], report: Report) -> Iterator[Document]:
    return Inputs(names, recursive=True, wanted=wanted, problems=report.problems).documents()


def admission(gates: FeatureGates) -> Admit:
    """The function that admits JobSets with these feature gates, without a cluster."""
    checks = Checks(gates)

    def admit(obj: JSON, policies: Sequence[JobSetPolicy], namespace: Namespace) -> AdmittedJobSet:
        sent = checks.prepare(obj)
        sent = replace(sent, object=with_policy_defaults(policies, sent.object, namespace, gates))
        findings = checks.findings_about_new(sent, children=False)
        return AdmittedJobSet(findings.object, judged_of(findings.object, gates), findings.errors)

    return admit
