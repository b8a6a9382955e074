"""Warns of gangs about which kube-scheduler reports nothing, and of gangs that it does not treat as gangs.

A gang is a group of pods (PodGroup) or of such groups (CompositePodGroup) that kube-scheduler places together or not at
all. A tree is a group without a parent, the root, with all groups below it. If a tree waits for something that
kube-scheduler does not control, such as a scheduling gate, its groups get no condition and its pods are Pending without
a reason: the tree is stalled. `stalled_trees` finds such trees in the caches. Only then the pods of the set are listed,
at most once a minute, to find the cause. This file only sends events, and does not decide about groups or Jobs.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace

from api import keys
from api.batch import Job
from api.gang_status import INITIALLY_SCHEDULED
from api.gangs import Group, forest
from api.jobset import JobSet
from api.owners import pods_of
from api.pod import DetailedPod
from api.stalled_trees import Tree, WaitingPod, why_stalled
from controllers.planning.actions import Event
from controllers.planning.observed import Observed
from kube.client import Client
from kube.errors import KubeError
from kube.model.meta import find, is_true, seconds_between
from kube.resources import PODS

log = logging.getLogger(__name__)

FIRST_REPORT_SECONDS = 30.0
"""Seconds from when all pods exist until the scheduler should have reported about them."""

CHECK_INTERVAL = 60.0
"""Seconds between two checks of the pods of a set."""

LIST_TIMEOUT = 2.0
"""Seconds until the list of pods times out, since a reconcile waits for it."""

MAX_PODS = 500
"""At most this many pending pods are listed in one check."""

MAX_NOTE = 900
"""At most this many characters of an event's note."""


@dataclass(frozen=True, slots=True)
class StalledTrees:
    """The trees of one set about which kube-scheduler has reported nothing, although all of their pods exist.

    - `trees`: trees that have waited for `FIRST_REPORT_SECONDS` without a ready pod.
    - `ignored_root`: the root of the first such tree that has ready pods, so kube-scheduler ignores its groups.
    - `next_check_seconds`: seconds until the next tree has waited for `FIRST_REPORT_SECONDS`; None if there is none.
    """

    trees: tuple[Tree, ...] = ()
    ignored_root: Group | None = None
    next_check_seconds: float | None = None


def stalled_trees(observed: Observed) -> StalledTrees:
    """The stalled trees according to the caches: their PodGroups have no condition of kube-scheduler."""
    js, known = observed.jobset, observed.groups
    trees_of_set = forest(js)
    if trees_of_set is None or known is None or not _is_waiting(js):
        return StalledTrees()
    groups_by_name = {group.metadata.name: group for group in (*known.pod_groups, *known.composites)}
    jobs = {job.metadata.name: job for job in observed.jobs}
    trees, ignored_root, next_check_seconds = [], None, None
    for root in trees_of_set.roots:
        pod_groups = [group for group in root.walk() if not group.is_composite]
        tree_jobs = {
            name: jobs[name] for group in pod_groups for name, _ in group.jobs if _runs_in_group(group, jobs.get(name))
        }
        stored_groups = [groups_by_name[group.name] for group in pod_groups if group.name in groups_by_name]
        has_report = any(find(group.status.conditions or (), INITIALLY_SCHEDULED) for group in stored_groups)
        pod_counts = {name: number for group in pod_groups for name, number in group.jobs}
        if has_report or not tree_jobs or any(job.status.active < pod_counts[name] for name, job in tree_jobs.items()):
            continue
        age = _age(tree_jobs.values(), observed.now)
        if age < FIRST_REPORT_SECONDS:
            next_check_seconds = min(FIRST_REPORT_SECONDS - age, next_check_seconds or FIRST_REPORT_SECONDS)
        elif any(job.status.ready for job in tree_jobs.values()):
            ignored_root = ignored_root or root
        else:
            names_of_running = {
                rjob
                for group in pod_groups
                if any(name in tree_jobs for name, _ in group.jobs)
                for rjob in group.replicated_jobs
            }
            stored_root = groups_by_name.get(root.name)
            priority = stored_root.spec.priority if stored_root else None
            active_pod_counts = {name: job.status.active for name, job in tree_jobs.items()}
            trees.append(Tree(root, groups_by_name, names_of_running, active_pod_counts, priority=priority))
    return StalledTrees(tuple(trees), ignored_root, next_check_seconds)


def _is_waiting(js: JobSet) -> bool:
    """Whether the set runs, its groups exist, and some of them are not scheduled."""
    conditions = js.status.conditions
    is_running = not js.spec.suspend and not js.status.terminal_state
    return is_running and is_true(conditions, keys.GROUPS_READY) and not is_true(conditions, keys.GROUPS_SCHEDULED)


def _runs_in_group(group: Group, job: Job | None) -> bool:
    """Whether the Job runs, and its pods name this group. The pods of a Job without groups name no group."""
    if job is None or job.outcome or job.spec.suspend or job.metadata.deletion_timestamp is not None:
        return False
    return job.spec.template.spec.pod_group == group.name


def _age(jobs: Iterable[Job], now: str) -> float:
    """Seconds since the start of the Job that started last."""
    last_start = max(job.status.start_time or job.metadata.creation_timestamp or now for job in jobs)
    return seconds_between(last_start, now)


NO_EVENTS: frozenset[Event] = frozenset()
"""One shared empty set, since each new `frozenset()` takes 216 bytes."""


@dataclass(slots=True)
class Reports:
    """What was reported about one JobSet, and when to check its pods again.

    - `events`: the events that the last check found. `next_check`: in the time of the event loop.
    - `interval_seconds`: seconds between the last check and the next one, if the caller makes them longer each time.
    """

    next_check: float = 0.0
    events: frozenset[Event] = NO_EVENTS
    interval_seconds: float = 0.0

    def clear(self) -> None:
        """Forget everything, since the set no longer waits."""
        self.next_check, self.events, self.interval_seconds = 0.0, NO_EVENTS, 0.0

    async def update(
        self, js: JobSet, current_events: Awaitable[frozenset[Event]], record: Callable[[JobSet, Event], None]
    ) -> None:
        """Record the events that are new. If the client raises an error, the earlier events stay."""
        try:
            events = await current_events
        except (KubeError, TimeoutError) as error:
            log.info("pods of JobSet %s/%s are not known: %s", js.metadata.namespace, js.metadata.name, error)
            return
        for event in events - self.events:
            record(js, event)
        self.events = events or NO_EVENTS


class StalledGangs:
    """Checks the pods of stalled trees, and sends one event for each cause."""

    def __init__(self, client: Client, record: Callable[[JobSet, Event], None]) -> None:
        self._client = client
        self._record = record

    async def check(self, observed: Observed, reports: Reports) -> float | None:
        """Check the set if its next check is due.

        Returns the seconds until the next check; None if the set waits for no gang. Errors of the client are logged.
        """
        js = observed.jobset
        if js.spec.scheduling is None or not _is_waiting(js):
            reports.clear()
            return None
        clock = asyncio.get_running_loop().time
        if clock() < reports.next_check:
            return reports.next_check - clock()
        stalled = stalled_trees(observed)
        await reports.update(js, self._events(observed, stalled), self._record)
        wait = stalled.next_check_seconds or FIRST_REPORT_SECONDS
        if stalled.trees or stalled.ignored_root:
            wait = CHECK_INTERVAL
        reports.next_check = clock() + wait
        return wait

    async def _events(self, observed: Observed, stalled: StalledTrees) -> frozenset[Event]:
        """The warnings that apply now. Raises errors of the client."""
        if stalled.ignored_root is not None:
            group = stalled.ignored_root
            note = (
                f"pods of {group.kind} {group.name} run, and kube-scheduler has never said a word about the group:"
                " start it with --feature-gates=GenericWorkload=true; without, it schedules them pod by pod"
            )
            return frozenset({Event("Warning", "SchedulerIgnoresGroups", note, distinct=True)})
        if not stalled.trees:
            return NO_EVENTS
        pods = pods_of(observed.jobs, await self._pods(observed.jobset))
        notes = [note for tree in stalled.trees if (note := _note(tree, pods))]
        if not notes:
            return NO_EVENTS
        more = f" ({len(notes) - 1} more trees wait so, too)" if len(notes) > 1 else ""
        return frozenset({Event("Warning", "GangWaiting", f"{notes[0][:MAX_NOTE]}{more}", distinct=True)})

    async def _pods(self, js: JobSet) -> list[DetailedPod]:
        """The Pending pods of the set, at most `MAX_PODS`."""
        page = await self._client.list(
            PODS,
            type=DetailedPod,
            namespace=js.metadata.namespace,
            label_selector=f"{keys.JOBSET_NAME}={js.metadata.name}",
            field_selector="status.phase=Pending",
            limit=MAX_PODS,
            timeout=LIST_TIMEOUT,
        )
        return page.items or []


def _has_report(pod: DetailedPod) -> bool:
    """Whether kube-scheduler has reported about a pod: the pod has a node, or the condition PodScheduled.

    The API server itself sets this condition for a pod with scheduling gates.
    """
    has_condition = not pod.spec.scheduling_gates and pod.status.condition("PodScheduled") is not None
    return bool(pod.spec.node_name) or has_condition


def _note(tree: Tree, pods: Iterable[DetailedPod]) -> str:
    """The text of the event about a tree. `pods`: pods of the set.

    Empty if kube-scheduler has reported about one of the tree's pods, or if no pod of the tree is in `pods`.
    """
    tree_pods = [pod for pod in pods if (owner := pod.metadata.controller()) and owner.name in tree.pod_counts]
    if not tree_pods or any(_has_report(pod) for pod in tree_pods):
        return ""
    waiting_pods = [
        WaitingPod(
            pod.metadata.name,
            tuple(gate.name for gate in pod.spec.scheduling_gates),
            pod.spec.priority or 0,
            pod.spec.scheduler_name,
        )
        for pod in tree_pods
    ]
    reason = why_stalled(replace(tree, waiting_pods=waiting_pods))
    number = sum(tree.pod_counts.values())
    return (
        f"{tree.root.kind} {tree.root.name}: its {number} pods wait and the scheduler says nothing: {reason.problem}."
        f" {reason.fix[0].upper()}{reason.fix[1:]}"
    )
