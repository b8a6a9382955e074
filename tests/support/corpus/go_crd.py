"""The CRD as the Go JobSet has it (version 0.12): ours without the fields, values, rules and columns that it does not know.

Written down from its Go types and its release notes, apart from what our code says of itself. Version 0.13 also knows
`LATER`, behind feature gates. Pod and Job templates are taken to be the same.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from manifests import crd
from tests.support.corpus.crd_before import COLUMNS

JSON = dict[str, Any]
TEMPLATES = {"spec.replicatedJobs[].template", "spec.volumeClaimPolicies[].templates[]"}
"""What is inside of these is not looked at."""

_FIELDS = {
    "spec": "replicatedJobs network successPolicy failurePolicy startupPolicy suspend coordinator managedBy"
    " ttlSecondsAfterFinished volumeClaimPolicies",
    "spec.replicatedJobs[]": "name groupName template replicas dependsOn",
    "spec.replicatedJobs[].dependsOn[]": "name status",
    "spec.network": "enableDNSHostnames subdomain publishNotReadyAddresses",
    "spec.successPolicy": "operator targetReplicatedJobs",
    "spec.failurePolicy": "maxRestarts restartStrategy rules",
    "spec.failurePolicy.rules[]": "name action targetReplicatedJobs onJobFailureReasons onJobFailureMessagePatterns",
    "spec.startupPolicy": "startupPolicyOrder",
    "spec.coordinator": "replicatedJob jobIndex podIndex",
    "spec.volumeClaimPolicies[]": "templates retentionPolicy",
    "spec.volumeClaimPolicies[].retentionPolicy": "whenDeleted",
    "status": "conditions restarts restartsCountTowardsMax terminalState replicatedJobsStatus"
    " previousInPlaceRestartAttempt currentInPlaceRestartAttempt",
    "status.conditions[]": "lastTransitionTime message observedGeneration reason status type",
    "status.replicatedJobsStatus[]": "name ready succeeded failed active suspended jobRestarts"
    " jobRestartsCountTowardsMax",
}
KNOWN = {"spec", "status", *(f"{parent}.{name}" for parent, names in _FIELDS.items() for name in names.split())}
LATER = {"spec.scheduling", "spec.activeDeadlineSeconds", "status.startTime", "status.executionAttempts"}
ACTIONS = [
    "FailJobSet",
    "RestartJobSet",
    "RestartJobSetAndIgnoreMaxRestarts",
    "RestartJob",
    "RestartJobAndIgnoreMaxRestarts",
]


def go_crd() -> JSON:
    """The definition; rules in CEL stay where they name no field that is gone."""
    definition: JSON = copy.deepcopy(crd())
    [version] = definition["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    for path, node in list(_nodes(schema)):
        for name in unknown_fields(path, node):
            del node["properties"][name]
    spec = schema["properties"]["spec"]
    policies = spec["properties"]
    policies["failurePolicy"]["properties"]["rules"]["items"]["properties"]["action"]["enum"] = ACTIONS
    for node in (spec, policies["successPolicy"]):
        rules = node["x-kubernetes-validations"]
        rules[:] = [rule for rule in rules if "executionPolicy" not in str(rule) and "minSucceeded" not in str(rule)]
    columns = version["additionalPrinterColumns"]
    columns[:] = [column for column in columns if column["name"] not in COLUMNS]
    for name in ("shortNames", "categories"):
        del definition["spec"]["names"][name]
    return definition


def dropped() -> set[str]:
    """The fields of ours that the Go JobSet's CRD does not have, without those inside of others."""
    schema = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    found = {f"{path}.{name}" for path, node in _nodes(schema) for name in unknown_fields(path, node)}
    return {path for path in found if not any(path.startswith((f"{other}.", f"{other}[]")) for other in found)}


def unknown_fields(path: str, node: JSON) -> list[str]:
    """Names of the properties of an object of the schema that the Go JobSet does not have."""
    return [name for name in node["properties"] if f"{path}.{name}" not in KNOWN]


def _nodes(schema: JSON, path: str = "") -> Iterator[tuple[str, JSON]]:
    """The objects of a schema that have fields, each before those inside it; not of metadata and templates."""
    if path in TEMPLATES:
        return
    if path and "properties" in schema:
        yield path, schema
    for name, inner in schema.get("properties", {}).items():
        if path or name in {"spec", "status"}:
            yield from _nodes(inner, f"{path}.{name}".lstrip("."))
    if isinstance(schema.get("items"), dict):
        yield from _nodes(schema["items"], f"{path}[]")
