"""Spares: Jobs whose pods reserve places for the pods of another ReplicatedJob. See docs/concepts/spares.md.

A ReplicatedJob with `spareFor` has spares. Their pods only wait. A place is what such a pod occupies on its node: the
requested resources, and the pulled images. If a pod of the other ReplicatedJob loses its node, a spare pod is deleted,
and the pod that comes instead of the lost pod gets its place. Meanwhile the place is promised in the status of the
JobSet. The promise names the rank of the lost pod, which is its name without the random suffix. In exclusive placement,
where each Job has a topology domain for itself, the promise is to the leader of a Job, which is its pod with completion
index 0. The other pods are its followers.

Spares do not run the user's program. So code that counts the Jobs of a JobSet counts the Jobs of its `running_part`.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from api.jobset import JobSet, ReplicatedJob
from api.keys import EXCLUSIVE_TOPOLOGY, JOB_INDEX, JOBSET_UID, REPLICATED_JOB_NAME
from kube.model.jsontree import dig, items
from kube.model.meta import JSON, MAX_INT32

GATE: Final = "JobSetSpares"
"""The feature gate of spares."""
MAX_GROUPS: Final = 8
"""At most this many ReplicatedJobs of spares in one JobSet, since each has a copy of a template."""

HOLD_COMMAND: Final = ("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done")
"""The command of spares: a shell that only waits, and ends at once on SIGTERM."""
_PROGRAM_FIELDS: Final = frozenset(
    {"command", "args", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "restartPolicyRules", "ports"}
)
"""Fields of a container that only make sense for its own program."""
_FLAVOR_FIELDS: Final = ("nodeSelector", "tolerations")
"""Fields that Kueue sets in a pod template, by the ResourceFlavor that it assigns to the ReplicatedJob."""
COUNTED_PREFIX: Final = "="
"""The first character of a `counted_place_note`. No rank begins with it."""
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
"""The field of an affinity with the terms that kube-scheduler must obey."""
_NUMBERS_OF_PODS: Final = ("parallelism", "completions")
JOB_FIELDS: Final = (*_NUMBERS_OF_PODS, "completionMode")
"""Fields of a Job spec that decide how many pods the Job has, and how it numbers them."""


def spares_of(js: JobSet) -> tuple[ReplicatedJob, ...]:
    """The ReplicatedJobs of the JobSet whose Jobs are spares."""
    return tuple(rjob for rjob in js.spec.replicated_jobs if rjob.spare_for)


def running_part(js: JobSet) -> JobSet:
    """The JobSet without spares in its spec and its counts; the same object if it has no spares."""
    running_rjobs = tuple([rjob for rjob in js.spec.replicated_jobs if not rjob.spare_for])
    if len(running_rjobs) == len(js.spec.replicated_jobs):
        return js
    names = {spare.name for spare in spares_of(js)}
    counts = tuple(entry for entry in js.status.replicated_jobs_status if entry.name not in names)
    return msgspec.structs.replace(
        js,
        spec=msgspec.structs.replace(js.spec, replicated_jobs=running_rjobs),
        status=msgspec.structs.replace(js.status, replicated_jobs_status=counts),
    )


def has_nodes_of(spare: ReplicatedJob, js: JobSet) -> bool:
    """Whether the pods of a ReplicatedJob of spares select the same nodes as the pods for which they reserve places.

    They do when a JobSet is created. But a queue such as Kueue may set other node selectors for each ReplicatedJob.
    """
    target = next((rjob for rjob in js.spec.replicated_jobs if rjob.name == spare.spare_for), spare)
    return all((spare.pod_spec.get(key) or None) == (target.pod_spec.get(key) or None) for key in _FLAVOR_FIELDS)


def spare_template(template: Any, own_template: Any) -> JSON:
    """The Job template of spares, which the mutating webhook fills in.

    `template`: the template of the Jobs for whose pods the spares reserve places. `own_template`: what the user wrote
    as the template of the spares. It can set the number of pods and commands of containers. The result has no labels,
    since a Service must not select spare pods, and no init containers except sidecars, since spares need no setup.
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
    """The container with a command that only waits instead of its program. `commands`: by name of the container."""
    if not isinstance(container, dict):
        return container
    name = container.get("name")
    command = commands.get(name if isinstance(name, str) else "", list(HOLD_COMMAND))
    return {**{key: value for key, value in container.items() if key not in _PROGRAM_FIELDS}, "command": command}


def with_domain_affinity(job: JSON, js: JobSet, name: str) -> JSON:
    """The Job of a spare with an affinity of its pods to the topology domain of ReplicatedJob `name`.

    `spec.scheduling` may require that the pods of `name`, or of each of its Jobs, are in one topology domain. If each
    Job has a domain of its own, the affinity is to the Job with the same index. Pods of spares are in no scheduling
    group, because kube-scheduler would count them as members.
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
    """The rank of a pod: its name without the random suffix, which is `<job>-<completion index>`."""
    return pod.rpartition("-")[0]


def leader_rank_of(rank: str) -> str:
    """The rank of the leader in the Job of a pod with this rank."""
    return f"{rank.rpartition('-')[0]}-0"


def followers_promise(rank: str) -> str:
    """The promise to all pods of a Job except the leader, in exclusive placement once the leader has a domain.

    `rank`: the rank of any pod of the Job.
    """
    return f"{rank.rpartition('-')[0]}-*"


def counted_place_note(pod: str) -> str:
    """A note among the promises: a place for this pod is already counted as used, and is about to be given.

    It is for a pod that is not promised a place.
    """
    return f"{COUNTED_PREFIX}{pod}"


def promises_to(rank: str, *, exclusive: bool) -> frozenset[str]:
    """The promises for which a pod with this rank waits, if the status has one of them.

    In exclusive placement, all pods of a Job move together, so its followers wait for the promise to their leader.
    """
    leader = leader_rank_of(rank)
    if not exclusive or rank == leader:
        return frozenset((rank,))
    return frozenset((leader, followers_promise(rank)))


def is_filled_in(template: Any) -> bool:
    """Whether the mutating webhook has filled in a template of spares: each container has an image."""
    containers = items(dig(template, "spec", "template", "spec"), "containers")
    return bool(containers) and all(dig(container, "image") for container in containers)
