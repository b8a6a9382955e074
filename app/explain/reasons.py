"""From facts to an explanation: which causes there are, and in which order they speak. Pure.

To add a cause, write a function of the type `Cause` and put it into `CAUSES`. Each hears which Jobs nobody before it
has explained; what it finds is laid into the tree in this order.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from app.explain import of_groups, of_jobs, of_pods, of_set
from app.explain.case import Case, Cause, case
from app.explain.finding import Finding, Found, Level, counted
from app.explain.seen import Facts

CAUSES: tuple[Cause, ...] = (
    of_set.finished,
    of_set.deleted,
    of_set.managed_elsewhere,
    of_set.suspended,
    of_set.unlisted,
    of_set.no_manager,
    of_set.restarting,
    of_set.old_pods,
    of_groups.objects,
    of_groups.tree_restarts,
    of_jobs.failed,
    of_jobs.later_stage,
    of_jobs.behind,
    of_jobs.missing,
    of_jobs.halted,
    of_jobs.going,
    of_pods.leader_waits,
    of_pods.leader_nowhere,
    of_groups.waits,
    of_jobs.podless,
    of_pods.held,
    of_pods.followers_wait,
    of_pods.unscheduled,
    of_pods.broken,
    of_pods.unready,
    of_set.warned,
)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a JobSet is where it is. `state` is a word or two; `root` says it of the whole set.

    Its level is the worst there is below it, its `since` the earliest of what holds the set up.
    """

    namespace: str
    name: str
    state: str
    root: Finding
    unseen: tuple[str, ...]


def explain(facts: Facts) -> Explanation:
    """Everything there is to say."""
    looked_at = case(facts)
    found = _found(looked_at)
    meta = facts.jobset.metadata
    tree = [below for one in found for below in _walk(one.finding)]
    level = max((below.level for below in tree), key=list(Level).index, default=Level.FINE)
    state = next((one.state for one in found if one.state), "runs" if level in {Level.FINE, Level.NOTE} else "waits")
    ended = any(one.ends for one in found)
    counts = "" if ended or looked_at.of is None else f", {_counts(looked_at)}"
    root = Finding(
        level=level,
        cause=state.replace(" ", "-"),
        what=f"JobSet {meta.namespace}/{meta.name}: {state}{counts}",
        because=tuple(one.finding for one in found),
        since=min((below.since for below in tree if below.since and below.level is not Level.NOTE), default=""),
    )
    return Explanation(meta.namespace, meta.name, state, root, facts.unseen)


def _found(looked_at: Case) -> list[Found]:
    found: list[Found] = []
    left = frozenset(looked_at.of.waiting) if looked_at.of else frozenset()
    for cause in CAUSES:
        for one in cause(looked_at, left):
            found.append(one)
            left -= one.jobs
            if one.ends:
                return found
    return found


def _counts(looked_at: Case) -> str:
    of = looked_at.of
    return f"{of.settled} of {counted(of.total, 'Job')} ready or done" if of else ""


def _walk(finding: Finding) -> Iterator[Finding]:
    yield finding
    for below in finding.because:
        yield from _walk(below)
