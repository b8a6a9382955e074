"""Computes the explanation of a JobSet from facts: runs all checks, and puts their findings into one tree. Pure.

A check is a function that looks for one cause why the JobSet waits. It answers with findings, and with the names of the
Jobs that each finding explains. Later checks get only the names of the Jobs that are still unexplained, so the order of
`CHECKS` decides which cause is named. To add a check, write a function of the type `Check` and add it to `CHECKS`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from diagnose import back_off, ends, group_causes, job_causes, jobset_causes, manager_causes, pod_causes, restart_causes
from diagnose.answers import Answer, Check
from diagnose.case import Case, sort_facts
from diagnose.facts import Facts
from diagnose.finding import Finding, Level, pluralize
from diagnose.fixes import IN_NEW_JOBSET, recreation_commands
from diagnose.states import State

CHECKS: tuple[Check, ...] = (
    jobset_causes.final_state,
    jobset_causes.deletion,
    jobset_causes.namespace_deleted,
    jobset_causes.managed_elsewhere,
    jobset_causes.suspension,
    jobset_causes.active_deadline,
    jobset_causes.start_timeout,
    jobset_causes.avoided_nodes,
    jobset_causes.maintenance_notice,
    jobset_causes.reduced_replicas,
    jobset_causes.missing_spares,
    jobset_causes.unreadable_jobs,
    manager_causes.no_manager,
    manager_causes.unready_leader,
    manager_causes.other_manager,
    manager_causes.unwritten_status,
    restart_causes.keeps_failing,
    restart_causes.jobs_keep_failing,
    restart_causes.escalations,
    restart_causes.restarting,
    restart_causes.old_pods,
    group_causes.missing_groups,
    group_causes.tree_restarts,
    job_causes.failed_jobs,
    job_causes.later_stage,
    job_causes.full_queue,
    job_causes.missing_jobs,
    job_causes.halted_jobs,
    job_causes.being_deleted,
    ends.disrupted_pods,
    ends.failed_nodes,
    back_off.back_off,
    back_off.tolerated_failures,
    pod_causes.leader_waits,
    pod_causes.leader_without_domain,
    group_causes.waiting_trees,
    job_causes.quota_refusals,
    job_causes.without_pods,
    pod_causes.gated_pods,
    pod_causes.followers_wait,
    pod_causes.unscheduled_pods,
    pod_causes.without_device_claim,
    pod_causes.pods_without_scheduler,
    pod_causes.failing_containers,
    pod_causes.unready_jobs,
    restart_causes.late_agents,
    jobset_causes.without_defaults,
    jobset_causes.warnings,
)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation why a JobSet is in its state.

    - `headline`: follows the state in the first line; may be empty.
    - `root`: the finding about the whole JobSet. Its level is the worst level below it. Its `since` is the earliest of
      the findings that are more than a note.
    - `unread_notes`: sentences about facts that could not be read.
    - `new_jobset`: commands that create the JobSet again with a change; empty if no fix needs a new JobSet.
    """

    namespace: str
    name: str
    state: State
    headline: str
    root: Finding
    unread_notes: tuple[str, ...]
    new_jobset: str


def explain(facts: Facts) -> Explanation:
    """The explanation of a JobSet. The finding about its last recovery comes last."""
    case = sort_facts(facts)
    answers = sorted(_answers(case), key=lambda answer: answer.is_listed_last)
    answers += restart_causes.last_recovery(case)
    meta = facts.jobset.metadata
    findings = [finding for answer in answers for finding in answer.finding.walk()]
    worst_level = max((finding.level for finding in findings), key=list(Level).index, default=Level.FINE)
    deciding_answer = next((answer for answer in answers if answer.state), None)
    is_running = worst_level in {Level.FINE, Level.NOTE}
    state = (deciding_answer and deciding_answer.state) or (State.RUNNING if is_running else State.WAITING)
    headline = deciding_answer.headline if deciding_answer else ""
    message = f"JobSet {meta.namespace}/{meta.name}: {state.phrase}" + (f": {headline};" if headline else ",")
    if facts.jobs is not None and not any(answer.is_final for answer in answers):
        message += f" {case.survey.settled_count} of {pluralize(case.survey.job_count, 'Job')} ready or done"
    start_times = (finding.since for finding in findings if finding.level is not Level.NOTE)
    root = Finding(
        worst_level,
        state.phrase.replace(" ", "-"),
        message.rstrip(",; "),
        because=tuple(answer.finding for answer in answers),
        since=min(filter(None, start_times), default=""),
    )
    recreation = recreation_commands(facts.jobset) if any(IN_NEW_JOBSET in finding.fix for finding in findings) else ""
    return Explanation(meta.namespace, meta.name, state, headline, root, facts.unread_notes, recreation)


def _answers(case: Case) -> Iterator[Answer]:
    """The answers of the checks in their order, up to the first final answer."""
    unexplained_jobs = frozenset(case.survey.unsettled_names)
    for check in CHECKS:
        explained_jobs = frozenset[str]()
        for answer in check(case, unexplained_jobs):
            yield answer
            if answer.is_final:
                return
            explained_jobs |= answer.explained_jobs
        unexplained_jobs -= explained_jobs
