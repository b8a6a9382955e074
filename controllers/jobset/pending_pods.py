"""Looks up the pending pods of a JobSet with a time limit for its start: the answer to a `PodQuery` of that kind."""

from collections.abc import Mapping

from api import keys
from api.pending import why_pending
from api.pod import DetailedPod
from controllers.planning.observed import Observed, PendingPod
from controllers.planning.start_timeout import next_look
from kube.client import Client
from kube.resources import PODS

PAGE = 500
LONGEST_REASON = 512
"""Characters of what the kubelet or the scheduler says."""


async def look_at_pending_pods(client: Client, observed: Observed) -> tuple[Mapping[str, PendingPod], str]:
    """The pending pod that was created first, by the UID of its Job, and when the next look is worth it.

    One list of the pending pods of the set, in pages. Raises what the client raises.
    """
    meta, policy = observed.jobset.metadata, observed.jobset.spec.failure_policy
    seconds = policy.start_timeout_seconds if policy is not None else None
    found: dict[str, PendingPod] = {}
    pages = client.pages(
        PODS,
        type=DetailedPod,
        namespace=meta.namespace,
        label_selector=f"{keys.JOBSET_UID}={meta.uid}",
        field_selector="status.phase=Pending",
        limit=PAGE,
    )
    async for pod in pages:
        if pod.spec.scheduling_gates or pod.metadata.deletion_timestamp is not None:
            continue
        uid, created = pod.metadata.labels.job_uid, pod.metadata.creation_timestamp or ""
        first = found.get(uid)
        if first is None or (created, pod.metadata.name) < (first.created, first.name):
            why = why_pending(pod)[:LONGEST_REASON]
            found[uid] = PendingPod(pod.metadata.name, pod.spec.node_name, created, why)
    return found, next_look(found.values(), seconds or 0, observed.now)
