"""Checks of Jobs that do not exist, may not start, are suspended or deleted, or lack pods. Pure."""

from collections.abc import Iterator
from dataclasses import replace

from api import keys
from api.batch import pods_at_once
from api.event import SeenEvent
from api.jobset import JobSet
from controllers.planning.child_jobs import Child
from diagnose.answers import Answer, KeyedFinding, one_answer_per_key
from diagnose.case import Case
from diagnose.ends import deletion_delays, earlier_deletion_delays
from diagnose.finding import WAIT_FOR_PODS, Finding, Level, pluralize
from diagnose.fixes import refusal_fix
from diagnose.manager_causes import RIGHTS_FIX, idle_manager_finding
from diagnose.quota import QuotaRefusal, quota_refusal, update_refusal
from diagnose.survey import missing_pods
from diagnose.times import seconds_since
from diagnose.wording import NO_RIGHT
from kube.model.field import join_names
from kube.model.meta import Owner, find

_REFUSAL_REASONS = {
    keys.JOB_CREATION_FAILED,
    keys.SERVICE_CREATION_FAILED,
    "PVCCreationFailed",
    "SchedulingObjectsFailed",
}
"""Reasons of Warnings that a Job was refused, or an object that has to be created before Jobs."""
_FOREIGN_SERVICE = "exists already and belongs to"
"""Part of the note of a Warning about a Service of another owner. Such a Service does not delay Jobs."""
BEGIN_SECONDS = 30.0
"""Seconds after the completion of a Job within which missing Jobs of the next stage are normal."""


def later_stage(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """ReplicatedJobs that wait for other ReplicatedJobs (dependsOn, startupPolicy InOrder, executionPolicy)."""
    survey = case.survey
    behind_settled_jobs = survey.rjobs_behind_settled_jobs(_beginning_rjobs(case))
    for name, unmet_text in survey.unmet_texts.items():
        missing_names = [position.name for position in survey.missing_jobs if position.replicated_job.name == name]
        halted_names = [child.name for child in survey.halted_jobs if child.replicated_job == name]
        if waiting_names := unexplained_jobs & {*missing_names, *halted_names}:
            message = f"ReplicatedJob {name} ({pluralize(len(waiting_names), 'Job')}): waits for {unmet_text}"
            if name in behind_settled_jobs:
                finding = _behind_settled_jobs(case, name, message)
            else:
                fix = "see above why those wait; executionPolicy, dependsOn or startupPolicy of the spec sets the order"
                finding = Finding(Level.WAITS, "later-stage", message, fix=fix, since=_attempt_start(case.facts.jobset))
            yield Answer(finding, waiting_names, is_listed_last=True)


def _behind_settled_jobs(case: Case, name: str, message: str) -> Finding:
    """The finding about a ReplicatedJob that waits only for Jobs that run normally.

    The fix also names the field with which the ReplicatedJob waits until Jobs are ready instead, for Jobs of servers.
    """
    survey = case.survey
    awaited_rjobs = {unmet.replicated_job for unmet in survey.unmet_conditions[name]} - survey.unmet_conditions.keys()
    running_names = [
        job.metadata.name
        for job in case.facts.jobs or ()
        if job.metadata.labels.get(keys.REPLICATED_JOB_NAME) in awaited_rjobs and job.outcome is None
    ]
    fix = ""
    if running_names:
        message = f"{message}; {join_names(running_names)} {'runs' if len(running_names) == 1 else 'run'}"
        field = "status: Ready in dependsOn"
        if survey.running_stage:
            message = f"it runs stage {survey.running_stage}: {message}"
            field = "replicatedJobsStatus: Ready in executionPolicy"
        fix = f"wait until that has ended; for servers, which do not end, write {field}"
    return Finding(Level.NOTE, "later-stage", message, fix=fix)


def _attempt_start(js: JobSet) -> str:
    """When the attempt began: the latest of the JobSet's creation, its last resumption and its last restart."""
    resumed = find(js.status.conditions, keys.SUSPENDED)
    restart = js.status.last_restart
    return max(
        js.metadata.creation_timestamp or "",
        resumed.last_transition_time if resumed and resumed.status == "False" else "",
        restart.start_time if restart else "",
    )


@one_answer_per_key
def failed_jobs(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[KeyedFinding]:
    """Failed Jobs to which the manager has not applied the failure policy yet."""
    fix = "the manager decides by spec.failurePolicy; if it does not, see the Warnings of the JobSet"
    for child in (child for child in case.survey.failed_jobs if child.name in unexplained_jobs):
        failure = child.job.failure
        since = failure.last_transition_time if failure else ""
        reason = f"{failure.reason}: {failure.message}" if failure else "it says no reason"
        message = f"Job {child.name}: failed, and the failure policy has not acted on it yet: {reason}"
        yield KeyedFinding(child.name, reason, Finding(Level.FAULT, "job-failed", message, fix=fix, since=since))


def full_queue(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """Jobs that are created or resumed only after the Job controller has started earlier Jobs of the JobSet."""
    survey = case.survey
    queued = (child for child in survey.unready_jobs if child.job.awaits_job_controller)
    queued_names = [child.name for child in queued if not child.deleting]
    absent_names = {position.name for position in survey.missing_jobs} - case.facts.foreign_owners.keys()
    waiting_names = unexplained_jobs & (absent_names | {child.name for child in survey.halted_jobs})
    if survey.is_queue_full and waiting_names:
        finding = Finding(
            Level.WAITS,
            "behind",
            f"{pluralize(len(waiting_names), 'Job', 'comes', 'come')} after {len(queued_names)} that the Job controller"
            f" has not come to yet ({join_names(queued_names)}): no more Jobs of one set may wait for it at a time",
            fix="wait; if it stays so, does kube-controller-manager run?",
        )
        yield Answer(finding, waiting_names)


def missing_jobs(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """Jobs that do not exist. Another Job has the name, the Jobs were refused, or they are about to be created."""
    names = [position.name for position in case.survey.missing_jobs if position.name in unexplained_jobs]
    for name in names:
        if name in case.facts.foreign_owners:
            yield Answer(_name_conflict(case, name), frozenset({name}))
    if absent_names := [name for name in names if name not in case.facts.foreign_owners]:
        yield Answer(_absent_jobs(case, absent_names), frozenset(absent_names))


def _name_conflict(case: Case, name: str) -> Finding:
    owner = case.facts.foreign_owners[name]
    if owner == Owner(keys.KIND, case.facts.jobset.metadata.name):
        findings = tuple(earlier_deletion_delays(case, name))
        message = f"Job {name}: cannot be created yet, the Job of an earlier JobSet of this name is still there"
        fix = "" if findings else "wait: it goes with the JobSet that it belongs to"
        return Finding(Level.WAITS, "name-taken", message, because=findings, fix=fix)
    message = f"Job {name}: cannot be created, a Job of that name belongs to {owner}"
    return Finding(Level.FAULT, "name-taken", message, fix="delete or rename that one, or rename the JobSet")


def _absent_jobs(case: Case, names: list[str]) -> Finding:
    message = f"{pluralize(len(names), 'Job', 'does', 'do')} not exist (yet): {join_names(names)}"
    refusal = next((event for event in case.recent_warnings if holds_jobs_back(event)), None)
    if refusal is not None:
        return _refused_jobs(case, refusal, len(names), message)
    if case.is_manager_missing:
        return Finding(Level.WAITS, "missing", message, fix="a manager creates them")
    if manager_finding := idle_manager_finding(case):
        return Finding(Level.FAULT, "missing", message, because=(manager_finding,))
    rjobs = {position.replicated_job.name for position in case.survey.missing_jobs if position.name in names}
    if rjobs <= _beginning_rjobs(case):
        created = f"{pluralize(len(names), 'Job', 'is', 'are')} being created: {join_names(names)}"
        return Finding(Level.NOTE, "missing", f"the next stage begins: {created}")
    return Finding(Level.WAITS, "missing", message, fix="look again in a moment")


def _refused_jobs(case: Case, refusal: SeenEvent, number: int, message: str) -> Finding:
    """The finding about `number` Jobs that the API server, a webhook or a quota has refused."""
    quota = quota_refusal(refusal.note)
    if quota is None:
        fix = "fix what the message names: the manager tries again by itself"
        fix = f"{RIGHTS_FIX}; it tries again by itself" if NO_RIGHT.search(refusal.note) else fix
        because = Finding(Level.FAULT, "refused", refusal.note, since=refusal.first_time)
        return Finding(Level.FAULT, "missing", message, because=(because,), fix=fix)
    total = case.survey.job_count
    level, quota, fix = _judge_quota(case, quota, number, total, "the manager")
    quota_text = f"{'' if quota.is_gone else 'each '}{quota.clause()}{quota.never_fits_clause(total, 'Jobs')}"
    warning = Finding(Level.NOTE, "warning", refusal.note)
    because = Finding(level, "quota", quota_text, because=(warning,), since=refusal.first_time)
    return Finding(level, "missing", message, because=(because,), fix=fix)


def holds_jobs_back(event: SeenEvent) -> bool:
    """Whether the Warning explains why Jobs are missing."""
    return event.reason in _REFUSAL_REASONS and _FOREIGN_SERVICE not in event.note


def _beginning_rjobs(case: Case) -> frozenset[str]:
    """Names of ReplicatedJobs that may start and have no Jobs yet; empty unless a Job has completed recently."""
    jobs, now = case.facts.jobs or (), case.facts.now
    conditions = filter(None, (find(job.status.conditions, keys.JOB_COMPLETE) for job in jobs))
    if not any(seconds_since(complete.last_transition_time, now) <= BEGIN_SECONDS for complete in conditions):
        return frozenset()
    other_rjobs = {*case.survey.unmet_conditions, *(job.metadata.labels.get(keys.REPLICATED_JOB_NAME) for job in jobs)}
    return frozenset(position.replicated_job.name for position in case.survey.missing_jobs) - other_rjobs


@one_answer_per_key
def halted_jobs(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[KeyedFinding]:
    """Jobs that are still suspended although the JobSet is not suspended."""
    fix = "the manager resumes it by itself; a Job that another controller suspends needs that one"
    if case.facts.jobset.metadata.annotations.get(keys.SKIP_SUSPEND) == "true":
        fix = f"the controller that has suspended it resumes it: annotation {keys.SKIP_SUSPEND} of the JobSet"
    suspended_again = next((event for event in case.recent_warnings if event.reason == keys.JOBS_SUSPENDED_AGAIN), None)
    for child in (child for child in case.survey.halted_jobs if child.name in unexplained_jobs):
        ending_pods = child.job.status.active
        reason = f": {pluralize(ending_pods, 'pod')} of the time before have to end first" if ending_pods else ""
        finding = Finding(Level.WAITS, "halted", f"Job {child.name}: is still suspended{reason}", fix=fix)
        if suspended_again is not None:
            message, _, fix_of_event = suspended_again.note.partition(". ")
            warning = Finding(Level.FAULT, "warning", message)
            fix, since = fix_of_event or fix, suspended_again.first_time
            finding = replace(finding, level=Level.FAULT, because=(warning,), fix=fix, since=since)
        yield KeyedFinding(child.name, bool(ending_pods), finding)


def being_deleted(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """Jobs that are being deleted; the manager creates new Jobs when these Jobs are gone."""
    if names := [child.name for child in case.unready_jobs(unexplained_jobs) if child.deleting]:
        message = f"{pluralize(len(names), 'Job', 'is', 'are')} being deleted: {join_names(names)}"
        delays = deletion_delays(case)
        finding = Finding(Level.WAITS, "job-deleted", message, delays, "" if delays else WAIT_FOR_PODS)
        yield Answer(finding, frozenset(names))


@one_answer_per_key
def without_pods(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[KeyedFinding]:
    """Jobs that run and lack pods. Admission has refused the pods, or the Job controller does not create them."""
    for child in case.unready_jobs(unexplained_jobs):
        event, lacking_pods = next(iter(case.refusals(child.job.metadata.uid)), None), missing_pods(child.job)
        if event is None and lacking_pods and not child.job.status.active:
            yield _job_without_pods(case, child)
        elif event is not None and lacking_pods and quota_refusal(event.note) is None:
            pods = pluralize(pods_at_once(child.job.spec), "pod")
            message = f"Job {child.name}: lacks {lacking_pods} of {pods}: {event.reason}: {event.note}"
            fix = refusal_fix(case.facts.jobset, event.note)
            finding = Finding(Level.FAULT, "pods-refused", message, fix=fix, since=event.first_time)
            yield KeyedFinding(child.name, event.note.replace(child.name, ""), finding)


def _job_without_pods(case: Case, child: Child) -> KeyedFinding:
    """The finding about a Job without pods and without refusals. Its old pods are ending, or the reason is unknown."""
    meta, ending_pods = child.job.metadata, child.job.status.terminating
    if ending_pods:
        number = pluralize(ending_pods, "pod", "has", "have")
        pods = f"-n {meta.namespace} -l batch.kubernetes.io/job-name={child.name}"
        message = f"Job {child.name}: {number} not ended yet, and the next wait for that"
        force = f"kubectl delete pods {pods} --force"
        fix = f"kubectl get pods {pods} -o wide shows where; if a node is off for good: {force}"
        delays = deletion_delays(case)
        finding = Finding(Level.WAITS, "pods-ending", message, delays, "" if delays else fix)
        return KeyedFinding(child.name, "ending", finding)
    message = f"Job {child.name}: has no pods (yet), and no Warning says why"
    fix = "look again in a moment; if it stays so, does kube-controller-manager run?"
    finding = Finding(Level.WAITS, "no-pods", message, fix=fix, since=meta.creation_timestamp or "")
    return KeyedFinding(child.name, None, finding)


def quota_refusals(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """Jobs whose pods a quota refuses, with one finding for each quota and resource."""
    refused_by_quota: dict[tuple[str, str], list[tuple[Child, SeenEvent, QuotaRefusal]]] = {}
    for child in case.unready_jobs(unexplained_jobs):
        event = next(iter(case.refusals(child.job.metadata.uid)), None)
        if missing_pods(child.job) and event is not None and (quota := quota_refusal(event.note)):
            refused_by_quota.setdefault((quota.quota, quota.resource), []).append((child, event, quota))
    for refused_jobs in refused_by_quota.values():
        jobs = [child for child, _, _ in refused_jobs]
        names, lacking_pods = [child.name for child in jobs], sum(missing_pods(child.job) for child in jobs)
        subject = f"Job {names[0]}: lacks" if len(names) == 1 else f"{len(names)} Jobs ({join_names(names)}): lack"
        subject += f" {lacking_pods} of {pluralize(sum(pods_at_once(child.job.spec) for child in jobs), 'pod')}"
        total = sum(case.survey.pods_at_once[name] for name in {child.replicated_job for child in jobs})
        _, event, refusal = refused_jobs[0]
        level, quota, fix = _judge_quota(case, refusal, lacking_pods, total, "the Job controller")
        refusal_note = Finding(Level.NOTE, "refused", f"{event.reason}: {event.note}")
        message = f"{subject}: {quota.clause(lacking_pods)}{quota.never_fits_clause(total, 'pods')}"
        yield Answer(Finding(level, "quota", message, (refusal_note,), fix, event.first_time), frozenset(names))


def _judge_quota(
    case: Case, refusal: QuotaRefusal, number: int, total: int, subject: str
) -> tuple[Level, QuotaRefusal, str]:
    """The level and the fix for `number` of `total` objects that a quota refuses, and the refusal by the quota now.

    `subject`: the component that retries.
    """
    quota = update_refusal(refusal, case.facts.quotas)
    if quota.is_allowed and not quota.is_too_small(total):
        return Level.WAITS, quota, f"wait: {subject} tries again by itself soon; the pause grows with each refusal"
    return Level.FAULT, quota, quota.fix(case.facts.jobset.metadata.namespace, number, total)
