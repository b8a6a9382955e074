"""Causes that are about Jobs: those that are not there, may not start yet, or have no pods. Pure."""

import re

from api.batch import pods_at_once
from api.jobset import JobSet
from api.keys import (
    JOB_COMPLETE,
    JOB_CREATION_FAILED,
    KIND,
    REPLICATED_JOB_NAME,
    SERVICE_CREATION_FAILED,
    SUSPENDED,
)
from controllers.planning.child_jobs import Child
from diagnose.case import Case
from diagnose.ends import held_by_earlier
from diagnose.facts import SeenEvent
from diagnose.finding import (
    WAIT_FOR_PODS,
    Finding,
    Found,
    KeyedFinding,
    Level,
    job_findings,
    join_names,
    pluralize,
    seconds_since,
)
from diagnose.manager_causes import RIGHTS, idle_manager
from diagnose.quota import Exceeded, as_it_is, quota_refusal
from diagnose.remedies import for_refusal
from diagnose.survey import lacking
from kube.model.meta import Owner, find

_AGAIN = "tries again by itself soon; the pause grows with each refusal"
_NO_RIGHT = re.compile(r'User "[^"]+" cannot create resource')
"""What the API server says if the manager lacks the right."""
_HOLD_JOBS_BACK = (JOB_CREATION_FAILED, SERVICE_CREATION_FAILED, "PVCCreationFailed", "SchedulingObjectsFailed")
"""Reasons of Warnings about what was refused: Jobs are created after all of these, so they are missing then."""
_OF_OTHERS = "exists already and belongs to"
"""In the note about a Service of somebody else, which holds nothing back."""
BEGINS = 30.0
"""Seconds after the end of a Job within which the Jobs of the next stage are created."""
_Refused = tuple[Child, SeenEvent, Exceeded]
"""A Job, the Warning that its pods are refused, and the quota that does it."""


def later_stage(case: Case, left: frozenset[str]) -> list[Found]:
    """ReplicatedJobs that wait for others (dependsOn, startupPolicy InOrder, executionPolicy)."""
    found: list[Found] = []
    if case.survey is None:
        return found
    in_turn = case.survey.in_turn(_beginning(case))
    for name, why in case.survey.stages.items():
        missing = [position.name for position in case.survey.missing if position.replicated_job.name == name]
        halted_jobs = [child.name for child in case.survey.halted if child.replicated_job == name]
        jobs = left & {*missing, *halted_jobs}
        if jobs:
            message = f"ReplicatedJob {name} ({pluralize(len(jobs), 'Job')}): waits for {why}"
            later = _in_turn(case, name, message) if name in in_turn else _waits(case, message)
            found.append(Found(later, jobs, follows=True))
    return found


def _waits(case: Case, message: str) -> Finding:
    fix = "see above why those wait; executionPolicy, dependsOn or startupPolicy of the spec sets the order"
    return Finding(Level.WAITS, "later-stage", message, fix=fix, since=_began(case.facts.jobset))


def _in_turn(case: Case, name: str, message: str) -> Finding:
    """Nothing holds up what it waits for: which Jobs have to end, and how not to wait for the end of servers."""
    survey = case.survey
    awaited = (
        [] if survey is None else [unmet for unmet in survey.unmet[name] if unmet.replicated_job not in survey.unmet]
    )
    running = [
        job.metadata.name
        for job in case.facts.jobs or ()
        if job.metadata.labels.get(REPLICATED_JOB_NAME) in {unmet.replicated_job for unmet in awaited}
        and job.finished is None
    ]
    fix = ""
    if running:
        message = f"{message}; {join_names(running)} {'runs' if len(running) == 1 else 'run'}"
        stage = survey.stage if survey is not None else ""
        message = f"it runs stage {stage}: {message}" if stage else message
        field = "replicatedJobsStatus: Ready in executionPolicy" if stage else "status: Ready in dependsOn"
        fix = f"wait until that has ended; for servers, which do not end, write {field}"
    return Finding(Level.NOTE, "later-stage", message, fix=fix)


def _began(js: JobSet) -> str:
    """Since when the attempt runs: the latest of the set's creation, its last resumption and its last restart."""
    resumed = find(js.status.conditions, SUSPENDED)
    restart = js.status.last_restart
    return max(
        js.metadata.creation_timestamp or "",
        resumed.last_transition_time if resumed and resumed.status == "False" else "",
        restart.start_time if restart else "",
    )


def failed_jobs(case: Case, left: frozenset[str]) -> list[Found]:
    """Failed Jobs of a set that has not decided about them yet."""
    return job_findings(_failure(child) for child in case.survey.failed if child.name in left) if case.survey else []


def _failure(child: Child) -> KeyedFinding:
    failure = child.job.failure
    said = f"{failure.reason}: {failure.message}" if failure else "it says no reason"
    finding = Finding(
        Level.FAULT,
        "job-failed",
        f"Job {child.name}: failed, and the failure policy has not acted on it yet: {said}",
        fix="the manager decides by spec.failurePolicy; if it does not, see the Warnings of the JobSet",
        since=failure.last_transition_time if failure else "",
    )
    return KeyedFinding(child.name, said, lambda: finding)


def behind(case: Case, left: frozenset[str]) -> list[Found]:
    """Jobs of a large set that are created or resumed when the Job controller has taken up those before them."""
    if case.survey is None:
        return []
    queued = [child.name for child in case.survey.unready if child.job.queued and not child.deleting]
    absent = {position.name for position in case.survey.missing} - case.facts.foreign.keys()
    waiting = left & (absent | {child.name for child in case.survey.halted})
    if case.survey.job_budget > 0 or not waiting:
        return []
    finding = Finding(
        Level.WAITS,
        "behind",
        f"{pluralize(len(waiting), 'Job', 'comes', 'come')} after {len(queued)} that the Job controller has not come"
        f" to yet ({join_names(queued)}): no more Jobs of one set may wait for it at a time",
        fix="wait; if it stays so, does kube-controller-manager run?",
    )
    return [Found(finding, frozenset(waiting))]


def missing(case: Case, left: frozenset[str]) -> list[Found]:
    """Jobs that do not exist: their name is taken, they were refused, or they are about to be created."""
    names = [position.name for position in case.survey.missing if position.name in left] if case.survey else []
    taken = [name for name in names if name in case.facts.foreign]
    found = [Found(_name_conflict(case, name), frozenset({name})) for name in taken]
    return found + _absent_jobs(case, [name for name in names if name not in case.facts.foreign])


def _name_conflict(case: Case, name: str) -> Finding:
    owner = case.facts.foreign[name]
    if owner == Owner(KIND, case.facts.jobset.metadata.name):
        held = held_by_earlier(case, name)
        return Finding(
            Level.WAITS,
            "name-taken",
            f"Job {name}: cannot be created yet, the Job of an earlier JobSet of this name is still there",
            because=held,
            fix="" if held else "wait: it goes with the JobSet that it belongs to",
        )
    return Finding(
        Level.FAULT,
        "name-taken",
        f"Job {name}: cannot be created, a Job of that name belongs to {owner}",
        fix="delete or rename that one, or rename the JobSet",
    )


def _absent_jobs(case: Case, names: list[str]) -> list[Found]:
    if not names:
        return []
    refused = next((event for event in case.recent_warnings if holds_back(event)), None)
    because: tuple[Finding, ...] = ()
    level, fix = Level.WAITS, "look again in a moment"
    if refused is not None:
        beyond, namespace = quota_refusal(refused.note), case.facts.jobset.metadata.namespace
        level, fix = Level.FAULT, "fix what the message names: the manager tries again by itself"
        fix = f"{RIGHTS}; it tries again by itself" if _NO_RIGHT.search(refused.note) else fix
        because = (Finding(Level.FAULT, "refused", refused.note, since=refused.first),)
        if beyond is not None:
            beyond = as_it_is(beyond, case.facts.quotas)
            said = Finding(Level.NOTE, "warning", refused.note)
            in_all = case.survey.total if case.survey else len(names)
            soon = beyond.allowed and not beyond.too_few(in_all)
            level = Level.WAITS if soon else Level.FAULT
            fix = f"wait: the manager {_AGAIN}" if soon else beyond.fix(namespace, len(names), in_all)
            each = f"{'' if beyond.gone else 'each '}{beyond.words()}{beyond.in_all(in_all, 'Jobs')}"
            because = (Finding(level, "quota", each, because=(said,), since=refused.first),)
    elif case.manager_missing:
        fix = "a manager creates them"
    elif idle := idle_manager(case):
        level, because, fix = Level.FAULT, (idle,), ""
    elif _begin(case, frozenset(names)):
        message = (
            f"the next stage begins: {pluralize(len(names), 'Job', 'is', 'are')} being created: {join_names(names)}"
        )
        return [Found(Finding(Level.NOTE, "missing", message), frozenset(names))]
    message = f"{pluralize(len(names), 'Job', 'does', 'do')} not exist (yet): {join_names(names)}"
    return [Found(Finding(level, "missing", message, because=because, fix=fix), frozenset(names))]


def holds_back(event: SeenEvent) -> bool:
    """Whether a Warning says why Jobs are missing."""
    return event.reason in _HOLD_JOBS_BACK and _OF_OTHERS not in event.note


def _beginning(case: Case) -> frozenset[str]:
    """ReplicatedJobs that may start and have no Jobs yet, where Jobs of the set have completed just now."""
    if case.survey is None:
        return frozenset()
    jobs, now = case.facts.jobs or (), case.facts.now
    ends = (find(job.status.conditions, JOB_COMPLETE) for job in jobs)
    ages = (seconds_since(end.last_transition_time or "", now) for end in ends if end is not None)
    if not any(age is not None and age <= BEGINS for age in ages):
        return frozenset()
    there = {*case.survey.unmet, *(job.metadata.labels.get(REPLICATED_JOB_NAME) for job in jobs)}
    return frozenset(position.replicated_job.name for position in case.survey.missing) - there


def _begin(case: Case, names: frozenset[str]) -> bool:
    """Whether these missing Jobs are all of ReplicatedJobs that are beginning."""
    beginning = _beginning(case)
    missing = case.survey.missing if beginning and case.survey else ()
    return bool(beginning) and all(
        position.replicated_job.name in beginning for position in missing if position.name in names
    )


def halted_jobs(case: Case, left: frozenset[str]) -> list[Found]:
    """Jobs that are still suspended although the set is not."""
    return job_findings(_halt(child) for child in case.survey.halted if child.name in left) if case.survey else []


def _halt(child: Child) -> KeyedFinding:
    ending = child.job.status.active
    why = f": {pluralize(ending, 'pod')} of the time before have to end first" if ending else ""
    finding = Finding(
        Level.WAITS,
        "halted",
        f"Job {child.name}: is still suspended{why}",
        fix="the manager resumes it by itself; a Job that another controller suspends needs that one",
    )
    return KeyedFinding(child.name, bool(ending), lambda: finding)


def being_deleted(case: Case, left: frozenset[str]) -> list[Found]:
    """Jobs that are being deleted; the manager creates new ones when they are gone."""
    names = (
        [child.name for child in case.survey.unready if child.name in left and child.deleting] if case.survey else []
    )
    if not names:
        return []
    message = f"{pluralize(len(names), 'Job', 'is', 'are')} being deleted: {join_names(names)}"
    return [Found(Finding(Level.WAITS, "job-deleted", message, fix=WAIT_FOR_PODS), frozenset(names))]


def without_pods(case: Case, left: frozenset[str]) -> list[Found]:
    """Jobs that run and lack pods: admission has refused them, or the Job controller does not create them."""
    findings, refused = [], dict[tuple[str, str], list[_Refused]]()
    for child in case.survey.unready if case.survey else ():
        event = next(iter(case.refusals(child.job.metadata.uid)), None)
        if child.name in left and lacking(child.job) and (event or not child.job.status.active):
            if event is not None and (beyond := quota_refusal(event.note)) is not None:
                refused.setdefault((beyond.quota, beyond.resource), []).append((child, event, beyond))
            else:
                findings.append(_without_pods(case, child, event))
    return [_beyond_quota(case, same) for same in refused.values()] + job_findings(findings)


def _beyond_quota(case: Case, refused: list[_Refused]) -> Found:
    """One finding for all Jobs whose pods a quota refuses."""
    names = [child.name for child, _, _ in refused]
    pods = sum(pods_at_once(child.job.spec) for child, _, _ in refused)
    missing = sum(lacking(child.job) for child, _, _ in refused)
    at_once = case.survey.pods if case.survey else {}
    in_all = sum(at_once.get(name, 0) for name in {child.replicated_job for child, _, _ in refused})
    first, event, noted = refused[0]
    beyond = as_it_is(noted, case.facts.quotas)
    namespace = first.job.metadata.namespace
    who = f"Job {names[0]}: lacks" if len(names) == 1 else f"{len(names)} Jobs ({join_names(names)}): lack"
    soon = beyond.allowed and not beyond.too_few(in_all)
    finding = Finding(
        Level.WAITS if soon else Level.FAULT,
        "quota",
        f"{who} {missing} of {pluralize(pods, 'pod')}: {beyond.words(missing)}{beyond.in_all(in_all, 'pods')}",
        because=(Finding(Level.NOTE, "refused", f"{event.reason}: {event.note}"),),
        fix=f"wait: the Job controller {_AGAIN}" if soon else beyond.fix(namespace, missing, in_all),
        since=event.first,
    )
    return Found(finding, frozenset(names))


def _without_pods(case: Case, child: Child, said: SeenEvent | None) -> KeyedFinding:
    job = child.job
    if said is None and (ending := job.status.terminating):
        pods = f"-n {job.metadata.namespace} -l batch.kubernetes.io/job-name={child.name}"
        finding = Finding(
            Level.WAITS,
            "pods-ending",
            f"Job {child.name}: {pluralize(ending, 'pod', 'has', 'have')} not ended yet, and the next wait for that",
            fix=(
                f"kubectl get pods {pods} -o wide shows where; if a node is off for good:"
                f" kubectl delete pods {pods} --force"
            ),
        )
        return KeyedFinding(child.name, "ending", lambda: finding)
    if said is None:
        finding = Finding(
            Level.WAITS,
            "no-pods",
            f"Job {child.name}: has no pods (yet), and no Warning says why",
            fix="look again in a moment; if it stays so, does kube-controller-manager run?",
            since=job.metadata.creation_timestamp or "",
        )
        return KeyedFinding(child.name, None, lambda: finding)
    pods = pluralize(pods_at_once(job.spec), "pod")
    finding = Finding(
        Level.FAULT,
        "pods-refused",
        f"Job {child.name}: lacks {lacking(job)} of {pods}: {said.reason}: {said.note}",
        fix=for_refusal(case.facts.jobset, said.note),
        since=said.first,
    )
    return KeyedFinding(child.name, said.note.replace(child.name, ""), lambda: finding)
