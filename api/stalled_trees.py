"""Finds out why kube-scheduler reports nothing about a tree of scheduling groups. Pure.

A tree is a PodGroup, or a CompositePodGroup with all groups below it (`api.gangs`). kube-scheduler places its pods only
if all groups and the required pods exist, and no pod has a scheduling gate. Until then it ignores the whole tree, and
the pods get no condition (Kubernetes 1.37). This module checks the possible causes in the order of kube-scheduler.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from api.gang_api import NO_COMPOSITES
from api.gang_status import StoredGroup
from api.gangs import Group
from api.pod import DEFAULT_SCHEDULER
from kube.model.field import join_names

MAX_NAMES = 3
"""At most this many objects are named in a message. The rest is counted."""

GATES = NO_COMPOSITES.gates
"""The feature gates of the control plane that groups need, as the value of `--feature-gates`."""


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod without a node that has not ended and is not being deleted. `gates`: names of its scheduling gates."""

    name: str
    gates: tuple[str, ...] = ()
    priority: int = 0
    scheduler: str = DEFAULT_SCHEDULER


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree of groups as the JobSet wants it, and what exists of it.

    - `root`: the wanted group at the top, with all groups below it.
    - `stored_groups`: the groups that exist, by name.
    - `released_replicated_jobs`: names of the ReplicatedJobs that may start. Groups of others need not exist.
    - `pod_counts`: how many pods each Job has, by name of the Job, without pods that have ended or are being deleted.
    - `waiting_pods`: pods of the tree without a node, possibly not all of them.
    - `priority`: the priority of the stored root; None: not known.
    """

    root: Group
    stored_groups: Mapping[str, StoredGroup]
    released_replicated_jobs: Collection[str]
    pod_counts: Mapping[str, int]
    waiting_pods: Collection[WaitingPod] = ()
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class StallCause:
    """A likely cause for the silence of kube-scheduler.

    - `id`: the name of the cause in JSON output. `problem`: what is wrong. `fix`: what to do.
    - `is_user_fault`: whether the author of the JobSet has to change it.
    """

    id: str
    problem: str
    fix: str
    is_user_fault: bool = False


UNKNOWN = StallCause(
    "scheduler-silent",
    "groups and pods are all there and none is held back: kube-scheduler has not looked at them (yet)",
    f"look again in a moment; if it stays so, does kube-scheduler run with --feature-gates={GATES}, and does the"
    " API server serve scheduling.k8s.io/v1beta1 and v1alpha3? It schedules nothing while one of them is missing",
)


def why_stalled(tree: Tree) -> StallCause:
    """The first cause that applies to the tree; `UNKNOWN` if none applies."""
    return (
        _missing_groups(tree)
        or _gated_pods(tree)
        or _too_few_pods(tree)
        or _different_priorities(tree)
        or _other_scheduler(tree)
        or UNKNOWN
    )


def released_groups(tree: Tree) -> Iterator[Group]:
    """The wanted groups with at least one ReplicatedJob that may start."""
    released = set(tree.released_replicated_jobs)
    return (group for group in tree.root.walk() if not released.isdisjoint(group.replicated_jobs))


def _missing_groups(tree: Tree) -> StallCause | None:
    missing = [f"{group.kind} {group.name}" for group in released_groups(tree) if group.name not in tree.stored_groups]
    if not missing:
        return None
    problem = (
        f"{join_names(missing, MAX_NAMES)} {'is' if len(missing) == 1 else 'are'} missing:"
        " no pod of the whole tree is scheduled without"
    )
    return StallCause(
        "group-missing", problem, "the manager creates missing groups again: does it run, and may it create them?"
    )


def _gated_pods(tree: Tree) -> StallCause | None:
    gated_pods = [pod for pod in tree.waiting_pods if pod.gates]
    if not gated_pods:
        return None
    gates = ", ".join(sorted({gate for pod in gated_pods for gate in pod.gates}))
    pods_text = join_names([f"pod {pod.name}" for pod in gated_pods], MAX_NAMES)
    verb = "is" if len(gated_pods) == 1 else "are"
    problem = f"{pods_text} {verb} held back by scheduling gate {gates}: one such pod holds the whole tree"
    return StallCause("pod-gated", problem, "the controller that the gate is named after has to lift it")


def _too_few_pods(tree: Tree) -> StallCause | None:
    """The cause that kube-scheduler does not try the tree, because too few of its pods exist."""
    if _has_required_members(tree, tree.root):
        return None
    pod_groups = (group for group in released_groups(tree) if not group.is_composite)
    incomplete = [group for group in pod_groups if not _has_required_members(tree, group)]
    pod_count_texts = [
        f"PodGroup {group.name} needs {required_members(tree, group)} pods, {_pod_count(tree, group)} exist"
        for group in incomplete[:MAX_NAMES]
    ]
    more_groups_text = f" and {len(incomplete) - MAX_NAMES} more groups likewise" if len(incomplete) > MAX_NAMES else ""
    missing_pod_texts = [
        f"{job} ({tree.pod_counts.get(job, 0)} of {pods})"
        for group in incomplete
        for job, pods in group.jobs
        if tree.pod_counts.get(job, 0) < pods
    ]
    lacking_jobs_text = (
        f"; Jobs that lack pods: {join_names(missing_pod_texts, MAX_NAMES)}" if missing_pod_texts else ""
    )
    root = tree.root
    root_text = ""
    if root.is_composite:
        count = sum(_has_required_members(tree, child) for child in root.children)
        needed = required_members(tree, root)
        root_text = f"{root.kind} {root.name} needs {needed} groups with their pods, {count} have them; "
    problem = (
        f"pods that have to be there first do not exist: {root_text}{', '.join(pod_count_texts)}{more_groups_text}"
        f"{lacking_jobs_text}"
    )
    return StallCause(
        "quorum", problem, "see what keeps those Jobs from having their pods; the scheduler tries when they exist"
    )


def _different_priorities(tree: Tree) -> StallCause | None:
    differing = [pod for pod in tree.waiting_pods if tree.priority is not None and pod.priority != tree.priority]
    if not differing:
        return None
    pods = join_names([f"pod {pod.name}" for pod in differing], MAX_NAMES)
    priority_text = f"{'has' if len(differing) == 1 else 'have'} priority {differing[0].priority}"
    problem = f"{pods} {priority_text}, the groups have {tree.priority}: the scheduler wants one for all"
    fix = "give all ReplicatedJobs the same priorityClassName in a new JobSet"
    return StallCause("priority-differs", problem, fix, is_user_fault=True)


def _other_scheduler(tree: Tree) -> StallCause | None:
    names = sorted({pod.scheduler for pod in tree.waiting_pods})
    if not names or (len(names) == 1 and names[0] == DEFAULT_SCHEDULER):
        return None
    if len(names) > 1:
        problem = f"its pods name different schedulers: {', '.join(names)}: each of them waits for the others' pods"
        return StallCause("scheduler-differs", problem, "one schedulerName for all in a new JobSet", is_user_fault=True)
    problem = f"its pods are for scheduler {names[0]}, which says nothing about them"
    fix = f"see whether it runs, and knows groups (--feature-gates={GATES}), or leave schedulerName out"
    return StallCause("scheduler-differs", problem, fix)


def required_members(tree: Tree, group: Group) -> int:
    """How many members of the group must exist: its gang size, which the stored group may have reduced, else 1.

    The members of a CompositePodGroup are its child groups, and the members of a PodGroup are pods.
    """
    stored = tree.stored_groups.get(group.name)
    gang = None if stored is None else stored.spec.scheduling_policy.gang
    return gang.count if gang is not None else group.gang_size or 1


def _has_required_members(tree: Tree, group: Group) -> bool:
    """Whether enough pods of the group, or of the groups below it, exist."""
    if group.is_composite:
        return sum(_has_required_members(tree, child) for child in group.children) >= required_members(tree, group)
    return _pod_count(tree, group) >= required_members(tree, group)


def _pod_count(tree: Tree, group: Group) -> int:
    return sum(tree.pod_counts.get(job, 0) for job, _ in group.jobs)
