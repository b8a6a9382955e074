"""The records of objects that the page is made from. Pure.

Tenants choose how large their objects are: so pod templates are left out, and long texts and lists are truncated.
"""

from collections.abc import Iterator
from itertools import chain

import msgspec
from msgspec.structs import replace

from api import keys
from api.batch import LabelledIdentity
from api.jobset import JobSet, JobSetSpec, ReplicatedJob
from api.jobset_status import ReplicatedJobStatus
from api.pod import DetailedPod
from api.scheduling import SchedulingConstraints
from diagnose.states import MIN_REPEATED_FAILURES
from kube.model.meta import Base, Condition, ObjectMeta

LONGEST_TEXT = 1000
"""Characters that are kept of a message."""

MAX_ENTRIES = 100
"""Entries that are kept of a list whose length tenants choose."""

_ANNOTATIONS = (keys.EXCLUSIVE_TOPOLOGY, keys.NODE_SELECTOR_STRATEGY)
_JOB_FIELDS = ("parallelism", "completions")


class PlacedPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod of a JobSet. `state`: Ready, Ending, or its phase. `node` is empty until the pod is bound."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    jobset: str
    job: str
    node: str
    state: str

    @property
    def metadata(self) -> "PlacedPod":
        return self

    @property
    def is_unfinished(self) -> bool:
        """Whether the pod uses resources of a node, or waits for them."""
        return self.state not in {"Succeeded", "Failed"}


class SeenNode(Base, frozen=True, kw_only=True):
    """A node of which only metadata was sent."""

    metadata: LabelledIdentity


def truncate(text: str) -> str:
    """The text, truncated to `LONGEST_TEXT` characters."""
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


def _failing_restarts(counts: ReplicatedJobStatus) -> tuple[int, ...]:
    """The numbers of restarts of Jobs that are restarted one by one; empty if no Job keeps failing."""
    return counts.job_restarts if max(counts.job_restarts, default=0) >= MIN_REPEATED_FAILURES else ()


def trimmed_jobset(js: JobSet) -> JobSet:
    """A JobSet without the pod templates, claims and annotations."""
    spec = js.spec
    history = js.status.attempt_history[-MAX_ENTRIES:]
    return replace(
        js,
        metadata=_trimmed_metadata(js.metadata),
        spec=JobSetSpec(
            replicated_jobs=tuple(_trimmed_replicated_job(rjob) for rjob in spec.replicated_jobs[:MAX_ENTRIES]),
            failure_policy=spec.failure_policy and replace(spec.failure_policy, rules=()),
            startup_policy=spec.startup_policy,
            execution_policy=spec.execution_policy,
            scheduling=spec.scheduling,
            suspend=spec.suspend,
            managed_by=spec.managed_by,
        ),
        status=replace(
            js.status,
            conditions=tuple(map(_trimmed_condition, js.status.conditions[:MAX_ENTRIES])),
            replicated_jobs_status=tuple(
                replace(
                    counts,
                    job_restarts=_failing_restarts(counts),
                    job_restarts_count_towards_max=(),
                    completed_indexes="",
                )
                for counts in js.status.replicated_jobs_status[:MAX_ENTRIES]
            ),
            failure_policy_restarts=(),
            attempt_history=tuple(replace(attempt, message=truncate(attempt.message)) for attempt in history),
        ),
    )


def _trimmed_metadata(meta: ObjectMeta) -> ObjectMeta:
    return replace(meta, labels={}, annotations=_trimmed_annotations(meta.annotations), owner_references=())


def _trimmed_annotations(annotations: dict[str, str]) -> dict[str, str]:
    return {key: truncate(annotations[key]) for key in _ANNOTATIONS if key in annotations}


def _trimmed_replicated_job(rjob: ReplicatedJob) -> ReplicatedJob:
    job = {key: rjob.job_spec[key] for key in _JOB_FIELDS if isinstance(rjob.job_spec.get(key), int)}
    pods = {"metadata": {"annotations": _trimmed_annotations(rjob.pod_annotations)}}
    template = {"metadata": {"annotations": _trimmed_annotations(rjob.annotations)}, "spec": {**job, "template": pods}}
    return replace(rjob, template=template, exit_code_policy=None)


def _trimmed_condition(condition: Condition) -> Condition:
    return replace(condition, message=truncate(condition.message))


def placed_pod(pod: DetailedPod) -> PlacedPod:
    """The cached record of a pod: its node and its owner."""
    meta, owner = pod.metadata, pod.metadata.controller()
    ready = pod.status.condition("Ready")
    state = pod.status.phase or "Pending"
    if state not in {"Succeeded", "Failed"}:
        if meta.deletion_timestamp is not None:
            state = "Ending"
        elif ready is not None and ready.status == "True":
            state = "Ready"
    return PlacedPod(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        jobset=meta.labels.jobset,
        job="" if owner is None else owner.name,
        node=pod.spec.node_name,
        state=state,
    )


def topologies(js: JobSet) -> tuple[str, ...]:
    """The node labels by which its Jobs or gangs are placed, each once, in the order of the spec."""
    found = [*_exclusive_topologies(js), *_group_topologies(js)]
    return tuple(dict.fromkeys(key for key in found if key))


def _exclusive_topologies(js: JobSet) -> Iterator[str]:
    """The node labels of exclusive placement. Empty texts are included."""
    templates = ((rjob.annotations, rjob.pod_annotations) for rjob in js.spec.replicated_jobs)
    return (level.get(keys.EXCLUSIVE_TOPOLOGY, "") for level in (js.metadata.annotations, *chain(*templates)))


def _group_topologies(js: JobSet) -> Iterator[str]:
    scheduling = js.spec.scheduling
    if scheduling is None:
        return
    yield _first_topology(scheduling.scheduling_constraints)
    for entry in scheduling.replicated_jobs:
        yield _first_topology(entry.scheduling_constraints)
        yield _first_topology(entry.job.scheduling_constraints) if entry.job is not None else ""


def _first_topology(constraints: SchedulingConstraints | None) -> str:
    return constraints.topology[0].key if constraints is not None and constraints.topology else ""
