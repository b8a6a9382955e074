"""Probes: small objects that show when the API server and the manager's webhooks know all stored objects. Pure.

Each probe has a number. A watch delivers changes of one kind in order, so a process that knows the policy with the
highest number knows all earlier changes of policies. The same holds for namespaces, exceptions and admission policies.
"""

from datetime import timedelta
from typing import Final

from api.keys import GROUP, NAMESPACE_NAME
from kube.model.meta import JSON
from policy.kinds import API_VERSION, EXCEPTION_KIND, KIND
from policy.suites.types import MUTATING, VALIDATING

NAME: Final = "jobset-policy-test"
"""The namespace of all probes, and the prefix of the names of their objects."""
LABEL: Final = f"{NAME}.jobset.x-k8s.io/look"
_KEY: Final = "0"
"""The key of a label and an annotation that sorts first, so that its finding is in every answer with many findings."""
EXCEPTION_LIFETIME: Final = timedelta(hours=1)
"""The time until the exception of a probe ends."""
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_MATCH_CONSTRAINTS: Final = {
    "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: NAME}},
    "resourceRules": [{"apiGroups": [GROUP], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["jobsets"]}],
}


def name(number: int) -> str:
    """The name of the objects of a probe. No such name is the prefix of another."""
    return f"{NAME}-{number:06}"


def policy(number: int) -> JSON:
    """A policy with two rules. It denies JobSets in the namespace once the namespace has the number as a label."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name(number)},
        "spec": {
            "match": {"namespaceSelector": {"matchLabels": {LABEL: str(number)}}},
            "validationActions": ["Deny"],
            "exceptions": {"allowedNamespaces": {}, "maxDuration": "1d"},
            "rules": {"requiredAnnotations": [{"key": _KEY}], "requiredLabels": [{"key": _KEY}]},
        },
    }


def exception(number: int, expires: str) -> JSON:
    """An exception from the second rule of the policy. `expires`: its end, as RFC 3339."""
    return {
        "apiVersion": API_VERSION,
        "kind": EXCEPTION_KIND,
        "metadata": {"name": name(number), "namespace": NAME},
        "spec": {"policy": name(number), "rules": ["requiredLabels"], "reason": "a look", "expiresAt": expires},
    }


def admission(number: int) -> list[JSON]:
    """Two admission policies of a probe, and then their bindings.

    The first one annotates the JobSet. The second one warns of the annotation.
    """
    probe_name = name(number)
    annotation_patch = f"[JSONPatch{{op: 'add', path: '/metadata/annotations', value: {{'{NAME}': '{probe_name}'}}}}]"
    mutating = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": _MATCH_CONSTRAINTS,
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": annotation_patch}}],
    }
    is_not_annotated = f"object.metadata.?annotations[?'{NAME}'].orValue('') != '{probe_name}'"
    validating = {
        "failurePolicy": "Fail",
        "matchConstraints": _MATCH_CONSTRAINTS,
        "validations": [{"expression": is_not_annotated, "message": probe_name}],
    }
    bodies = {
        MUTATING: mutating,
        VALIDATING: validating,
        f"{MUTATING}Binding": {"policyName": probe_name},
        f"{VALIDATING}Binding": {"policyName": probe_name, "validationActions": ["Warn"]},
    }
    return [
        {"apiVersion": _ADMISSION, "kind": kind, "metadata": {"name": probe_name}, "spec": spec}
        for kind, spec in bodies.items()
    ]


def jobset(api_version: str) -> JSON:
    """The JobSet that is sent as a dry run. The answer shows which probes are known."""
    container = {"name": "main", "image": "registry.example.com/none"}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    rjob = {"name": "main", "replicas": 1, "template": {"spec": {"template": pod}}}
    metadata = {"name": NAME, "namespace": NAME}
    return {"apiVersion": api_version, "kind": "JobSet", "metadata": metadata, "spec": {"replicatedJobs": [rjob]}}
