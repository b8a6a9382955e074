"""From facts to an explanation: the causes, and the order in which they are tried. Pure.

To add a cause, write a function of the type `Cause` and add it to `CAUSES`. Each gets the Jobs that no earlier cause
has explained; findings are listed in this order.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from diagnose import (
    back_off,
    device_claims,
    ends,
    group_causes,
    job_causes,
    jobset_causes,
    manager_causes,
    pod_causes,
    restart_causes,
)
from diagnose.answers import Answer, Cause
from diagnose.case import Case, case
from diagnose.facts import Facts
from diagnose.finding import Finding, Level, pluralize
from diagnose.remedies import IN_A_NEW, make_again
from diagnose.states import State

CAUSES: tuple[Cause, ...] = (
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
    jobset_causes.restarting,
    jobset_causes.old_pods,
    group_causes.objects,
    group_causes.tree_restarts,
    job_causes.failed_jobs,
    job_causes.later_stage,
    job_causes.behind,
    job_causes.missing,
    job_causes.halted_jobs,
    job_causes.being_deleted,
    ends.ended_from_outside,
    ends.node_fails,
    back_off.back_off,
    back_off.failures,
    pod_causes.leader_waits,
    pod_causes.leader_without_domain,
    group_causes.waits,
    job_causes.quota_refusals,
    job_causes.without_pods,
    pod_causes.gated_pods,
    pod_causes.followers_wait,
    pod_causes.unscheduled_pods,
    device_claims.without_device_claim,
    pod_causes.nobody_schedules,
    pod_causes.failing_containers,
    pod_causes.unready,
    restart_causes.late_agents,
    jobset_causes.without_defaults,
    jobset_causes.warnings,
)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a JobSet is in its state.

    `root` describes the state of the whole set. `headline` follows the state in the first line; may be empty. The
    root's level is the worst one below it, its `since` the earliest of the findings that the set waits for.
    `new_jobset`: commands that create the set again with a change, if a fix needs that; else empty.
    """

    namespace: str
    name: str
    state: State
    headline: str
    root: Finding
    unseen: tuple[str, ...]
    new_jobset: str


def explain(facts: Facts) -> Explanation:
    """The explanation by all facts: a finding follows those that it waits for; the last recovery comes at the end."""
    looked_at = case(facts)
    answers = sorted(_answers(looked_at), key=lambda answer: answer.follows)
    answers += restart_causes.last_recovery(looked_at)
    meta = facts.jobset.metadata
    tree = [below for answer in answers for below in answer.finding.walk()]
    level = max((below.level for below in tree), key=list(Level).index, default=Level.FINE)
    first = next((answer for answer in answers if answer.state), None)
    runs = level in {Level.FINE, Level.NOTE}
    state = (first and first.state) or (State.RUNNING if runs else State.WAITING)
    headline = first.headline if first else ""
    beginning = f"{state.phrase}: {headline};" if headline else f"{state.phrase},"
    counts = "" if any(answer.ends for answer in answers) else _counts(looked_at)
    root = Finding(
        level,
        state.phrase.replace(" ", "-"),
        f"JobSet {meta.namespace}/{meta.name}: {beginning} {counts}".rstrip(",; "),
        because=tuple(answer.finding for answer in answers),
        since=min((below.since for below in tree if below.since and below.level is not Level.NOTE), default=""),
    )
    new = make_again(facts.jobset) if any(IN_A_NEW in below.fix for below in tree) else ""
    return Explanation(meta.namespace, meta.name, state, headline, root, facts.unseen, new)


def _answers(looked_at: Case) -> Iterator[Answer]:
    """The answers of the causes, up to the first that explains everything."""
    left = frozenset(looked_at.survey.waiting)
    for cause in CAUSES:
        explained = frozenset[str]()
        for answer in cause(looked_at, left):
            yield answer
            if answer.ends:
                return
            explained |= answer.jobs
        left -= explained


def _counts(looked_at: Case) -> str:
    survey = looked_at.survey
    known = looked_at.facts.jobs is not None
    return f"{survey.settled} of {pluralize(survey.total, 'Job')} ready or done" if known else ""
