"""Pods of ReplicatedJobs that have spares, and the spare pods: the fields that decide who gets a place.

A few hundred bytes are kept of each, while a pod has no node or a spare holds its place. These records are never
written.
"""

from sys import intern

from api import keys
from api.nodes import JobPod, job_pod_fields
from api.owners import owning_job
from api.pending import is_unschedulable
from api.pod import DetailedPod


class PoolPod(JobPod, frozen=True, kw_only=True, gc=False):
    """A pod that has no node, or a spare that is ready on one. Any user may have written its labels.

    `group`: its ReplicatedJob; `pool`: the one for which places are held. `nominated`: the node to which it is.
    `gated`: whether it waits to be given a place. `unschedulable`: whether kube-scheduler finds no node for it.

    In exclusive placement, else empty or False: `job_key`, whether it `leads` its Job, or `awaits_leader` at its gate.
    """

    group: str
    pool: str
    nominated: str = ""
    gated: bool = False
    unschedulable: bool = False
    job_key: str = ""
    leads: bool = False
    awaits_leader: bool = False

    @property
    def is_spare(self) -> bool:
        return self.group != self.pool


def pool_pod(pod: DetailedPod) -> PoolPod | None:
    """The cached record of a pod of a pool; None for other pods.

    A spare counts while it is ready: the node controller sets the pods of a failed node to not ready.
    """
    meta, spec, owner = pod.metadata, pod.spec, owning_job(pod.metadata)
    labels = meta.labels
    is_spare, exclusive = labels.replicated_job != labels.spares, meta.topology is not None
    ready = pod.status.condition("Ready")
    holds = bool(spec.node_name) and ready is not None and ready.status == "True"
    if owner is None or not pod.live or (not holds if is_spare else spec.node_name):
        return None
    return PoolPod(
        **job_pod_fields(pod, owner),
        group=intern(labels.replicated_job),
        pool=intern(labels.spares),
        nominated=pod.status.nominated_node_name,
        gated=any(gate.name == keys.SPARE_GATE for gate in spec.scheduling_gates),
        unschedulable=is_unschedulable(pod),
        job_key=intern(labels.job_key) if exclusive else "",
        leads=exclusive and meta.leads,
        awaits_leader=exclusive and pod.awaits_leader,
    )
