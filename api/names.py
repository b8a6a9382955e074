"""Names of all objects that a JobSet creates, and the key of a Job (docs/reference/names-and-labels.md)."""

import hashlib
from collections.abc import Callable, Iterator

from api.jobset import JobSet


def job_name_prefix(jobset: str, replicated_job: str) -> str:
    """The prefix of the names of all Jobs of a ReplicatedJob. The index of the Job follows it."""
    return f"{jobset}-{replicated_job}-"


def job_name(jobset: str, replicated_job: str, job_index: int) -> str:
    """The name of a Job: `<jobset>-<replicated job>-<index>`."""
    return f"{job_name_prefix(jobset, replicated_job)}{job_index}"


def job_name_predicate(js: JobSet) -> Callable[[str], bool]:
    """A function that tells whether a Job of this set may have a name. Any index counts, as the set may shrink."""
    prefixes = {job_name_prefix(js.metadata.name, rjob.name) for rjob in js.spec.replicated_jobs}

    def is_job_name(name: str) -> bool:
        head, dash, index = name.rpartition("-")
        return index.isascii() and index.isdigit() and head + dash in prefixes

    return is_job_name


def pod_base_name(jobset: str, replicated_job: str, job_index: int, completion_index: int) -> str:
    """The name of a pod without its random suffix, which is also the pod's host name."""
    return f"{job_name(jobset, replicated_job, job_index)}-{completion_index}"


def subdomain(js: JobSet) -> str:
    """The name of the headless Service: `network.subdomain`, else the JobSet's name."""
    return (js.spec.network.subdomain if js.spec.network else "") or js.metadata.name


def coordinator_endpoint(js: JobSet) -> str | None:
    """The DNS name of the coordinator pod within the namespace; None without a coordinator."""
    pod = js.spec.coordinator
    if pod is None:
        return None
    return f"{pod_base_name(js.metadata.name, pod.replicated_job, pod.job_index, pod.pod_index)}.{subdomain(js)}"


def volume_claim_name(template: str, jobset: str) -> str:
    """The name of a volume claim: `<template>-<jobset>`."""
    return f"{template}-{jobset}"


def volume_claim_names(js: JobSet) -> Iterator[str]:
    """The names of all claims that a JobSet wants."""
    for policy in js.spec.volume_claim_policies:
        for template in policy.templates:
            yield volume_claim_name(template["metadata"]["name"], js.metadata.name)


def job_key(namespace: str, job: str) -> str:
    """The lower-case hex SHA-1 of `<namespace>/<job>`. Clients compute it, too, so the algorithm is part of the API."""
    return hashlib.sha1(f"{namespace}/{job}".encode(), usedforsecurity=False).hexdigest()


def namespaced_job(namespace: str, job: str) -> str:
    """The value of the node label of the node-selector strategy."""
    return f"{namespace}_{job}"
