"""Names of everything a JobSet creates, and the hash that identifies a Job (docs/reference/names-and-labels.md)."""

import hashlib
from collections.abc import Callable, Iterator

from api.jobset import JobSet


def job_name_prefix(jobset: str, replicated_job: str) -> str:
    """What the names of all Jobs of a ReplicatedJob begin with; their index follows."""
    return f"{jobset}-{replicated_job}-"


def job_name(jobset: str, replicated_job: str, job_index: int) -> str:
    """`<jobset>-<replicated job>-<index>`."""
    return f"{job_name_prefix(jobset, replicated_job)}{job_index}"


def job_names(js: JobSet) -> Callable[[str], bool]:
    """Whether a name is that of a Job of this set, with any index: the set may have had more Jobs."""
    prefixes = {job_name_prefix(js.metadata.name, rjob.name) for rjob in js.spec.replicated_jobs}

    def is_job(name: str) -> bool:
        head, dash, index = name.rpartition("-")
        return index.isascii() and index.isdigit() and head + dash in prefixes

    return is_job


def pod_base_name(jobset: str, replicated_job: str, job_index: int, completion_index: int) -> str:
    """Pod name without its random suffix; also the pod's host name."""
    return f"{job_name(jobset, replicated_job, job_index)}-{completion_index}"


def subdomain(js: JobSet) -> str:
    """Name of the headless Service: `network.subdomain`, else the JobSet's name."""
    return (js.spec.network.subdomain if js.spec.network else "") or js.metadata.name


def coordinator_endpoint(js: JobSet) -> str | None:
    """DNS name of the coordinator pod within the namespace; None without a coordinator."""
    pod = js.spec.coordinator
    if pod is None:
        return None
    return f"{pod_base_name(js.metadata.name, pod.replicated_job, pod.job_index, pod.pod_index)}.{subdomain(js)}"


def volume_claim_name(template: str, jobset: str) -> str:
    """`<template>-<jobset>`: the template comes first."""
    return f"{template}-{jobset}"


def volume_claim_names(js: JobSet) -> Iterator[str]:
    """The names of all claims that a JobSet wants."""
    for policy in js.spec.volume_claim_policies:
        for template in policy.templates:
            yield volume_claim_name(template["metadata"]["name"], js.metadata.name)


def job_key(namespace: str, job: str) -> str:
    """Lower-case hex SHA-1 of `<namespace>/<job>`: clients recompute it, so the algorithm is API."""
    return hashlib.sha1(f"{namespace}/{job}".encode(), usedforsecurity=False).hexdigest()


def namespaced_job(namespace: str, job: str) -> str:
    """Value of the node label of the node-selector strategy."""
    return f"{namespace}_{job}"
