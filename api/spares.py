"""Spares: ReplicatedJobs whose pods hold places for the pods of another ReplicatedJob. See docs/concepts/spares.md.

Spares do not run the program, so code that counts the Jobs of a set counts the Jobs of `running_part`.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from api.jobset import JobSet, ReplicatedJob
from api.keys import EXCLUSIVE_TOPOLOGY, JOB_INDEX, JOBSET_UID, REPLICATED_JOB_NAME
from kube.model.jsontree import dig, items
from kube.model.meta import JSON, MAX_INT32

GATE: Final = "JobSetSpares"
MAX_GROUPS: Final = 8
"""At most this many ReplicatedJobs of spares in one JobSet, since each has a copy of a template."""

HOLD_COMMAND: Final = ("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done")
"""The command of spares, which uses no resources and ends at once on SIGTERM."""
_PROGRAM_FIELDS: Final = frozenset(
    {"command", "args", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "restartPolicyRules", "ports"}
)
_FLAVOR_FIELDS: Final = ("nodeSelector", "tolerations")
"""Fields that Kueue sets in a pod template, by the ResourceFlavor that it assigns to the ReplicatedJob."""
COUNTED_PREFIX: Final = "="
"""The first character of a note that a place is counted (`counted_place_note`). No rank begins with it."""
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_NUMBERS_OF_PODS: Final = ("parallelism", "completions")
JOB_FIELDS: Final = (*_NUMBERS_OF_PODS, "completionMode")
"""Fields of a Job spec that decide how many pods the Job has, and how it numbers them."""


def spares_of(js: JobSet) -> tuple[ReplicatedJob, ...]:
    """The ReplicatedJobs of the set that are spares."""
    return tuple(rjob for rjob in js.spec.replicated_jobs if rjob.spare_for)


def running_part(js: JobSet) -> JobSet:
    """The JobSet without its spares, in spec and counts; the same object if it has none."""
    running_rjobs = tuple([rjob for rjob in js.spec.replicated_jobs if not rjob.spare_for])
    if len(running_rjobs) == len(js.spec.replicated_jobs):
        return js
    names = {group.name for group in spares_of(js)}
    counts = tuple(entry for entry in js.status.replicated_jobs_status if entry.name not in names)
    return msgspec.structs.replace(
        js,
        spec=msgspec.structs.replace(js.spec, replicated_jobs=running_rjobs),
        status=msgspec.structs.replace(js.status, replicated_jobs_status=counts),
    )


def has_nodes_of(spare: ReplicatedJob, js: JobSet) -> bool:
    """Whether spares run on nodes that the pods which they replace may use.

    Admission ensures this, but a queue that resumes the set may select other nodes for each ReplicatedJob.
    """
    target = next((rjob for rjob in js.spec.replicated_jobs if rjob.name == spare.spare_for), spare)
    return all((spare.pod_spec.get(key) or None) == (target.pod_spec.get(key) or None) for key in _FLAVOR_FIELDS)


def spare_template(template: Any, own_template: Any) -> JSON:
    """The template of spares for the Jobs of `template`.

    Of `own_template`, the spares' own template, only the number of pods and the commands of containers are used. Init
    containers that are not sidecars are left out, since the holding process needs no preparation. Labels are left out,
    since a Service must not find pods that serve nothing.
    """
    job = dig(template, "spec")
    job = job if isinstance(job, dict) else {}
    pod = dig(job, "template", "spec")
    pod = pod if isinstance(pod, dict) else {}
    pod_spec = dig(own_template, "spec", "template", "spec")
    commands = {
        container["name"]: container["command"]
        for container in items(pod_spec, "containers")
        if isinstance(container, dict) and isinstance(container.get("name"), str) and container.get("command")
    }
    sidecars = [container for container in items(pod, "initContainers") if dig(container, "restartPolicy") == "Always"]
    holding_spec: JSON = {
        **{key: value for key, value in pod.items() if key not in {"initContainers", "restartPolicy"}},
        **({"initContainers": [_with_hold_command(container, commands) for container in sidecars]} if sidecars else {}),
        "containers": [_with_hold_command(container, commands) for container in items(pod, "containers")],
        "restartPolicy": "OnFailure",
        "terminationGracePeriodSeconds": 1,
    }
    annotations = dig(job, "template", "metadata", "annotations")
    topology = dig(template, "metadata", "annotations", EXCLUSIVE_TOPOLOGY)
    own_numbers = {key: dig(own_template, "spec", key) for key in _NUMBERS_OF_PODS}
    fields = {key: job.get(key) if own_numbers.get(key) is None else own_numbers[key] for key in JOB_FIELDS}
    return {
        **({"metadata": {"annotations": {EXCLUSIVE_TOPOLOGY: topology}}} if topology else {}),
        "spec": {
            **{key: value for key, value in fields.items() if value is not None},
            "backoffLimit": MAX_INT32,
            "template": {**({"metadata": {"annotations": annotations}} if annotations else {}), "spec": holding_spec},
        },
    }


def _with_hold_command(container: Any, commands: Mapping[str, Any]) -> Any:
    """The container with the holding process instead of its program."""
    if not isinstance(container, dict):
        return container
    name = container.get("name")
    command = commands.get(name if isinstance(name, str) else "", list(HOLD_COMMAND))
    return {**{key: value for key, value in container.items() if key not in _PROGRAM_FIELDS}, "command": command}


def with_domain_affinity(job: JSON, js: JobSet, name: str) -> JSON:
    """The Job of a spare, whose pods have an affinity to the topology domain of ReplicatedJob `name`.

    If each Job has a domain of its own, the affinity is to the Job with the same index. Pods of spares are in no
    scheduling group, since a gang would then be complete with a spare instead of a worker.
    """
    if js.spec.scheduling is None:
        return job
    job_keys = js.spec.scheduling.job_topology_keys(name)
    topology = (*js.spec.scheduling.shared_topology_keys(name), *job_keys)
    if not topology:
        return job
    template = job["spec"]["template"]
    labels = {JOBSET_UID: js.metadata.uid, REPLICATED_JOB_NAME: name}
    if job_keys:
        labels[JOB_INDEX] = template["metadata"]["labels"][JOB_INDEX]
    affinity: JSON = template["spec"].get("affinity") or {}
    terms = [{"labelSelector": {"matchLabels": labels}, "topologyKey": key} for key in topology]
    pod_affinity = {**(affinity.get("podAffinity") or {}), REQUIRED: terms}
    spec = {**template["spec"], "affinity": {**affinity, "podAffinity": pod_affinity}}
    return {**job, "spec": {**job["spec"], "template": {**template, "spec": spec}}}


def rank_of(pod: str) -> str:
    """The name of a pod without its random suffix, so the name of the Job and the completion index."""
    return pod.rpartition("-")[0]


def leader_rank_of(rank: str) -> str:
    """The rank of the leader in the Job of a pod with this rank."""
    return f"{rank.rpartition('-')[0]}-0"


def followers_promise(rank: str) -> str:
    """The promise to all followers of a Job, once the leader, which has this rank, was given a domain."""
    return f"{rank.rpartition('-')[0]}-*"


def counted_place_note(pod: str) -> str:
    """The note among the promises that the place of this pod, which has no promise, is counted but not given yet."""
    return f"{COUNTED_PREFIX}{pod}"


def promises_to(rank: str, *, exclusive: bool) -> frozenset[str]:
    """The promises that hold back a pod with this rank. In exclusive placement the Job moves as a whole."""
    leader = leader_rank_of(rank)
    if not exclusive or rank == leader:
        return frozenset((rank,))
    return frozenset((leader, followers_promise(rank)))


def is_filled_in(template: Any) -> bool:
    """Whether a template of spares has been filled in, so that each of its containers has an image."""
    containers = items(dig(template, "spec", "template", "spec"), "containers")
    return bool(containers) and all(dig(container, "image") for container in containers)
