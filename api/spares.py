"""Spare pods: ReplicatedJobs that hold places for the pods of another one. See docs/concepts/spares.md.

Spares do not run the program: code that counts the Jobs of a set counts those of `running_part`.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from api.jobset import JobSet, ReplicatedJob
from api.keys import EXCLUSIVE_TOPOLOGY, JOB_INDEX, JOBSET_UID, REPLICATED_JOB_NAME, SPARES
from kube.model.jsontree import dig, items
from kube.model.meta import JSON, MAX_INT32

GATE: Final = "JobSetSpares"
MAX_GROUPS: Final = 8
"""Groups of spares in one JobSet: each has a copy of a template."""

HOLD: Final = ("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done")
"""The holding process: it uses no resources, and ends at once on SIGTERM."""
_PROGRAM_FIELDS: Final = frozenset(
    {"command", "args", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "restartPolicyRules", "ports"}
)
_OF_A_FLAVOR: Final = ("nodeSelector", "tolerations")
"""What Kueue writes into the pod templates of a set, by the ResourceFlavor that it gives to each ReplicatedJob."""
COUNTED: Final = "="
"""What stands before the name in a note that a place is counted (`counted_place`). No rank begins with it."""
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_NUMBERS_OF_PODS: Final = ("parallelism", "completions")
_JOB_FIELDS: Final = (*_NUMBERS_OF_PODS, "completionMode")


def spares_of(js: JobSet) -> tuple[ReplicatedJob, ...]:
    """The ReplicatedJobs of the set that are spares."""
    return tuple(rjob for rjob in js.spec.replicated_jobs if rjob.spare_for)


def running_part(js: JobSet) -> JobSet:
    """The JobSet without its groups of spares, in spec and counts; the same object if it has none."""
    left = tuple([rjob for rjob in js.spec.replicated_jobs if not rjob.spare_for])
    if len(left) == len(js.spec.replicated_jobs):
        return js
    names = {group.name for group in spares_of(js)}
    counts = tuple(entry for entry in js.status.replicated_jobs_status if entry.name not in names)
    return msgspec.structs.replace(
        js,
        spec=msgspec.structs.replace(js.spec, replicated_jobs=left),
        status=msgspec.structs.replace(js.status, replicated_jobs_status=counts),
    )


def has_nodes_of(spare: ReplicatedJob, js: JobSet) -> bool:
    """Whether spares run on the nodes that the pods they replace may use.

    Admission ensures this, but a queue that resumes the set may select other nodes for each ReplicatedJob.
    """
    target = next((rjob for rjob in js.spec.replicated_jobs if rjob.name == spare.spare_for), spare)
    return all((spare.pod_spec.get(key) or None) == (target.pod_spec.get(key) or None) for key in _OF_A_FLAVOR)


def spare_template(template: Any, own: Any) -> JSON:
    """The template of spares for the Jobs of `template`.

    Of `own`, the spares' own template, only the number of pods and the commands of containers are used. Init containers
    that are not sidecars are left out: the holding process needs no preparation. So are labels: a Service must not find
    pods that serve nothing.
    """
    job = dig(template, "spec")
    job = job if isinstance(job, dict) else {}
    pod = dig(job, "template", "spec")
    pod = pod if isinstance(pod, dict) else {}
    pod_spec = dig(own, "spec", "template", "spec")
    commands = {
        each["name"]: each["command"]
        for each in items(pod_spec, "containers")
        if isinstance(each, dict) and isinstance(each.get("name"), str) and each.get("command")
    }
    sidecars = [each for each in items(pod, "initContainers") if dig(each, "restartPolicy") == "Always"]
    held: JSON = {
        **{key: value for key, value in pod.items() if key not in {"initContainers", "restartPolicy"}},
        **({"initContainers": [_holding(each, commands) for each in sidecars]} if sidecars else {}),
        "containers": [_holding(each, commands) for each in items(pod, "containers")],
        "restartPolicy": "OnFailure",
        "terminationGracePeriodSeconds": 1,
    }
    annotations = dig(job, "template", "metadata", "annotations")
    topology = dig(template, "metadata", "annotations", EXCLUSIVE_TOPOLOGY)
    given = {key: dig(own, "spec", key) for key in _NUMBERS_OF_PODS}
    fields = {key: job.get(key) if given.get(key) is None else given[key] for key in _JOB_FIELDS}
    return {
        **({"metadata": {"annotations": {EXCLUSIVE_TOPOLOGY: topology}}} if topology else {}),
        "spec": {
            **{key: value for key, value in fields.items() if value is not None},
            "backoffLimit": MAX_INT32,
            "template": {**({"metadata": {"annotations": annotations}} if annotations else {}), "spec": held},
        },
    }


def _holding(container: Any, commands: Mapping[str, Any]) -> Any:
    """The container, which runs the holding process instead of its program."""
    if not isinstance(container, dict):
        return container
    name = container.get("name")
    command = commands.get(name if isinstance(name, str) else "", list(HOLD))
    return {**{key: value for key, value in container.items() if key not in _PROGRAM_FIELDS}, "command": command}


def with_spares(job: JSON, name: str) -> JSON:
    """The Job with the label of a pool on its pods. `name`: the ReplicatedJob that the pool is for."""
    template = job["spec"]["template"]
    meta = template["metadata"]
    labels = {**meta["labels"], SPARES: name}
    return {**job, "spec": {**job["spec"], "template": {**template, "metadata": {**meta, "labels": labels}}}}


def in_domain_of(job: JSON, js: JobSet, name: str) -> JSON:
    """The Job of a spare, whose pods follow those of ReplicatedJob `name` into the domain of its group.

    Where only the pods of one Job share a domain, they follow the Job of their index. They are in no group themselves:
    members count, so a gang would be complete with a spare instead of a worker.
    """
    if js.spec.scheduling is None:
        return job
    job_keys = js.spec.scheduling.job_topology(name)
    topology = (*js.spec.scheduling.shared_topology(name), *job_keys)
    if not topology:
        return job
    template = job["spec"]["template"]
    labels = {JOBSET_UID: js.metadata.uid, REPLICATED_JOB_NAME: name}
    if job_keys:
        labels[JOB_INDEX] = template["metadata"]["labels"][JOB_INDEX]
    affinity: JSON = template["spec"].get("affinity") or {}
    terms = [{"labelSelector": {"matchLabels": labels}, "topologyKey": key} for key in topology]
    near = {**(affinity.get("podAffinity") or {}), REQUIRED: terms}
    spec = {**template["spec"], "affinity": {**affinity, "podAffinity": near}}
    return {**job, "spec": {**job["spec"], "template": {**template, "spec": spec}}}


def rank_of(pod: str) -> str:
    """The name of a pod without its random suffix: Job and completion index."""
    return pod.rpartition("-")[0]


def leader_rank_of(rank: str) -> str:
    """The rank of the leader in the Job of a pod of that rank."""
    return f"{rank.rpartition('-')[0]}-0"


def followers_of(rank: str) -> str:
    """What stands for the other pods of a Job whose leader, of that rank, was given a domain."""
    return f"{rank.rpartition('-')[0]}-*"


def counted_place(pod: str) -> str:
    """What stands among the promises for a pod without one, of that name, whose place is counted but not given yet."""
    return f"{COUNTED}{pod}"


def promises_to(rank: str, *, exclusive: bool) -> frozenset[str]:
    """The promises that hold back a pod of that rank; in exclusive placement the Job moves as a whole."""
    leader = leader_rank_of(rank)
    if not exclusive or rank == leader:
        return frozenset((rank,))
    return frozenset((leader, followers_of(rank)))


def is_complete(template: Any) -> bool:
    """Whether a template of spares has been filled in: each of its containers has an image."""
    containers = items(dig(template, "spec", "template", "spec"), "containers")
    return bool(containers) and all(dig(each, "image") for each in containers)
