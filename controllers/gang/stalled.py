"""Warns of gangs that kube-scheduler reports nothing about, and of those that it does not treat as gangs.

A tree that waits for something outside the scheduler gets no condition anywhere: its pods are Pending without a reason.
`stalled_trees` finds these trees without a call; only their pods are then listed, once a minute at most. Decides
nothing about groups or Jobs.
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
from api.stalled_trees import Member, Tree, why_stalled
from controllers.planning.actions import Event
from controllers.planning.observed import Observed
from kube.client import Client
from kube.errors import KubeError
from kube.model.meta import find, is_true, seconds_between
from kube.resources import PODS

log = logging.getLogger(__name__)

FIRST_REPORT_SECONDS = 30.0
"""Seconds that the scheduler has for a first report once the pods exist."""

CHECK_INTERVAL = 60.0
"""Seconds between two checks of the pods of a set."""

LIST_TIMEOUT = 2.0
"""Seconds for the list of pods: a reconcile waits for it."""

MAX_PODS = 500
"""Pending pods that are listed for one check."""

MAX_NOTE = 900
"""Characters of an event's note."""


@dataclass(frozen=True, slots=True)
class StalledTrees:
    """Trees with all of their pods and without a report. `ignored`: the first of those with running pods.

    `wait`: seconds until the next tree may be stalled; None if no tree is younger than `FIRST_REPORT_SECONDS`.
    """

    trees: tuple[Tree, ...] = ()
    ignored: Group | None = None
    wait: float | None = None


def stalled_trees(observed: Observed) -> StalledTrees:
    """The stalled trees by the caches: their PodGroups never had a condition."""
    js, known = observed.jobset, observed.groups
    wanted = forest(js)
    if wanted is None or known is None or not _waits(js):
        return StalledTrees()
    groups_by_name = {group.metadata.name: group for group in (*known.pod_groups, *known.composites)}
    jobs = {job.metadata.name: job for job in observed.jobs}
    trees, ignored, wait = [], None, None
    for root in wanted.roots:
        leaves = [group for group in root.walk() if not group.composite]
        own = {name: jobs[name] for leaf in leaves for name, _ in leaf.jobs if _in(leaf, jobs.get(name))}
        stored = [groups_by_name[leaf.name] for leaf in leaves if leaf.name in groups_by_name]
        reported = any(find(group.status.conditions or (), INITIALLY_SCHEDULED) for group in stored)
        pods = {name: number for leaf in leaves for name, number in leaf.jobs}
        if reported or not own or any(job.status.active < pods[name] for name, job in own.items()):
            continue
        age = _age(own.values(), observed.now)
        if age < FIRST_REPORT_SECONDS:
            wait = min(FIRST_REPORT_SECONDS - age, wait or FIRST_REPORT_SECONDS)
        elif any(job.status.ready for job in own.values()):
            ignored = ignored or root
        else:
            released = {rjob for leaf in leaves for rjob in leaf.replicated_jobs if _has(leaf, own)}
            above = groups_by_name.get(root.name)
            active = {name: job.status.active for name, job in own.items()}
            trees.append(Tree(root, groups_by_name, released, active, priority=above.spec.priority if above else None))
    return StalledTrees(tuple(trees), ignored, wait)


def _waits(js: JobSet) -> bool:
    """Whether the set runs, its groups exist, and some of them are not scheduled."""
    conditions = js.status.conditions
    runs = not js.spec.suspend and not js.status.terminal_state
    return runs and is_true(conditions, keys.GROUPS_READY) and not is_true(conditions, keys.GROUPS_SCHEDULED)


def _in(leaf: Group, job: Job | None) -> bool:
    """Whether the Job runs, and its pods name this group: not those that were created before the groups."""
    if job is None or job.outcome or job.spec.suspend or job.metadata.deletion_timestamp is not None:
        return False
    return job.spec.template.spec.pod_group == leaf.name


def _has(leaf: Group, own: dict[str, Job]) -> bool:
    return any(name in own for name, _ in leaf.jobs)


def _age(jobs: Iterable[Job], now: str) -> float:
    """Seconds since the youngest Job started."""
    started = max(job.status.start_time or job.metadata.creation_timestamp or now for job in jobs)
    return seconds_between(started, now)


NO_EVENTS: frozenset[Event] = frozenset()
"""One shared empty set: each new `frozenset()` takes 216 bytes."""


@dataclass(slots=True)
class Reports:
    """The reports about one JobSet. `next_check`: event loop time. `wait`: seconds before it."""

    next_check: float = 0.0
    events: frozenset[Event] = NO_EVENTS
    wait: float = 0.0

    def clear(self) -> None:
        """Forget everything: the set is not waiting any more."""
        self.next_check, self.events, self.wait = 0.0, NO_EVENTS, 0.0

    async def update(
        self, js: JobSet, found: Awaitable[frozenset[Event]], record: Callable[[JobSet, Event], None]
    ) -> None:
        """Record the events that are new. If the client raises an error, the earlier events stay."""
        try:
            events = await found
        except (KubeError, TimeoutError) as error:
            log.info("pods of JobSet %s/%s are not known: %s", js.metadata.namespace, js.metadata.name, error)
            return
        for event in events - self.events:
            record(js, event)
        self.events = events or NO_EVENTS


class StalledGangs:
    """Checks the pods of stalled gangs, and warns once for each reason."""

    def __init__(self, client: Client, record: Callable[[JobSet, Event], None]) -> None:
        self._client = client
        self._record = record

    async def check(self, observed: Observed, reports: Reports) -> float | None:
        """Warn if it is time. Returns the seconds until the next check; None if the set does not wait. Never fails."""
        js = observed.jobset
        if js.spec.scheduling is None or not _waits(js):
            reports.clear()
            return None
        clock = asyncio.get_running_loop().time
        if clock() < reports.next_check:
            return reports.next_check - clock()
        found = stalled_trees(observed)
        await reports.update(js, self._events(observed, found), self._record)
        wait = CHECK_INTERVAL if found.trees or found.ignored else found.wait or FIRST_REPORT_SECONDS
        reports.next_check = clock() + wait
        return wait

    async def _events(self, observed: Observed, found: StalledTrees) -> frozenset[Event]:
        """The warnings that apply now. Raises errors of the client."""
        if found.ignored is not None:
            group = found.ignored
            note = (
                f"pods of {group.kind} {group.name} run, and kube-scheduler has never said a word about the group:"
                " start it with --feature-gates=GenericWorkload=true; without, it schedules them pod by pod"
            )
            return frozenset({Event("Warning", "SchedulerIgnoresGroups", note, distinct=True)})
        if not found.trees:
            return NO_EVENTS
        pods = pods_of(observed.jobs, await self._pods(observed.jobset))
        notes = [note for tree in found.trees if (note := _note(tree, pods))]
        if not notes:
            return NO_EVENTS
        more = f" ({len(notes) - 1} more trees wait so, too)" if len(notes) > 1 else ""
        return frozenset({Event("Warning", "GangWaiting", f"{notes[0][:MAX_NOTE]}{more}", distinct=True)})

    async def _pods(self, js: JobSet) -> list[DetailedPod]:
        """The first Pending pods of the set."""
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


def _reported(pod: DetailedPod) -> bool:
    """Whether the scheduler has reported about a pod. The API server itself sets PodScheduled of gated pods."""
    judged = not pod.spec.scheduling_gates and pod.status.condition("PodScheduled") is not None
    return bool(pod.spec.node_name) or judged


def _note(tree: Tree, pods: Iterable[DetailedPod]) -> str:
    """The warning about a tree; empty if the scheduler has reported about a pod of it, or no pod of it is known."""
    tree_pods = [pod for pod in pods if (owner := pod.metadata.controller()) and owner.name in tree.pods]
    if not tree_pods or any(_reported(pod) for pod in tree_pods):
        return ""
    members = [
        Member(
            pod.metadata.name,
            tuple(gate.name for gate in pod.spec.scheduling_gates),
            pod.spec.priority or 0,
            pod.spec.scheduler_name,
        )
        for pod in tree_pods
    ]
    reason = why_stalled(replace(tree, waiting=members))
    number = sum(tree.pods.values())
    return (
        f"{tree.root.kind} {tree.root.name}: its {number} pods wait and the scheduler says nothing: {reason.problem}."
        f" {reason.fix[0].upper()}{reason.fix[1:]}"
    )
