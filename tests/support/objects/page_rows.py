"""Objects as the caches of `jobset ui` keep them, in few words."""

from typing import Any

import msgspec

from api.batch import Job
from api.jobset import JobSet
from tests.support.explain.objects import job_of, made
from tests.support.objects.jobsets import jobset, rjob, stored
from ui.records import PlacedPod, SeenNode, trimmed_jobset

JSON = dict[str, Any]


def a_set(*rjobs: JSON, name: str = "train", meta: JSON | None = None, **status: Any) -> JobSet:
    """A JobSet as it is kept; `spec` among the keywords is laid over its spec, the others are its status."""
    spec = status.pop("spec", {})
    body = made(stored(jobset(*rjobs, name=name, **spec)), **status)
    body["metadata"] |= meta or {}
    return trimmed_jobset(msgspec.convert(body, JobSet))


def counts(name: str = "workers", **numbers: int) -> JSON:
    """A status of a ReplicatedJob."""
    return {"name": name, **dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0), **numbers}


def a_job(index: int = 0, rjob_name: str = "workers", **status: Any) -> Job:
    """A Job of the set `train`."""
    js = made(stored(jobset(rjob(rjob_name))))
    return msgspec.convert(made(job_of(js, index, rjob_name), **status), Job)


def a_node(name: str, **labels: str) -> SeenNode:
    return msgspec.convert({"metadata": {"name": name, "labels": labels}}, SeenNode)


def a_pod(job: str, node: str = "", *, state: str = "Ready", jobset: str = "train") -> PlacedPod:
    """A pod of `default/train`."""
    return PlacedPod(
        namespace="default",
        name=f"{job}-0",
        uid="u",
        resource_version="1",
        jobset=jobset,
        job=job,
        node=node,
        state=state,
    )
