"""Pods that the scheduler ignores because their ResourceClaim does not exist. Pure."""

import re
from collections.abc import Iterator

from api.pending import clean_words
from diagnose.answers import KeyedFinding, about_jobs
from diagnose.case import Case
from diagnose.facts import SeenPod
from diagnose.finding import Finding, Level
from diagnose.pod_causes import SCHEDULER_SECONDS, pods_are
from diagnose.times import seconds_since

_NOT_MADE = "FailedResourceClaimCreation"
"""Reason of the Warning of kube-controller-manager about a pod for which it cannot create a ResourceClaim."""
_NO_TEMPLATE = re.compile(r'resourceclaimtemplate\S* "([^"]+)" not found')
_RETRIED = "Kubernetes tries again by itself"


@about_jobs
def without_device_claim(case: Case, unexplained: frozenset[str]) -> Iterator[KeyedFinding]:
    """Pods that the scheduler ignores because their ResourceClaim, or the template of the claim, is missing."""
    for child, pods in case.pods_where(unexplained, lambda pod: pod.is_unhandled and bool(pod.spec.resource_claims)):
        words, fix = _missing_claim(case, pods[0])
        if words:
            created = pods[0].metadata.creation_timestamp or ""
            is_late = (seconds_since(created, case.facts.now) or 0) > SCHEDULER_SECONDS
            message = f"Job {child.name}: {pods_are(pods)} not scheduled: {words}"
            level = Level.FAULT if is_late else Level.WAITS
            yield KeyedFinding(
                child.name, words.replace(pods[0].name, ""), Finding(level, "device-claim", message, (), fix, created)
            )


def _missing_claim(case: Case, pod: SeenPod) -> tuple[str, str]:
    """The missing object in words, and the fix; both empty if it is not known."""
    namespace = pod.metadata.namespace
    names = (claim.resource_claim_name for claim in pod.spec.resource_claims)
    missing = next((name for name in names if case.facts.device_claim_exists.get(name) is False), "")
    if missing:
        return f"there is no ResourceClaim {missing}", _fix("ResourceClaim", missing, namespace)
    note = next((event.note for event in case.warnings_about(pod) if event.reason == _NOT_MADE), "")
    if template := _NO_TEMPLATE.search(note):
        name = clean_words(template[1])
        return f"there is no ResourceClaimTemplate {name}", _fix("ResourceClaimTemplate", name, namespace)
    describe = f"kubectl describe pod -n {namespace} {pod.name} says more: {_RETRIED}"
    return (f"{_NOT_MADE}: {clean_words(note)}", describe) if note else ("", "")


def _fix(kind: str, name: str, namespace: str) -> str:
    listing = f"kubectl get {kind.lower()}s -n {namespace} lists those there are"
    return f"create {kind} {name}, or see why what makes it, such as a ComputeDomain, has not: {_RETRIED}; {listing}"
