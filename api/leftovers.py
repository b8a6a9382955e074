"""Leftover pods: pods of deleted Jobs, which have to end before the Jobs are created again. Pure.

A restart deletes Jobs and creates new Jobs with the same names. Two processes with the same rank must not run at the
same time. So a new Job waits until the pods of the old Job have ended.

Any user who may create pods can write the labels and the owner reference of a pod. So a pod counts only if its owner
reference names a Job of the JobSet, and only as long as it can still run.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet

from api.jobset import JobSet
from api.names import job_name_predicate
from api.owners import owning_job
from kube.model.meta import Base, Identity, OwnerReference

Leftovers = Mapping[str, frozenset[str]]
"""The UIDs of the deleted Jobs that own leftover pods, by the name of the Job."""

NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of pods that may run. The kubelet reports the end of a pod only when no container runs any more."""


class PodMeta(Identity, frozen=True, kw_only=True):
    """Metadata of a pod that may be left over."""

    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None

    @property
    def is_only_finalized(self) -> bool:
        """Whether the pod runs no containers any more, and only a finalizer delays its removal.

        The grace period is 0 once the kubelet has ended the containers, for a pod without a node, and after a forced
        deletion.
        """
        return self.deletion_timestamp is not None and self.deletion_grace_period_seconds == 0


class LeftoverPod(Base, frozen=True, kw_only=True):
    """A pod that may be left over, of which only the metadata was requested."""

    metadata: PodMeta


def owner_to_wait_for(js: JobSet) -> Callable[[LeftoverPod], OwnerReference | None]:
    """A function that returns the Job that owns a leftover pod of the JobSet; None for any other pod."""
    is_job_name = job_name_predicate(js)

    def owner_of(pod: LeftoverPod) -> OwnerReference | None:
        owner = None if pod.metadata.is_only_finalized else owning_job(pod.metadata)
        return owner if owner is not None and is_job_name(owner.name) else None

    return owner_of


def without_owners(leftovers: Leftovers, uids: AbstractSet[str]) -> Leftovers:
    """`leftovers` without the Jobs with these UIDs."""
    return {name: other_uids for name, owner_uids in leftovers.items() if (other_uids := owner_uids - uids)}
