"""Pods of JobSets as the Job controller creates them, from the Jobs that the JobSet controller makes. Plain JSON."""

import copy
from typing import Any

import msgspec

from api import keys
from api.children import build_job
from api.exclusive import Domain, NoDomain
from api.jobset import JobSet
from api.layout import layout_of
from tests.support.objects.jobsets import JSON, jobset, stored

JOB_UID = "11111111-2222-3333-4444-555555555555"
RACK = "rack"
KNOWN = Domain("rack-7", "train-workers-0-0-abcde", "node-70")
UNKNOWN = NoDomain("its leader pod train-workers-0-0-abcde is not scheduled", "train-workers-0-0-abcde")
"""What admission is told about the domain of a Job."""


def exclusive(*rjobs: JSON, node_selector: bool = False, **more: Any) -> JSON:
    """A JobSet that wants a rack for each Job: by affinity, or by the node-selector strategy."""
    js = jobset(*rjobs, **more)
    strategy = {keys.NODE_SELECTOR_STRATEGY: "true"} if node_selector else {}
    js["metadata"]["annotations"] = {keys.EXCLUSIVE_TOPOLOGY: RACK, **strategy}
    return js


def pod_of(js: JSON, index: int | None = 0, *, job: int = 0, job_uid: str = JOB_UID) -> JSON:
    """The pod with this completion index of a JobSet's first ReplicatedJob; None: of a Job that is not Indexed."""
    whole = msgspec.convert(stored(js), JobSet)
    places = layout_of(whole)
    jobs = places.ranges[0]
    position = jobs.position(whole.metadata.name, job)
    body = build_job(whole, places, jobs, position)
    template = copy.deepcopy(body["spec"]["template"])
    meta = template["metadata"]
    meta["namespace"] = whole.metadata.namespace
    meta["generateName"] = f"{position.name}-" if index is None else f"{position.name}-{index}-"
    meta["labels"] |= {keys.JOB_UID: job_uid, "batch.kubernetes.io/job-name": position.name}
    if index is not None:
        meta["labels"][keys.COMPLETION_INDEX] = meta["annotations"][keys.COMPLETION_INDEX] = str(index)
    meta["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": position.name, "uid": job_uid, "controller": True}
    ]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
