"""Small objects that show when an API server and our webhooks know the objects that were stored before. Pure.

Each probe has a number. A watch delivers changes of one kind in order: a process that knows the policy of the newest
number knows all earlier changes of policies. The same holds for namespaces, exceptions and admission policies.
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
"""A key that sorts before others, so that its finding stands in every answer, however many there are."""
EXCEPTION_LIFETIME: Final = timedelta(hours=1)
"""How long the exception of a probe lasts."""
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_HERE: Final = {
    "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: NAME}},
    "resourceRules": [{"apiGroups": [GROUP], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["jobsets"]}],
}


def name(number: int) -> str:
    """The name of the objects of a probe; no name is the prefix of another."""
    return f"{NAME}-{number:06}"


def policy(number: int) -> JSON:
    """A policy that is in force once the namespace has the number, too. It denies by two rules."""
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
    """An exception from the second rule."""
    return {
        "apiVersion": API_VERSION,
        "kind": EXCEPTION_KIND,
        "metadata": {"name": name(number), "namespace": NAME},
        "spec": {"policy": name(number), "rules": ["requiredLabels"], "reason": "a look", "expiresAt": expires},
    }


def admission(number: int) -> list[JSON]:
    """An admission policy that annotates the JobSet, one that warns of the annotation, and their bindings.

    The bindings are last.
    """
    mine = name(number)
    annotated = f"[JSONPatch{{op: 'add', path: '/metadata/annotations', value: {{'{NAME}': '{mine}'}}}}]"
    mutating = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": _HERE,
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": annotated}}],
    }
    seen = f"object.metadata.?annotations[?'{NAME}'].orValue('') != '{mine}'"
    validating = {
        "failurePolicy": "Fail",
        "matchConstraints": _HERE,
        "validations": [{"expression": seen, "message": mine}],
    }
    bodies = {
        MUTATING: mutating,
        VALIDATING: validating,
        f"{MUTATING}Binding": {"policyName": mine},
        f"{VALIDATING}Binding": {"policyName": mine, "validationActions": ["Warn"]},
    }
    return [
        {"apiVersion": _ADMISSION, "kind": kind, "metadata": {"name": mine}, "spec": spec}
        for kind, spec in bodies.items()
    ]


def jobset(js_api: str) -> JSON:
    """The JobSet that is sent as a dry run to find out what is in force."""
    container = {"name": "main", "image": "registry.example.com/none"}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    rjob = {"name": "main", "replicas": 1, "template": {"spec": {"template": pod}}}
    metadata = {"name": NAME, "namespace": NAME}
    return {"apiVersion": js_api, "kind": "JobSet", "metadata": metadata, "spec": {"replicatedJobs": [rjob]}}
