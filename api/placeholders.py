"""Placeholders: Jobs that wait for room in place of the missing Jobs of a set. See docs/concepts/elastic.md.

A placeholder has the name and the pods of the missing Job, but its containers only wait. Its label says that it belongs
to the previous attempt. So every restart deletes it with the Jobs of that attempt, and so does a controller that does
not know placeholders.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from api import keys
from api.batch import Job
from api.jobset import JobSet
from api.names import job_name
from api.restart_agent import NAME as AGENT
from api.restart_agent import with_held_sidecar
from api.spares import HOLD_COMMAND, JOB_FIELDS
from kube.model.jsontree import items
from kube.model.meta import JSON, MAX_INT32

MAX_PLACEHOLDERS: Final = 50
"""At most this many placeholders exist for one ReplicatedJob at a time."""

_NO_OP_COMMAND: Final = ("sh", "-c", ":")
_PROGRAM_FIELDS: Final = frozenset(
    {"args", "command", "lifecycle", "livenessProbe", "readinessProbe", "restartPolicy", "restartPolicyRules"}
    | {"startupProbe"}
)


def missing_job_indexes(js: JobSet) -> Mapping[str, range]:
    """By ReplicatedJob, the indexes of the missing Jobs that may have placeholders. `js`: the set with all its Jobs."""
    full_sizes = {rjob.name: rjob.replicas for rjob in js.spec.replicated_jobs}
    return {
        entry.name: range(entry.replicas, min(full_sizes.get(entry.name, 0), entry.replicas + MAX_PLACEHOLDERS))
        for entry in js.status.reduced_replicas
    }


def placeholders_of(js: JobSet, jobs: Iterable[Job]) -> tuple[Job, ...]:
    """The placeholders among the Jobs of the set that were created in the current attempt."""
    if not js.status.reduced_replicas or js.spec.suspend or js.status.terminal_state:
        return ()
    attempt = str(js.status.restarts - 1)
    names = {
        job_name(js.metadata.name, name, index): (name, str(index))
        for name, indexes in missing_job_indexes(js).items()
        for index in indexes
    }
    return tuple(job for job in jobs if _is_placeholder_at(job, attempt, names.get(job.metadata.name)))


def _is_placeholder_at(job: Job, attempt: str, job_position: tuple[str, str] | None) -> bool:
    """Whether the Job has the labels of a placeholder of this attempt, at this ReplicatedJob and index."""
    labels = job.metadata.labels
    position = labels.get(keys.REPLICATED_JOB_NAME), labels.get(keys.JOB_INDEX)
    return (
        labels.get(keys.PLACEHOLDER) == "true"
        and labels.get(keys.RESTART_ATTEMPT) == attempt
        and position == job_position
    )


def as_placeholder(job: JSON) -> JSON:
    """The placeholder of a Job. Its pods request the same resources and pull the same images.

    The pods only run a shell that sleeps, so the placeholder neither fails nor completes.
    """
    meta, spec = job["metadata"], job["spec"]
    pods, placeholder_label = spec["template"], {keys.PLACEHOLDER: "true"}
    labels = {**(pods["metadata"].get("labels") or {}), **placeholder_label}
    return {
        **job,
        "metadata": {**meta, "labels": {**meta["labels"], **placeholder_label}},
        "spec": {
            **{key: spec[key] for key in JOB_FIELDS if spec.get(key) is not None},
            "backoffLimit": MAX_INT32,
            "template": {
                **pods,
                "metadata": {**pods["metadata"], "labels": labels},
                "spec": _waiting_pod_spec(pods["spec"]),
            },
        },
    }


def _waiting_pod_spec(pod: JSON) -> JSON:
    """The pod spec with all images and all fields that kube-scheduler reads, and with commands that only wait."""
    init_containers: list[JSON] = []
    agent: JSON | None = None
    for container in items(pod, "initContainers"):
        is_sidecar = container.get("restartPolicy") == "Always"
        if container.get("name") == AGENT and is_sidecar:
            agent = container
        elif container.get("name") == AGENT:
            init_containers.append(container)  # its own command stays, since its image may have no shell
        else:
            held_container = _with_command(container, HOLD_COMMAND if is_sidecar else _NO_OP_COMMAND)
            init_containers.append({**held_container, "restartPolicy": "Always"} if is_sidecar else held_container)
    held_pod = {
        **{key: value for key, value in pod.items() if key not in {"activeDeadlineSeconds", "initContainers"}},
        **({"initContainers": init_containers} if init_containers else {}),
        "containers": [_with_command(container, HOLD_COMMAND) for container in items(pod, "containers")],
        "restartPolicy": "OnFailure",
        "terminationGracePeriodSeconds": 1,
    }
    return held_pod if agent is None else with_held_sidecar(held_pod, agent)


def _with_command(container: JSON, command: Iterable[str]) -> JSON:
    fields = {key: value for key, value in container.items() if key not in _PROGRAM_FIELDS}
    return {**fields, "command": [*command]}
