"""The page's data about one JobSet: a row of the list, and all its details. Pure.

The members of these objects are read by static/ui.js only. States are words, each with one meaning.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from api import keys
from api.batch import Job, is_job_ready, pods_at_once
from api.gang_status import INITIALLY_SCHEDULED, StoredGroup
from api.jobset import JobSet, ReplicatedJob
from api.jobset_status import ReplicatedJobStatus, SpareStatus
from api.spares import running_part
from api.stages import Stage, is_ordered, stage_name, stages
from diagnose.restart_causes import attempt_text
from diagnose.states import State, state_of
from kube.model.meta import JSON, NO_TEXTS, find
from ui.records import PlacedPod, SeenNode, topologies, truncate
from ui.timeline import timeline
from ui.topology import domain_map

MAX_JOBS = 300
"""Jobs that are listed one by one; the others are counted."""
MAX_GROUPS = 200
MAX_MAPS = 3
"""Topologies of one set that are drawn."""


def row(js: JobSet, now: datetime, creation_times: Mapping[str, str] = NO_TEXTS) -> JSON:
    """A line of the list. `creation_times`: creation times of its Jobs, by name."""
    status, meta = js.status, js.metadata
    final_condition = find(status.conditions, status.terminal_state) if status.terminal_state else None
    policy = js.spec.failure_policy
    return {
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "state": state_of(js, now, creation_times).word,
        "stage": status.current_stage,
        "settled": _settled_jobs(js),
        "jobs": _wanted_jobs(js),
        "restarts": status.restarts,
        "maxRestarts": policy.max_restarts if policy is not None else 0,
        "created": meta.creation_timestamp or "",
        "ended": final_condition.last_transition_time if final_condition is not None else "",
        "cause": truncate(_cause(js, now)),
    }


def _cause(js: JobSet, now: datetime) -> str:
    """Why a JobSet waits or has ended, according to its status; empty for a running JobSet."""
    state = state_of(js, now)
    if state is State.KEEPS_FAILING:
        return attempt_text(js.status.attempt_history[-1])
    condition_types = {
        State.FAILED: keys.FAILED,
        State.RESTARTING: keys.RESTARTING,
        State.WAITING: keys.GROUPS_SCHEDULED,
    }
    condition = find(js.status.conditions, condition_types[state]) if state in condition_types else None
    return "" if condition is None or (state is State.WAITING and condition.status == "True") else condition.message


def _wanted_jobs(js: JobSet) -> int:
    return sum(rjob.replicas for rjob in running_part(js).with_current_replicas.spec.replicated_jobs)


def _settled_jobs(js: JobSet) -> int:
    """Jobs that are ready or have succeeded."""
    return sum(counts.ready + counts.succeeded for counts in running_part(js).status.replicated_jobs_status)


def detail(
    js: JobSet,
    *,
    jobs: Sequence[Job],
    pods: Iterable[PlacedPod],
    nodes: Sequence[SeenNode],
    groups: Sequence[StoredGroup],
    scope: str = "",
) -> JSON:
    """The page's details of one JobSet. `jobs` and `groups`: its own objects. `nodes`: all nodes of the cluster.

    `pods`: of all JobSets in the namespace `scope`, or in all namespaces if it is empty.
    """
    pods = list(pods)
    focus = js.metadata.namespace, js.metadata.name
    ordered_jobs = sorted(jobs, key=_sort_key)
    ordered_groups = sorted(groups, key=lambda group: group.metadata.name)
    return {
        "conditions": [
            {
                "type": condition.type,
                "status": condition.status,
                "reason": condition.reason,
                "message": truncate(condition.message),
                "since": condition.last_transition_time,
            }
            for condition in js.status.conditions
        ],
        "stages": _stages(js),
        "jobList": [_job(job) for job in ordered_jobs[:MAX_JOBS]],
        "jobsLeftOut": max(len(ordered_jobs) - MAX_JOBS, 0),
        "timeline": timeline(js, state_of(js).word),
        "maps": [domain_map(key, nodes, pods, focus, scope=scope) for key in topologies(js)[:MAX_MAPS]],
        "groups": [_group(group) for group in ordered_groups[:MAX_GROUPS]],
        "groupsLeftOut": max(len(ordered_groups) - MAX_GROUPS, 0),
    }


def _stages(js: JobSet) -> list[JSON]:
    """The stages in the order of start. ReplicatedJobs that start together are in one stage."""
    counts = {status.name: status for status in js.status.replicated_jobs_status}
    ordered_stages = stages(js.spec) or ((js.spec.replicated_jobs,) if js.spec.replicated_jobs else ())
    return [_stage(js, stage, counts) for stage in ordered_stages]


def _stage(js: JobSet, stage: Stage, counts: dict[str, ReplicatedJobStatus]) -> JSON:
    return {
        "name": stage_name(stage),
        "replicatedJobs": [_replicated_job(js, rjob, counts.get(rjob.name)) for rjob in stage],
    }


def _replicated_job(js: JobSet, rjob: ReplicatedJob, status: ReplicatedJobStatus | None) -> JSON:
    if rjob.spare_for:
        return _spares(js, rjob)
    return {
        "name": rjob.name,
        "replicas": rjob.replicas,
        "podsPerJob": pods_at_once(rjob),
        "state": _replicated_job_state(rjob, status),
        "ready": status.ready if status else 0,
        "active": status.active if status else 0,
        "succeeded": status.succeeded if status else 0,
        "failed": status.failed if status else 0,
        "suspended": status.suspended if status else 0,
        "after": _start_conditions(js, rjob),
    }


def _spares(js: JobSet, rjob: ReplicatedJob) -> JSON:
    """A ReplicatedJob of spares, which is not part of the running JobSet, so that it is neither active nor waiting."""
    spare_status = next((entry for entry in js.status.spares if entry.name == rjob.name), SpareStatus(name=rjob.name))
    return {
        "name": rjob.name,
        "replicas": rjob.replicas,
        "podsPerJob": pods_at_once(rjob),
        "state": f"Spares for {rjob.spare_for}",
        "ready": spare_status.ready,
        "missing": spare_status.missing,
        "used": spare_status.used,
        "succeeded": 0,
        "failed": 0,
        "after": [],
    }


def _replicated_job_state(rjob: ReplicatedJob, status: ReplicatedJobStatus | None) -> str:
    if status is None:
        return "Waiting"
    if status.failed:
        return "Failed"
    if rjob.replicas and status.succeeded >= rjob.replicas:
        return "Completed"
    if status.ready + status.succeeded >= rjob.replicas:
        return "Running"
    if status.suspended:
        return "Suspended"
    return "Starting" if status.active or status.ready or status.succeeded else "Waiting"


def _start_conditions(js: JobSet, rjob: ReplicatedJob) -> list[str]:
    """The states before which the ReplicatedJob does not start, by dependsOn or by the deprecated startupPolicy."""
    if rjob.depends_on:
        return [f"{dependency.name} ({dependency.status})" for dependency in rjob.depends_on]
    names = [dependency.name for dependency in js.spec.replicated_jobs]
    position = names.index(rjob.name)
    return [f"{names[position - 1]} (Ready)"] if is_ordered(js.spec) and position else []


def _sort_key(job: Job) -> tuple[str, int, str]:
    index = job.metadata.labels.get(keys.JOB_INDEX, "")
    number = int(index) if index.isascii() and index.isdigit() and len(index) < len("2147483647") else 0
    return job.metadata.labels.get(keys.REPLICATED_JOB_NAME, ""), number, job.metadata.name


def _job(job: Job) -> JSON:
    return {
        "name": job.metadata.name,
        "replicatedJob": job.metadata.labels.get(keys.REPLICATED_JOB_NAME, ""),
        "attempt": job.metadata.labels.get(keys.RESTART_ATTEMPT, ""),
        "state": job_state(job),
        "pods": pods_at_once(job.spec),
        "active": job.status.active,
        "ready": job.status.ready or 0,
        "succeeded": job.status.succeeded,
        "message": truncate(job.failure.message) if job.failure is not None else "",
    }


def job_state(job: Job) -> str:
    """The state of a Job in one or two words."""
    finished = job.outcome
    if finished is not None:
        return "Completed" if finished == keys.JOB_COMPLETE else "Failed"
    if job.metadata.deletion_timestamp is not None:
        return "Being deleted"
    if job.spec.suspend:
        return "Suspended"
    if is_job_ready(job):
        return "Running"
    return "Starting" if job.status.active else "Waiting"


def _group(group: StoredGroup) -> JSON:
    policy = group.spec.scheduling_policy
    condition = find(group.status.conditions or (), INITIALLY_SCHEDULED)
    state = "" if condition is None else "Scheduled" if condition.status == "True" else "Not scheduled yet"
    return {
        "name": group.metadata.name,
        "parent": group.spec.parent_composite_pod_group_name or "",
        "gang": policy.gang is not None,
        "least": policy.gang.count if policy.gang is not None else 0,
        "state": state,
        "message": truncate(condition.message) if condition is not None and condition.status != "True" else "",
    }
