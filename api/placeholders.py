"""Placeholders: Jobs that hold room for those that a smaller set goes without. See docs/concepts/elastic.md.

A placeholder has the name and the pods of the Job whose place it holds, with a process that waits instead of the
program. Its label says that it belongs to the earlier attempt. So a controller that does not know placeholders deletes
it with the Jobs of that attempt, and so does every restart.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from api import keys
from api.batch import Job
from api.jobset import JobSet
from api.names import job_name
from api.restart_agent import NAME as AGENT
from api.restart_agent import with_held_sidecar
from api.spares import HOLD
from kube.model.jsontree import items
from kube.model.meta import JSON, MAX_INT32

MAX_PLACEHOLDERS: Final = 50
"""Placeholders of one ReplicatedJob at a time."""

_NOTHING: Final = ("sh", "-c", ":")
_JOB_FIELDS: Final = ("parallelism", "completions", "completionMode")
_PROGRAM_FIELDS: Final = frozenset(
    {"args", "command", "lifecycle", "livenessProbe", "readinessProbe", "restartPolicy", "restartPolicyRules"}
    | {"startupProbe"}
)


def places(js: JobSet) -> Mapping[str, range]:
    """The indexes that a smaller set may have placeholders for, by ReplicatedJob. `js`: the set with all its Jobs."""
    wanted = {rjob.name: rjob.replicas for rjob in js.spec.replicated_jobs}
    found = ((entry.name, entry.replicas) for entry in js.status.reduced_replicas)
    return {name: range(size, min(wanted.get(name, 0), size + MAX_PLACEHOLDERS)) for name, size in found}


def placeholders_of(js: JobSet, jobs: Iterable[Job]) -> tuple[Job, ...]:
    """The Jobs of the set that are placeholders of the current attempt; other placeholders are of earlier attempts."""
    if not js.status.reduced_replicas or js.spec.suspend or js.status.terminal_state:
        return ()
    attempt = str(js.status.restarts - 1)
    names = {
        job_name(js.metadata.name, name, index): (name, str(index))
        for name, indexes in places(js).items()
        for index in indexes
    }
    return tuple(job for job in jobs if _is_at(job, attempt, names.get(job.metadata.name)))


def _is_at(job: Job, attempt: str, job_position: tuple[str, str] | None) -> bool:
    """Whether the labels are those of a placeholder of that attempt, at that ReplicatedJob and index."""
    labels = job.metadata.labels
    position = labels.get(keys.REPLICATED_JOB_NAME), labels.get(keys.JOB_INDEX)
    return (
        labels.get(keys.PLACEHOLDER) == "true"
        and labels.get(keys.RESTART_ATTEMPT) == attempt
        and position == job_position
    )


def as_placeholder(job: JSON) -> JSON:
    """The Job as a placeholder: its pods request the same resources and pull the same images.

    They only run a shell that sleeps, so the Job neither fails nor completes.
    """
    meta, spec = job["metadata"], job["spec"]
    pods, mark = spec["template"], {keys.PLACEHOLDER: "true"}
    labels = {**(pods["metadata"].get("labels") or {}), **mark}
    return {
        **job,
        "metadata": {**meta, "labels": {**meta["labels"], **mark}},
        "spec": {
            **{key: spec[key] for key in _JOB_FIELDS if spec.get(key) is not None},
            "backoffLimit": MAX_INT32,
            "template": {**pods, "metadata": {**pods["metadata"], "labels": labels}, "spec": _holding(pods["spec"])},
        },
    }


def _holding(pod: JSON) -> JSON:
    """The pod spec with all that kube-scheduler looks at, and all images."""
    before: list[JSON] = []
    agent: JSON | None = None
    for each in items(pod, "initContainers"):
        is_sidecar = each.get("restartPolicy") == "Always"
        if each.get("name") == AGENT and is_sidecar:
            agent = each
        elif each.get("name") == AGENT:
            before.append(each)  # it copies itself: its image may have no shell
        else:
            holding = _with_command(each, HOLD if is_sidecar else _NOTHING)
            before.append({**holding, "restartPolicy": "Always"} if is_sidecar else holding)
    held_pod = {
        **{key: value for key, value in pod.items() if key not in {"activeDeadlineSeconds", "initContainers"}},
        **({"initContainers": before} if before else {}),
        "containers": [_with_command(each, HOLD) for each in items(pod, "containers")],
        "restartPolicy": "OnFailure",
        "terminationGracePeriodSeconds": 1,
    }
    return held_pod if agent is None else with_held_sidecar(held_pod, agent)


def _with_command(container: JSON, command: Iterable[str]) -> JSON:
    fields = {key: value for key, value in container.items() if key not in _PROGRAM_FIELDS}
    return {**fields, "command": [*command]}
