"""Warns of pods for which kube-scheduler finds no node, in sets without gang scheduling. An event quotes its message.

The manager watches no pods of such sets. So while Jobs of the set have pods that are not ready, one page of the pods
without a node is listed, first after 30 s, then at doubled intervals up to 10 minutes.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from api import keys
from api.jobset import JobSet
from api.owners import pods_of
from api.pending import is_unschedulable
from api.pod import DetailedPod
from controllers.gang.stalled import LIST_TIMEOUT, NO_EVENTS, Reports
from controllers.planning.actions import Event
from controllers.planning.observed import Observed
from kube.client import Client
from kube.resources import PODS

FIRST_CHECK = 30.0
"""Seconds from when pods are first seen not ready until the first check."""

LONGEST_INTERVAL = 600.0
"""At most this many seconds between two checks."""

MAX_PODS = 100
"""At most this many pods are listed in one check."""

MAX_WORDS = 700
"""At most this many characters of the scheduler's message are in an event."""


class UnscheduledPods:
    """Reads the pods of sets that wait, and warns if the scheduler's messages are new."""

    def __init__(self, client: Client, record: Callable[[JobSet, Event], None]) -> None:
        self._client = client
        self._record = record

    async def check(self, observed: Observed, reports: Reports) -> float | None:
        """Make a check if one is due. Returns the seconds until the next check; None if no pod waits. Never fails."""
        js = observed.jobset
        if not _has_waiting_pods(js):
            reports.clear()
            return None
        clock = asyncio.get_running_loop().time
        if not reports.next_check:
            reports.next_check, reports.interval_seconds = clock() + FIRST_CHECK, FIRST_CHECK
        if clock() < reports.next_check:
            return reports.next_check - clock()
        await reports.update(js, self._events(observed), self._record)
        reports.interval_seconds = min(2 * reports.interval_seconds, LONGEST_INTERVAL)
        reports.next_check = clock() + reports.interval_seconds
        return reports.interval_seconds

    async def _events(self, observed: Observed) -> frozenset[Event]:
        """The current warning, or nothing. Raises errors of the client."""
        js = observed.jobset
        page = await self._client.list(
            PODS,
            type=DetailedPod,
            namespace=js.metadata.namespace,
            label_selector=f"{keys.JOBSET_UID}={js.metadata.uid}",
            field_selector="status.phase=Pending,spec.nodeName=",
            limit=MAX_PODS,
            timeout=LIST_TIMEOUT,
        )
        note = describe_unscheduled(pods_of(observed.jobs, page.items or ()), more=bool(page.metadata.continue_token))
        return frozenset({Event("Warning", keys.PODS_UNSCHEDULABLE, note, distinct=True)}) if note else NO_EVENTS


def _has_waiting_pods(js: JobSet) -> bool:
    """Whether the set runs, and has a Job with pods of which not all are ready."""
    runs = not js.spec.suspend and not js.status.terminal_state
    return runs and any(entry.active > entry.ready for entry in js.status.replicated_jobs_status)


def describe_unscheduled(pods: Sequence[DetailedPod], *, more: bool = False) -> str:
    """The message of the event about these pods; empty if none is unscheduled. `more`: there are further pods.

    Leaders in exclusive placement (pods with completion index 0, whose node decides the domain of their Job) are left
    out, since their JobSet gets another event about them.
    """
    messages = {pod.metadata.name: message for pod in pods if (message := _scheduler_message(pod))}
    if not messages:
        return ""
    [(most_common, number), *other_messages] = Counter(messages.values()).most_common()
    first = next(name for name, message in messages.items() if message == most_common)
    subject = f"pod {first} is" if number == 1 else f"pod {first} and {number - 1} more are"
    other_pods = sum(count for _, count in other_messages)
    other_reasons = f"; {other_pods} more for other reasons" if other_pods else ""
    beyond_limit = f"; there are more than {MAX_PODS} pods without a node" if more else ""
    return f"{subject} not scheduled: {most_common}{other_reasons}{beyond_limit}"


def _scheduler_message(pod: DetailedPod) -> str:
    """The scheduler's reason why a pod has no node; empty if it gives none, or for leaders in exclusive placement."""
    condition = pod.status.condition("PodScheduled")
    leads = pod.metadata.topology is not None and pod.metadata.leads
    if condition is None or leads or not pod.is_live or not is_unschedulable(pod):
        return ""
    return condition.message.partition(" preemption:")[0].rstrip(". ")[:MAX_WORDS]
