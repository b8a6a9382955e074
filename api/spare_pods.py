"""Small records of pods for the caches of spares (docs/concepts/spares.md).

A spare pod (`api.spares`) only waits, and reserves a place on its node for a pod of another ReplicatedJob. The cache
has ready spare pods, and pods without a node, which may need a place. A record takes a few hundred bytes, and is never
written back to the API server.
"""

from sys import intern

from api import keys
from api.nodes import JobPod, job_pod_fields
from api.owners import owning_job
from api.pending import is_unschedulable
from api.pod import DetailedPod


class PoolPod(JobPod, frozen=True, kw_only=True, gc=False):
    """A pod that has no node, or a spare pod that is ready on a node. Any user may have written its labels.

    - `group`: the ReplicatedJob of the pod. `pool`: the ReplicatedJob for whose pods the places are.
    - `nominated`: the node for which kube-scheduler has nominated the pod; empty for none.
    - `gated`: whether the pod has the scheduling gate that is removed when the pod gets a place.
    - `unschedulable`: whether kube-scheduler finds no node for the pod.
    - Only in exclusive placement: `job_key`, the hash of the Job's name; `leads`, whether the pod is the leader of its
      Job; `awaits_leader`, whether it has the scheduling gate of a pod whose leader has no node.
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
    """The record of a pod; None for a pod that neither needs a place nor reserves one.

    A spare pod reserves a place while it is ready. If its node fails, Kubernetes sets the pod to not ready.
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
