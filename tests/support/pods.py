"""Pods of JobSets as the Job controller creates them, from the Jobs that the JobSet controller makes. Plain JSON."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from api import keys
from api.children import build_job
from api.jobset import JobSet
from api.placement import placement
from tests.support.jobsets import JSON, jobset, stored

JOB_UID = "11111111-2222-3333-4444-555555555555"
RACK = "rack"


def exclusive(*rjobs: JSON, node_selector: bool = False, **more: Any) -> JSON:
    """A JobSet that wants a rack for each Job: by affinity, or by the node-selector strategy."""
    js = jobset(*rjobs, **more)
    strategy = {keys.NODE_SELECTOR_STRATEGY: "true"} if node_selector else {}
    js["metadata"]["annotations"] = {keys.EXCLUSIVE_TOPOLOGY: RACK, **strategy}
    return js


def pod_of(js: JSON, index: int | None = 0, *, job: int = 0, job_uid: str = JOB_UID) -> JSON:
    """The pod with this completion index of a JobSet's first ReplicatedJob; None: of a Job that is not Indexed."""
    whole = msgspec.convert(stored(js), JobSet)
    places = placement(whole)
    group = places.groups[0]
    slot = group.slot(whole.metadata.name, job)
    body = build_job(whole, group, slot, global_replicas=places.global_replicas)
    template = copy.deepcopy(body["spec"]["template"])
    meta = template["metadata"]
    meta["namespace"] = whole.metadata.namespace
    meta["generateName"] = f"{slot.name}-" if index is None else f"{slot.name}-{index}-"
    meta["labels"] |= {keys.JOB_UID: job_uid, "batch.kubernetes.io/job-name": slot.name}
    if index is not None:
        meta["labels"][keys.COMPLETION_INDEX] = meta["annotations"][keys.COMPLETION_INDEX] = str(index)
    meta["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": slot.name, "uid": job_uid, "controller": True}
    ]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
