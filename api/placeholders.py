"""Builds placeholders: Jobs that reserve nodes for missing Jobs of an elastic ReplicatedJob. Pure.

An elastic ReplicatedJob can run with fewer Jobs than `replicas` while nodes are missing (docs/concepts/elastic.md). A
placeholder has the name of a missing Job, and its pods request the same resources, but only wait. When all pods of
placeholders run, there are enough nodes for the missing Jobs.

Each restart of a JobSet begins a new attempt and deletes the Jobs of earlier attempts. The label of a placeholder names
the attempt before the current one. So the next restart deletes it, even by a controller that knows no placeholders.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from api import keys
from api.batch import Job
from api.jobset import JobSet
from api.names import job_name
from api.restart_agent import NAME as AGENT
from api.restart_agent import with_waiting_sidecar
from api.spares import HOLD_COMMAND, JOB_FIELDS
from kube.model.jsontree import items
from kube.model.meta import JSON, MAX_INT32

MAX_PLACEHOLDERS: Final = 50
"""At most this many placeholders exist for one ReplicatedJob at a time."""

_NO_OP_COMMAND: Final = ("sh", "-c", ":")
"""A command that ends at once, for init containers."""
_PROGRAM_FIELDS: Final = frozenset(
    {"args", "command", "lifecycle", "livenessProbe", "readinessProbe", "restartPolicy", "restartPolicyRules"}
    | {"startupProbe"}
)
"""Fields of a container that only make sense for its own program."""


def missing_job_indexes(js: JobSet) -> Mapping[str, range]:
    """The indexes of the missing Jobs that may have placeholders, by name of the ReplicatedJob.

    `js`: the JobSet as it is stored, not with `with_current_replicas`.
    """
    full_sizes = {rjob.name: rjob.replicas for rjob in js.spec.replicated_jobs}
    return {
        entry.name: range(entry.replicas, min(full_sizes.get(entry.name, 0), entry.replicas + MAX_PLACEHOLDERS))
        for entry in js.status.reduced_replicas
    }


def placeholders_of(js: JobSet, jobs: Iterable[Job]) -> tuple[Job, ...]:
    """The Jobs among `jobs` that are placeholders and were created in the current attempt."""
    if not js.status.reduced_replicas or js.spec.suspend or js.status.terminal_state:
        return ()
    attempt = str(js.status.restarts - 1)
    missing_jobs = {
        job_name(js.metadata.name, name, index): (name, str(index))
        for name, indexes in missing_job_indexes(js).items()
        for index in indexes
    }
    return tuple(job for job in jobs if _is_placeholder_of(missing_jobs.get(job.metadata.name), job, attempt))


def _is_placeholder_of(missing_job: tuple[str, str] | None, job: Job, attempt: str) -> bool:
    """Whether the labels of a Job are those of the placeholder of a missing Job in this attempt.

    `missing_job`: name of the ReplicatedJob, and index of the missing Job; None if no missing Job has the Job's name.
    """
    labels = job.metadata.labels
    return (
        labels.get(keys.PLACEHOLDER) == "true"
        and labels.get(keys.RESTART_ATTEMPT) == attempt
        and (labels.get(keys.REPLICATED_JOB_NAME), labels.get(keys.JOB_INDEX)) == missing_job
    )


def as_placeholder(job: JSON) -> JSON:
    """The body of a placeholder, made from the body of the missing Job.

    Its pods request the same resources and pull the same images. They only run a shell that sleeps, so the placeholder
    neither fails nor completes.
    """
    meta, spec = job["metadata"], job["spec"]
    pod_template, placeholder_label = spec["template"], {keys.PLACEHOLDER: "true"}
    labels = {**(pod_template["metadata"].get("labels") or {}), **placeholder_label}
    return {
        **job,
        "metadata": {**meta, "labels": {**meta["labels"], **placeholder_label}},
        "spec": {
            **{key: spec[key] for key in JOB_FIELDS if spec.get(key) is not None},
            "backoffLimit": MAX_INT32,
            "template": {
                **pod_template,
                "metadata": {**pod_template["metadata"], "labels": labels},
                "spec": _waiting_pod_spec(pod_template["spec"]),
            },
        },
    }


def _waiting_pod_spec(pod: JSON) -> JSON:
    """The pod spec with the same images and the same fields for kube-scheduler, whose containers only wait."""
    init_containers: list[JSON] = []
    agent_sidecar: JSON | None = None
    for container in items(pod, "initContainers"):
        is_sidecar = container.get("restartPolicy") == "Always"
        if container.get("name") == AGENT and is_sidecar:
            agent_sidecar = container
        elif container.get("name") == AGENT:
            init_containers.append(container)  # its own command stays, since its image may have no shell
        else:
            new_container = _with_command(container, HOLD_COMMAND if is_sidecar else _NO_OP_COMMAND)
            init_containers.append({**new_container, "restartPolicy": "Always"} if is_sidecar else new_container)
    waiting_pod = {
        **{key: value for key, value in pod.items() if key not in {"activeDeadlineSeconds", "initContainers"}},
        **({"initContainers": init_containers} if init_containers else {}),
        "containers": [_with_command(container, HOLD_COMMAND) for container in items(pod, "containers")],
        "restartPolicy": "OnFailure",
        "terminationGracePeriodSeconds": 1,
    }
    return waiting_pod if agent_sidecar is None else with_waiting_sidecar(waiting_pod, agent_sidecar)


def _with_command(container: JSON, command: Iterable[str]) -> JSON:
    """The container with this command instead of its own program."""
    fields = {key: value for key, value in container.items() if key not in _PROGRAM_FIELDS}
    return {**fields, "command": [*command]}
