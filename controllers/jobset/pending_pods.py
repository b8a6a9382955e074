"""Looks up the pending pods of a JobSet with a time limit for its start: the answer to a `PendingPodQuery`."""

import dataclasses
import logging
from collections.abc import Mapping

from api import keys
from api.event import SeenEvent
from api.owners import owning_job
from api.pending import clean_words, is_unschedulable, may_lack_a_node, why_pending
from api.pod import DetailedPod
from controllers.planning.observed import Observed, PendingPod
from controllers.planning.start_timeout import is_late, limits, next_check
from kube.client import Client
from kube.errors import KubeError
from kube.options import ListOptions
from kube.resources import EVENTS, PODS

log = logging.getLogger(__name__)

PAGE = 500
MAX_EXPLAINED = 3
"""Late pods of one check whose events are read."""
MAX_EVENTS = 50
"""Events that are read about one pod."""
ANSWER = 2.0
"""Seconds for an answer about events."""
LONGEST_REASON = 512
"""Characters of a message of the kubelet or the scheduler."""


async def find_pending_pods(client: Client, observed: Observed) -> tuple[Mapping[str, PendingPod], str]:
    """The pending pod of each Job that was created first, by the UID of the Job, and when to check next.

    One list of the pending pods of the set, in pages. Raises errors of the client.
    """
    meta = observed.jobset.metadata
    first: dict[str, PendingPod] = {}
    nodeless: dict[str, PendingPod] = {}
    unschedulable: dict[str, PendingPod] = {}
    jobs = {job.metadata.uid for job in observed.jobs}
    pages = client.pages(
        PODS,
        type=DetailedPod,
        namespace=meta.namespace,
        label_selector=f"{keys.JOBSET_UID}={meta.uid}",
        field_selector="status.phase=Pending",
        limit=PAGE,
    )
    async for pod in pages:
        owner = owning_job(pod.metadata)
        if owner is None or owner.uid not in jobs:
            continue
        if pod.spec.scheduling_gates or pod.metadata.deletion_timestamp is not None:
            continue
        uid, reason = owner.uid, why_pending(pod)[:LONGEST_REASON]
        seen = PendingPod(pod.metadata.name, pod.spec.node_name, pod.metadata.creation_timestamp or "", reason)
        _keep_first(first, uid, seen)
        if may_lack_a_node(pod):
            _keep_first(nodeless, uid, seen)
        if is_unschedulable(pod):
            _keep_first(unschedulable, uid, seen)
    time_limits = limits(observed.jobset)
    found = {
        uid: dataclasses.replace(pod, nodeless=nodeless.get(uid), unschedulable=unschedulable.get(uid))
        for uid, pod in first.items()
    }
    late_uids = [
        uid
        for uid, pod in found.items()
        if time_limits.start is not None and is_late(pod, time_limits.start, observed.now)
    ]
    for uid in [uid for uid in late_uids if found[uid].node][:MAX_EXPLAINED]:
        if warning := await _latest_warning(client, meta.namespace, found[uid].name):
            found[uid] = dataclasses.replace(found[uid], why=f"{found[uid].why}; {warning}")
    return found, next_check(found.values(), time_limits, observed.now)


async def _latest_warning(client: Client, namespace: str, pod: str) -> str:
    """The kubelet's last message about a pod that it cannot start; empty if there is none.

    Faults of volumes and network are in events only, not in the status of a pod. No decision depends on the answer.
    """
    fields = f"regarding.kind=Pod,regarding.name={pod},type=Warning"
    options: ListOptions = {"namespace": namespace, "field_selector": fields, "limit": MAX_EVENTS, "timeout": ANSWER}
    try:
        found = (await client.list(EVENTS, type=SeenEvent, **options)).items or ()
    except (KubeError, TimeoutError) as error:
        log.info("events about pod %s/%s are not known: %s", namespace, pod, error)
        return ""
    last = max(found, key=lambda event: event.last, default=None)
    return "" if last is None else clean_words(f"{last.reason}: {last.note}")


def _keep_first(kept: dict[str, PendingPod], uid: str, pod: PendingPod) -> None:
    """Keep the pod if it is the oldest of its Job so far."""
    other = kept.get(uid)
    if other is None or (pod.created, pod.name) < (other.created, other.name):
        kept[uid] = pod
