"""Leftover pods: pods of earlier attempts, which have to end before their Job is created again. Pure.

Any user who may create pods can write the labels and the owner reference of a pod. So a pod counts only if its owner
reference names a Job of the set, and only as long as it can still run.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet

from api.jobset import JobSet
from api.names import job_name_predicate
from api.owners import owning_job
from kube.model.meta import Base, Identity, OwnerReference

Leftovers = Mapping[str, frozenset[str]]
"""By name of the Job that waits for leftover pods, the UIDs of the Jobs that own the pods."""

NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of pods that may run. The kubelet reports the end of a pod only when no container runs any more."""


class PodMeta(Identity, frozen=True, kw_only=True):
    """Metadata of a pod that may be left over."""

    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None

    @property
    def is_only_finalized(self) -> bool:
        """Whether only a finalizer keeps the API server from removing the pod.

        This is the case if the kubelet has ended the containers, if the pod never had any, or if the deletion was
        forced.
        """
        return self.deletion_timestamp is not None and self.deletion_grace_period_seconds == 0


class LeftoverPod(Base, frozen=True, kw_only=True):
    """A pod that may be left over, of which only the metadata was requested."""

    metadata: PodMeta


def owner_to_wait_for(js: JobSet) -> Callable[[LeftoverPod], OwnerReference | None]:
    """A function that returns the owner of a pod if a Job of the owner's name has to wait until the pod is gone."""
    is_job_name = job_name_predicate(js)

    def owner_of(pod: LeftoverPod) -> OwnerReference | None:
        owner = None if pod.metadata.is_only_finalized else owning_job(pod.metadata)
        return owner if owner is not None and is_job_name(owner.name) else None

    return owner_of


def without_owners(leftovers: Leftovers, uids: AbstractSet[str]) -> Leftovers:
    """The leftover pods without those of the Jobs with these UIDs. Another Job of the same name keeps its pods."""
    return {name: other_uids for name, owner_uids in leftovers.items() if (other_uids := owner_uids - uids)}
