"""JobSetPolicies, and what they say about JobSets, in as few words as a test needs."""

from typing import Any

from api.features import FeatureGates
from policy.evaluate import Violation, violations
from policy.judged import JudgedJobSet, Namespace
from policy.types import JobSetPolicy, read_policy
from tests.support.objects.jobsets import jobset, rjob, stored
from webhooks.jobset.subject import subject_of

JSON = dict[str, Any]


def manifest(
    name: str = "limits", actions: tuple[str, ...] = ("Deny",), match: JSON | None = None, **rules: Any
) -> JSON:
    """A policy as its author writes it; rules by their names in the API."""
    return {
        "apiVersion": "policy.jobset.x-k8s.io/v1alpha1",
        "kind": "JobSetPolicy",
        "metadata": {"name": name},
        "spec": {"validationActions": list(actions), **({"match": match} if match else {}), "rules": rules},
    }


def policy(
    name: str = "limits", actions: tuple[str, ...] = ("Deny",), match: JSON | None = None, **rules: Any
) -> JobSetPolicy:
    return read_policy(manifest(name, actions, match, **rules))


def setting(name: str = "tenants", match: JSON | None = None, rules: JSON | None = None, **defaults: Any) -> JSON:
    """A policy that sets these defaults, as its author writes it."""
    found = manifest(name, match=match, **(rules or {}))
    if not rules:
        del found["spec"]["rules"]
    found["spec"]["defaults"] = defaults
    return found


def exception(name: str = "big-run", policy: str = "limits", **spec: Any) -> JSON:
    """An exception from `maxJobs` of a policy, created at the beginning of 2030, until the end of it."""
    return {
        "apiVersion": "policy.jobset.x-k8s.io/v1alpha1",
        "kind": "JobSetPolicyException",
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": "2030-01-01T00:00:00Z"},
        "spec": {
            "policy": policy,
            "rules": ["maxJobs"],
            "reason": "a large run",
            "expiresAt": "2031-01-01T00:00:00Z",
            **spec,
        },
    }


def judged(*rjobs: JSON, metadata: JSON | None = None, **spec: Any) -> JudgedJobSet:
    """A stored JobSet of these ReplicatedJobs and fields."""
    js = stored(jobset(*rjobs, **spec))
    js["metadata"] |= metadata or {}
    return JudgedJobSet(subject_of(js, FeatureGates()).js)


def of_pod(**pod: Any) -> JudgedJobSet:
    """A JobSet of one ReplicatedJob, whose pods have these fields."""
    return judged(rjob(pod=pod))


def violations_of(js: JSON, *policies: JobSetPolicy) -> list[Violation]:
    """What the policies say about a JobSet as it would be stored."""
    return violations(policies, JudgedJobSet(subject_of(js, FeatureGates({"AllAlpha": True})).js), Namespace("default"))


def texts(
    found: JudgedJobSet, *policies: JobSetPolicy, namespace: Namespace | None = None, old: JudgedJobSet | None = None
) -> list[str]:
    """What the policies say, each with its place."""
    where = namespace or Namespace("default")
    return [str(violation.error) for violation in violations(policies, found, where, old)]


def places(found: JudgedJobSet, **rules: Any) -> list[str]:
    """Where one policy of these rules is violated, below the pod's spec if it is there."""
    below = "spec.replicatedJobs[0].template.spec.template.spec."
    return [str(error.error.path).removeprefix(below) for error in violations([policy(**rules)], found, Namespace())]
