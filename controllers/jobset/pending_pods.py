"""Looks up the pending pods of a JobSet with a time limit for its start: the answer to a `PendingPodQuery`."""

import dataclasses
from collections.abc import Mapping

from api import keys
from api.owners import owning_job
from api.pending import may_lack_a_node, why_pending
from api.pod import DetailedPod
from controllers.planning.observed import Observed, PendingPod
from controllers.planning.start_timeout import limits, next_look
from kube.client import Client
from kube.resources import PODS

PAGE = 500
LONGEST_REASON = 512
"""Characters of what the kubelet or the scheduler says."""


async def look_at_pending_pods(client: Client, observed: Observed) -> tuple[Mapping[str, PendingPod], str]:
    """The pending pod that was created first, by the UID of its Job, and when the next look is worth it.

    One list of the pending pods of the set, in pages. Raises what the client raises.
    """
    meta = observed.jobset.metadata
    first: dict[str, PendingPod] = {}
    homeless: dict[str, PendingPod] = {}
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
        uid, why = owner.uid, why_pending(pod)[:LONGEST_REASON]
        seen = PendingPod(pod.metadata.name, pod.spec.node_name, pod.metadata.creation_timestamp or "", why)
        _keep_first(first, uid, seen)
        if may_lack_a_node(pod):
            _keep_first(homeless, uid, seen)
    found = {uid: dataclasses.replace(pod, homeless=homeless.get(uid)) for uid, pod in first.items()}
    return found, next_look(found.values(), limits(observed.jobset), observed.now)


def _keep_first(kept: dict[str, PendingPod], uid: str, pod: PendingPod) -> None:
    """Of the pods of a Job the one that was created first."""
    other = kept.get(uid)
    if other is None or (pod.created, pod.name) < (other.created, other.name):
        kept[uid] = pod
