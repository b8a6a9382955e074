"""Lists the pending pods of a JobSet with a time limit for its start, as the answer to a plan's `PendingPodQuery`.

A pod is late if it is pending for longer than the time limit.
"""

import dataclasses
import logging
from collections.abc import Mapping

from api import keys
from api.event import SeenEvent
from api.owners import owning_job
from api.pending import clean_words, is_unschedulable, may_lack_a_node, why_pending
from api.pod import DetailedPod
from controllers.planning.observed import Observed, PendingPod
from controllers.planning.start_timeout import is_late, next_check, start_limits
from kube.client import PAGE_SIZE, Client
from kube.errors import KubeError
from kube.resources import EVENTS, PODS

log = logging.getLogger(__name__)

MAX_EXPLAINED_PODS = 3
"""One check reads the events of at most this many late pods."""
MAX_EVENTS = 50
"""At most this many events are read about one pod."""
EVENTS_TIMEOUT = 2.0
"""Seconds until the list of events about one pod times out."""
LONGEST_REASON = 512
"""At most this many characters of a message of the kubelet or the scheduler."""


async def find_pending_pods(client: Client, observed: Observed) -> tuple[Mapping[str, PendingPod], str]:
    """The oldest pending pod of each Job, by UID of the Job, and the time of the next check (RFC 3339).

    The pending pods of the set are listed once, in pages. Raises errors of the client.
    """
    meta = observed.jobset.metadata
    oldest: dict[str, PendingPod] = {}
    nodeless: dict[str, PendingPod] = {}
    unschedulable: dict[str, PendingPod] = {}
    job_uids = {job.metadata.uid for job in observed.jobs}
    pages = client.pages(
        PODS,
        type=DetailedPod,
        namespace=meta.namespace,
        label_selector=f"{keys.JOBSET_UID}={meta.uid}",
        field_selector="status.phase=Pending",
        limit=PAGE_SIZE,
    )
    async for pod in pages:
        owner = owning_job(pod.metadata)
        if owner is None or owner.uid not in job_uids:
            continue
        if pod.spec.scheduling_gates or pod.metadata.deletion_timestamp is not None:
            continue
        uid, reason = owner.uid, why_pending(pod)[:LONGEST_REASON]
        pending_pod = PendingPod(pod.metadata.name, pod.spec.node_name, pod.metadata.creation_timestamp or "", reason)
        _keep_oldest(oldest, uid, pending_pod)
        if may_lack_a_node(pod):
            _keep_oldest(nodeless, uid, pending_pod)
        if is_unschedulable(pod):
            _keep_oldest(unschedulable, uid, pending_pod)
    time_limits = start_limits(observed.jobset.failure_policy)
    pending_pods = {
        uid: dataclasses.replace(pod, nodeless=nodeless.get(uid), unschedulable=unschedulable.get(uid))
        for uid, pod in oldest.items()
    }
    late_uids = [
        uid
        for uid, pod in pending_pods.items()
        if time_limits.start is not None and is_late(pod, time_limits.start, observed.now)
    ]
    for uid in [uid for uid in late_uids if pending_pods[uid].node][:MAX_EXPLAINED_PODS]:
        late_pod = pending_pods[uid]
        if warning := await _latest_warning(client, meta.namespace, late_pod.name):
            pending_pods[uid] = dataclasses.replace(late_pod, reason=f"{late_pod.reason}; {warning}")
    return pending_pods, next_check(pending_pods.values(), time_limits, observed.now)


async def _latest_warning(client: Client, namespace: str, pod: str) -> str:
    """The last Warning event about a pod, such as why the kubelet cannot start it; empty if there is none.

    Only events report faults of volumes and the network. The status of a pod does not. No decision depends on them.
    """
    try:
        page = await client.list(
            EVENTS,
            type=SeenEvent,
            namespace=namespace,
            field_selector=f"regarding.kind=Pod,regarding.name={pod},type=Warning",
            limit=MAX_EVENTS,
            timeout=EVENTS_TIMEOUT,
        )
    except (KubeError, TimeoutError) as error:
        log.info("events about pod %s/%s are not known: %s", namespace, pod, error)
        return ""
    last = max(page.items or (), key=lambda event: event.last_time, default=None)
    return "" if last is None else clean_words(f"{last.reason}: {last.note}")


def _keep_oldest(pods: dict[str, PendingPod], uid: str, pod: PendingPod) -> None:
    """Put the pod into `pods` if it is the oldest pod of its Job so far."""
    oldest = pods.get(uid)
    if oldest is None or (pod.created, pod.name) < (oldest.created, oldest.name):
        pods[uid] = pod
