"""The CRD as the Go JobSet has it (version 0.12): ours without the fields, values, rules and columns that it does not know.

Written down from its Go types and its release notes, apart from what our code says of itself. Version 0.13 also knows
`LATER`, behind feature gates. Pod and Job templates are taken to be the same. A digest holds that this part stays.
"""

import copy
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from api import failure_actions
from api.keys import MULTIKUEUE_ORIGIN
from kube.model.jsontree import items
from manifests import crd

JSON = dict[str, Any]
DIGEST = "a86c62c25c9c07821d026523ec808e7934a52ddf136044505cbdb874567a86f9"
"""Of the definition without its descriptions."""
COLUMNS = ("Ready", "Stage", "Attempts", "Failure", "Managed-By", "Spares", "Spares-Missing", "Spares-Used")
"""Columns of ours alone."""
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
    """The definition, without a limit of `replicas`; rules in CEL stay where they name no field that is gone."""
    definition: JSON = copy.deepcopy(crd())
    [version] = definition["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    for path, node in list(_nodes(schema)):
        for name in unknown_fields(path, node):
            del node["properties"][name]
    spec = schema["properties"]["spec"]
    policies = spec["properties"]
    policies["failurePolicy"]["properties"]["rules"]["items"]["properties"]["action"]["enum"] = ACTIONS
    del policies["replicatedJobs"]["items"]["properties"]["replicas"]["maximum"]
    for node in (spec, policies["successPolicy"]):
        rules = node["x-kubernetes-validations"]
        rules[:] = [rule for rule in rules if "executionPolicy" not in str(rule) and "minSucceeded" not in str(rule)]
    for rule in policies["volumeClaimPolicies"]["items"]["x-kubernetes-validations"]:
        # The Go JobSet writes the word as only Kubernetes 1.32 and newer read it.
        rule["rule"] = rule["rule"].replace("__namespace__", "namespace")
    columns = version["additionalPrinterColumns"]
    columns[:] = [column for column in columns if column["name"] not in COLUMNS]
    del definition["spec"]["names"]["shortNames"]
    return definition


@cache
def dropped() -> set[str]:
    """The fields of ours that the Go JobSet's CRD does not have, without those inside of others."""
    schema = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    found = {f"{path}.{name}" for path, node in _nodes(schema) for name in unknown_fields(path, node)}
    return {path for path in found if not any(path.startswith((f"{other}.", f"{other}[]")) for other in found)}


def without_our_fields(obj: JSON) -> JSON:
    """A JobSet without the fields that the Go JobSet does not have; an action of ours becomes one of its own."""
    obj = copy.deepcopy(obj)
    for rule in _all(obj, ["spec", "failurePolicy", "rules[]"]):
        if rule.get("action") in failure_actions.ACTIONS.keys() - set(ACTIONS):
            rule["action"] = "RestartJob"
    for field in dropped():
        *parents, name = field.split(".")
        for node in _all(obj, parents):
            node.pop(name, None)
    return obj


def as_go_reads(obj: JSON) -> JSON:
    """A JobSet as a client of Go's types reads it. Actions are texts there: those of ours come through."""
    read = without_our_fields(obj)
    place = "spec", "failurePolicy", "rules"
    for rule, known in zip(items(obj, *place), items(read, *place), strict=True):
        known["action"] = rule["action"]
    return read


def worker_copy(hub: JSON) -> JSON:
    """What MultiKueue creates of a JobSet in a worker cluster."""
    read = as_go_reads(hub)
    meta = {key: value for key, value in read["metadata"].items() if key in {"name", "namespace", "annotations"}}
    labels = {MULTIKUEUE_ORIGIN: "hub", "kueue.x-k8s.io/prebuilt-workload-name": "w", **read["metadata"]["labels"]}
    spec = {key: value for key, value in read["spec"].items() if key != "managedBy"}
    return {**{key: read[key] for key in ("apiVersion", "kind")}, "metadata": {**meta, "labels": labels}, "spec": spec}


def digest(definition: JSON) -> str:
    """Of a definition, whatever it says in its descriptions."""
    text = json.dumps(_undescribed(definition["spec"]), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


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


def _undescribed(node: Any) -> Any:
    if isinstance(node, dict):
        kept = {key: value for key, value in node.items() if not (key == "description" and isinstance(value, str))}
        return {key: _undescribed(value) for key, value in kept.items()}
    return [_undescribed(item) for item in node] if isinstance(node, list) else node


def _all(obj: Any, names: list[str]) -> list[JSON]:
    nodes = [obj]
    for name in names:
        nodes = [node.get(name.removesuffix("[]")) for node in nodes]
        if name.endswith("[]"):
            nodes = [item for items in nodes for item in items or ()]
        nodes = [node for node in nodes if isinstance(node, dict)]
    return nodes
