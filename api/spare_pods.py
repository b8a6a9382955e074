"""Records of the pods that need places, and of the spare pods that have places (docs/concepts/spares.md).

A record takes a few hundred bytes, and exists while a pod has no node, or a spare pod is ready. No object is written
from these records.
"""

from sys import intern

from api import keys
from api.nodes import JobPod, job_pod_fields
from api.owners import owning_job
from api.pending import is_unschedulable
from api.pod import DetailedPod


class PoolPod(JobPod, frozen=True, kw_only=True, gc=False):
    """A pod that has no node, or a spare pod that is ready on a node. Any user may have written its labels.

    - `group`: the pod's ReplicatedJob. `pool`: the ReplicatedJob for which the spares hold places.
    - `nominated`: the node to which the pod is nominated. `gated`: a scheduling gate holds the pod back until it gets a
      place. `unschedulable`: kube-scheduler finds no node for the pod.
    - `job_key`, `leads`, `awaits_leader` (at its scheduling gate): empty or False without exclusive placement.
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
    """The cached record of a pod; None for a pod that neither needs nor has a place.

    A spare pod has a place while it is ready. The node controller sets the pods of a failed node to not ready.
    """
    meta, spec, owner = pod.metadata, pod.spec, owning_job(pod.metadata)
    labels = meta.labels
    is_spare, is_exclusive = labels.replicated_job != labels.spares, meta.topology is not None
    ready = pod.status.condition("Ready")
    has_place = bool(spec.node_name) and ready is not None and ready.status == "True"
    if owner is None or not pod.is_live or (not has_place if is_spare else spec.node_name):
        return None
    return PoolPod(
        **job_pod_fields(pod, owner),
        group=intern(labels.replicated_job),
        pool=intern(labels.spares),
        nominated=pod.status.nominated_node_name,
        gated=any(gate.name == keys.SPARE_GATE for gate in spec.scheduling_gates),
        unschedulable=is_unschedulable(pod),
        job_key=intern(labels.job_key) if is_exclusive else "",
        leads=is_exclusive and meta.leads,
        awaits_leader=is_exclusive and pod.awaits_leader,
    )
