"""Causes about the manager: no manager runs, or it does nothing, or it has not recorded the end of a set. Pure."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

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
"""Seconds without Jobs and status after which a manager that holds the lease counts as idle."""
_NO_MANAGER, _NOT_READY = "no-manager", "manager-not-ready"
CAUSES_WITHOUT_MANAGER = (_NO_MANAGER, _NOT_READY)
"""The causes of the findings of `missing_manager`, which are the same for all JobSets."""
_NAMESPACE = f"-n {keys.MANAGER_NAMESPACE}"
"""The argument of kubectl for the namespace of the manager."""
_START_FIX = (
    f"kubectl {_NAMESPACE} get deployments,pods shows what there is; a Deployment with 0 replicas is started by kubectl"
    f" {_NAMESPACE} scale deployment --all --replicas=1, one whose pods do not work by kubectl {_NAMESPACE} rollout"
    " restart deployment; on your own machine: make run in a clone, or after a demo jobset cluster status, which says"
    " as well what one that runs and is not ready lacks. A manager without --leader-elect or in another namespace is"
    " not seen here"
)
"""How to start a manager."""
_NOT_DONE = "neither created nor restarted nor placed"
_LOG_FIX = "the message says what to do, or the log of that manager; jobset cluster status asks one on your own machine"
NOTE_SECONDS = 60.0
"""Seconds for which the note of a manager at the lease counts. A manager writes it every half minute."""
_NOTE_PATTERN = re.compile(r"(?P<time>\S+) (?P<manager>\S+): (?P<reason>.+)", re.DOTALL)
_MISSING_RIGHT = re.compile("403 Forbidden|the manager may not")
RIGHTS_FIX = "kubectl apply --server-side --force-conflicts -k manifests/rbac gives it its rights back"


def no_manager(case: Case, unexplained: frozenset[str]) -> Iterator[Answer]:
    """No manager runs, so nothing is created, restarted or placed."""
    if not case.is_manager_missing or not unexplained:
        return
    created = case.facts.jobset.metadata.creation_timestamp or ""
    yield Answer(missing_manager(case.facts.lease, case.facts.manager_pods, case.facts.now, created))


def unready_leader(case: Case, unexplained: frozenset[str]) -> Iterator[Answer]:
    """The manager that holds the lease has reported that it is not ready."""
    note = None if case.is_manager_missing or not unexplained else _readiness_note(case.facts.lease, case.facts.now)
    if note is not None:
        name, predicate, fix = note
        message = f"manager {name} holds the lease and {predicate}"
        yield Answer(Finding(Level.FAULT, "leader-not-ready", message, fix=fix))


def other_manager(case: Case, _unexplained: frozenset[str]) -> Iterator[Answer]:
    """The set has fields that the Go JobSet does not store, and a status that this program has not written."""
    js = case.facts.jobset
    if js.status.ready_jobs or not js.status.replicated_jobs_status or case.is_manager_missing:
        return
    set_fields = [field for _, _, field, _ in own_field_locations(msgspec.to_builtins(js.spec))]
    if fields := [".".join(parts) for parts, field in OWN_FIELDS.items() if field in set_fields]:
        message = f"{OTHER_MANAGER}: {', '.join(fields)}"
        yield Answer(Finding(Level.FAULT, "other-manager", message, fix=RESTORE_MANAGER))


def missing_manager(lease: SeenLease | None, managers: Sequence[SeenPod], now: datetime, created: str = "") -> Finding:
    """The finding that no manager holds the lease: none runs, or one runs and is not ready.

    `managers`: the live pods of the manager. `created`: the creation of the JobSet as RFC 3339, if the finding is about
    one JobSet.
    """
    renewed = (lease.spec.renew_time if lease else None) or ""
    since = max(renewed, created) if renewed else ""
    if note := _readiness_note(lease, now):
        name, predicate, fix = note
        message = f"manager {name} runs and {predicate}; until then Jobs are {_NOT_DONE}"
        if fix != RIGHTS_FIX and name in {manager.name for manager in managers}:
            fix = _ask_manager(name)
        return Finding(Level.FAULT, _NOT_READY, message, fix=fix, since=since)
    message = "no manager holds the lease" if renewed else "no manager has ever taken the lease"
    reasons = "none runs, or one that runs may not take it"
    message = f"{message} in namespace {keys.MANAGER_NAMESPACE} ({reasons}): Jobs are {_NOT_DONE}"
    cause, fix = _NO_MANAGER, _START_FIX
    pod = None if any(manager.is_ready for manager in managers) else next(iter(managers), None)
    if pod is not None and pod.status.phase == "Running" and not pod.has_stopped_container:
        cause, fix = _NOT_READY, _ask_manager(pod.name)
        message = f"{message}; manager {pod.name} runs and is not ready"
    elif pod is not None:
        cause, describe = _NOT_READY, f"kubectl describe pod {_NAMESPACE} {pod.name}"
        fix = f"kubectl logs {_NAMESPACE} {pod.name} --previous; {describe}" if pod.trouble else describe
        message = f"{message}; manager {pod.name} does not run: {pod.trouble or pod.status.phase}"
    return Finding(Level.FAULT, cause, message, fix=fix, since=since)


def _readiness_note(lease: SeenLease | None, now: datetime) -> tuple[str, str, str] | None:
    """The recent note at the lease that a manager is not ready: its name, a predicate with the reason, and the fix."""
    note = lease.metadata.annotations.get(keys.NOT_READY, "") if lease else ""
    if (match := _NOTE_PATTERN.fullmatch(note)) is None:
        return None
    ago, reason = seconds_since(match["time"], now), match["reason"]
    if ago > NOTE_SECONDS:
        return None
    fix = RIGHTS_FIX if _MISSING_RIGHT.search(reason) else _LOG_FIX
    return match["manager"], f"is not ready: {reason} (said {age(ago)} ago)", fix


def _ask_manager(pod: str) -> str:
    """How to ask a manager why it is not ready."""
    path = f"/api/v1/namespaces/{keys.MANAGER_NAMESPACE}/pods/{pod}:8081/proxy/readyz?verbose"
    return f'kubectl get --raw "{path}" names missing rights and caches; kubectl logs {_NAMESPACE} {pod}'


def idle_manager(case: Case) -> Finding | None:
    """The finding that the set has neither Jobs nor a status, although a manager holds the lease; None otherwise."""
    js, lease = case.facts.jobset, case.facts.lease
    waited = seconds_since(js.metadata.creation_timestamp, case.facts.now, unknown=0)
    if lease is None or case.is_manager_missing or waited < IDLE_SECONDS:
        return None
    if case.facts.jobs or js.status.restarts or js.status.replicated_jobs_status:
        return None
    holder = (lease.spec.holder_identity or "").partition("_")[0]
    pod = next((pod for pod in case.facts.manager_pods if pod.name == holder), None)
    message = f"a manager runs ({holder} holds the lease) and has done nothing for {age(waited)}"
    if pod is not None and not pod.is_ready:
        message = f"{message}; it is not ready: a right is missing, or a cache is not filled"
    else:
        message = f"{message}: may it list what it reads?"
    return Finding(Level.FAULT, "manager-idle", message, fix=_ask_manager(holder))


END_WRITE_SECONDS = 30.0
"""Seconds within which a manager writes into the status that a set has ended."""
_LOGS = f"kubectl logs -n {keys.MANAGER_NAMESPACE} deployment/jobset-controller-manager says why it does not write it"


def last_completion_time(survey: Survey, jobs: Sequence[Job]) -> str:
    """When the last Job of a set completed, as RFC 3339; empty if not all Jobs have completed."""
    conditions = (condition for job in jobs for condition in job.status.conditions if condition.status == "True")
    times = [condition.last_transition_time for condition in conditions if condition.type == keys.JOB_COMPLETE]
    have_all_completed = len(times) >= max(survey.job_count, len(jobs), 1) and not survey.unsettled_names
    return max(times) if have_all_completed else ""


def unwritten_status(case: Case, _unexplained: frozenset[str]) -> Iterator[Answer]:
    """All Jobs have completed, and no manager has written the end of the set into the status."""
    survey, jobs = case.survey, case.facts.jobs or ()
    since = last_completion_time(survey, jobs)
    ago = seconds_since(since, case.facts.now, unknown=0)
    if ago < END_WRITE_SECONDS:
        return
    because: tuple[Finding, ...] = ()
    if case.is_manager_missing:
        because = (missing_manager(case.facts.lease, case.facts.manager_pods, case.facts.now, since),)
    completed = pluralize(survey.job_count, "Job", "has completed", "have completed")
    finding = Finding(
        Level.FAULT,
        "status-not-written",
        f"its {completed} {age(ago)} ago, and no manager has written that into its status",
        because=because,
        fix="" if because else f"{_LOGS}; if it lacks a right: {RIGHTS_FIX}",
        since=since,
    )
    yield Answer(finding, state=State.WAITING)
