"""Checks of the manager: whether it runs, is ready, does its work, and has recorded the end of a JobSet. Pure.

A manager is a process of this controller. Of several managers, the one that holds the Lease `keys.LEASE` reconciles the
JobSets. A manager that is not ready writes the reason into an annotation of the Lease: its readiness report.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from api import keys
from api.batch import Job
from api.own_fields import OWN_FIELDS, own_field_locations
from diagnose.answers import Answer
from diagnose.case import Case
from diagnose.facts import SeenLease, SeenPod
from diagnose.finding import Finding, Level, pluralize
from diagnose.states import State
from diagnose.survey import Survey
from diagnose.times import age, seconds_since
from manifests.naming import OTHER_MANAGER, RESTORE_MANAGER

IDLE_SECONDS = 60.0
"""A manager is idle if a JobSet has neither Jobs nor a status this number of seconds after its creation."""
_NO_MANAGER, _NOT_READY = "no-manager", "manager-not-ready"
CAUSES_WITHOUT_MANAGER = (_NO_MANAGER, _NOT_READY)
"""The values of `cause` of the findings of `missing_manager_finding`, which are the same for all JobSets."""
_NAMESPACE_FLAG = f"-n {keys.MANAGER_NAMESPACE}"
"""The flag of kubectl for the namespace of the manager."""
_START_FIX = (
    f"kubectl {_NAMESPACE_FLAG} get deployments,pods shows what there is; a Deployment with 0 replicas is started by"
    f" kubectl {_NAMESPACE_FLAG} scale deployment --all --replicas=1, one whose pods do not work by kubectl"
    f" {_NAMESPACE_FLAG} rollout restart deployment; on your own machine: make run in a clone, or after a demo jobset"
    " cluster status, which says as well what one that runs and is not ready lacks. A manager without --leader-elect or"
    " in another namespace is not seen here"
)
"""The fix if no manager runs."""
_JOBS_ARE_NOT_RUN = "Jobs are neither created nor restarted nor placed"
_LOG_FIX = "the message says what to do, or the log of that manager; jobset cluster status asks one on your own machine"
RIGHTS_FIX = "kubectl apply --server-side --force-conflicts -k manifests/rbac gives it its rights back"
_MISSING_RIGHT = re.compile("403 Forbidden|the manager may not")
REPORT_SECONDS = 60.0
"""Seconds for which a readiness report counts. A manager that is not ready writes it again every half minute."""
_REPORT = re.compile(r"(?P<time>\S+) (?P<manager>\S+): (?P<reason>.+)", re.DOTALL)
"""The form of a readiness report: its time as RFC 3339, the name of the manager, and the reason."""


def no_manager(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """No manager runs, so nothing is created, restarted or placed."""
    if case.is_manager_missing and unexplained_jobs:
        created = case.facts.jobset.metadata.creation_timestamp or ""
        yield Answer(missing_manager_finding(case.facts.lease, case.facts.manager_pods, case.facts.now, created))


def unready_leader(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """The manager that holds the Lease has reported that it is not ready."""
    report = _readiness_report(case.facts.lease, case.facts.now)
    if report is not None and unexplained_jobs and not case.is_manager_missing:
        message = f"manager {report.manager} holds the lease and {report.predicate}"
        yield Answer(Finding(Level.FAULT, "leader-not-ready", message, fix=report.fix))


def other_manager(case: Case, _unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """Another program writes the status (without `readyJobs`), and the JobSet has fields of this controller only."""
    js = case.facts.jobset
    if js.status.ready_jobs or not js.status.replicated_jobs_status or case.is_manager_missing:
        return
    set_fields = [field for _, _, field, _ in own_field_locations(msgspec.to_builtins(js.spec))]
    if fields := [".".join(parts) for parts, field in OWN_FIELDS.items() if field in set_fields]:
        message = f"{OTHER_MANAGER}: {', '.join(fields)}"
        yield Answer(Finding(Level.FAULT, "other-manager", message, fix=RESTORE_MANAGER))


def missing_manager_finding(
    lease: SeenLease | None, manager_pods: Sequence[SeenPod], now: datetime, created: str = ""
) -> Finding:
    """The finding that no manager holds the Lease, because none runs or the one that runs is not ready.

    `manager_pods`: the live pods of managers. `created`: the creation time of the JobSet as RFC 3339; empty if the
    finding is about all JobSets.
    """
    renewed = (lease.spec.renew_time if lease else None) or ""
    since = max(renewed, created) if renewed else ""
    if report := _readiness_report(lease, now):
        message = f"manager {report.manager} runs and {report.predicate}; until then {_JOBS_ARE_NOT_RUN}"
        is_pod = report.manager in {pod.name for pod in manager_pods}
        fix = _readiness_fix(report.manager) if is_pod and report.fix != RIGHTS_FIX else report.fix
        return Finding(Level.FAULT, _NOT_READY, message, fix=fix, since=since)
    message = "no manager holds the lease" if renewed else "no manager has ever taken the lease"
    reasons = "none runs, or one that runs may not take it"
    message = f"{message} in namespace {keys.MANAGER_NAMESPACE} ({reasons}): {_JOBS_ARE_NOT_RUN}"
    cause, fix = _NO_MANAGER, _START_FIX
    pod = None if any(pod.is_ready for pod in manager_pods) else next(iter(manager_pods), None)
    if pod is not None and pod.status.phase == "Running" and not pod.has_stopped_container:
        cause, fix = _NOT_READY, _readiness_fix(pod.name)
        message = f"{message}; manager {pod.name} runs and is not ready"
    elif pod is not None:
        cause, describe = _NOT_READY, f"kubectl describe pod {_NAMESPACE_FLAG} {pod.name}"
        fix = f"kubectl logs {_NAMESPACE_FLAG} {pod.name} --previous; {describe}" if pod.trouble else describe
        message = f"{message}; manager {pod.name} does not run: {pod.trouble or pod.status.phase}"
    return Finding(Level.FAULT, cause, message, fix=fix, since=since)


class _ReadinessReport(NamedTuple):
    """The report of a manager that it is not ready. `predicate` says so with the reason, for a sentence about it."""

    manager: str
    predicate: str
    fix: str


def _readiness_report(lease: SeenLease | None, now: datetime) -> _ReadinessReport | None:
    """The readiness report in the annotation of the Lease; None if there is none, or if it is too old to count."""
    match = _REPORT.fullmatch(lease.metadata.annotations.get(keys.NOT_READY, "") if lease else "")
    if match is None or (report_age := seconds_since(match["time"], now)) > REPORT_SECONDS:
        return None
    fix = RIGHTS_FIX if _MISSING_RIGHT.search(match["reason"]) else _LOG_FIX
    return _ReadinessReport(match["manager"], f"is not ready: {match['reason']} (said {age(report_age)} ago)", fix)


def _readiness_fix(manager_pod: str) -> str:
    """The fix that shows why a manager is not ready: the commands for its endpoint `/readyz` and for its log."""
    path = f"/api/v1/namespaces/{keys.MANAGER_NAMESPACE}/pods/{manager_pod}:8081/proxy/readyz?verbose"
    return f'kubectl get --raw "{path}" names missing rights and caches; kubectl logs {_NAMESPACE_FLAG} {manager_pod}'


def idle_manager_finding(case: Case) -> Finding | None:
    """The finding that the JobSet has neither Jobs nor a status, although a manager holds the Lease; None otherwise."""
    js, lease = case.facts.jobset, case.facts.lease
    jobset_age = seconds_since(js.metadata.creation_timestamp, case.facts.now, unknown=0)
    if lease is None or case.is_manager_missing or jobset_age < IDLE_SECONDS:
        return None
    if case.facts.jobs or js.status.restarts or js.status.replicated_jobs_status:
        return None
    holder = (lease.spec.holder_identity or "").partition("_")[0]
    pod = next((pod for pod in case.facts.manager_pods if pod.name == holder), None)
    message = f"a manager runs ({holder} holds the lease) and has done nothing for {age(jobset_age)}"
    if pod is not None and not pod.is_ready:
        message = f"{message}; it is not ready: a right is missing, or a cache is not filled"
    else:
        message = f"{message}: may it list what it reads?"
    return Finding(Level.FAULT, "manager-idle", message, fix=_readiness_fix(holder))


END_WRITE_SECONDS = 30.0
"""Seconds after the completion of the last Job within which a manager normally writes the end into the status."""
_UNWRITTEN_FIX = f"kubectl logs {_NAMESPACE_FLAG} deployment/jobset-controller-manager says why it does not write it"


def last_completion_time(survey: Survey, jobs: Sequence[Job]) -> str:
    """When the last Job of a JobSet completed, as RFC 3339; empty if not all Jobs have completed."""
    conditions = (condition for job in jobs for condition in job.status.conditions if condition.status == "True")
    times = [condition.last_transition_time for condition in conditions if condition.type == keys.JOB_COMPLETE]
    have_all_completed = len(times) >= max(survey.job_count, len(jobs), 1) and not survey.unsettled_names
    return max(times) if have_all_completed else ""


def unwritten_status(case: Case, _unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """All Jobs have completed, and no manager has written the end of the JobSet into the status."""
    survey, jobs = case.survey, case.facts.jobs or ()
    completed_at = last_completion_time(survey, jobs)
    seconds_ago = seconds_since(completed_at, case.facts.now, unknown=0)
    if seconds_ago < END_WRITE_SECONDS:
        return
    because: tuple[Finding, ...] = ()
    if case.is_manager_missing:
        because = (missing_manager_finding(case.facts.lease, case.facts.manager_pods, case.facts.now, completed_at),)
    completed = pluralize(survey.job_count, "Job", "has completed", "have completed")
    finding = Finding(
        Level.FAULT,
        "status-not-written",
        f"its {completed} {age(seconds_ago)} ago, and no manager has written that into its status",
        because=because,
        fix="" if because else f"{_UNWRITTEN_FIX}; if it lacks a right: {RIGHTS_FIX}",
        since=completed_at,
    )
    yield Answer(finding, state=State.WAITING)
