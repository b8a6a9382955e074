"""Records of leftover pods: pods of earlier attempts that still exist while a set restarts.

An attempt is the run of a set between two restarts. A Job is not created again before its old pods have ended.
"""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from api.jobset import JobSet
from api.leftovers import LeftoverPod, owner_to_wait_for
from kube.informer import Informer

UID_LENGTH = 36
"""The number of characters of a UID. Users can write a longer text into an owner reference of a pod."""


class OldPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The cached record of a pod of an earlier attempt. There may be tens of thousands of such pods.

    `job` is the name of the Job that waits for the pod, and `job_uid` is the UID of the pod's owner. The record is its
    own `metadata`, to save memory.
    """

    namespace: str
    name: str
    resource_version: str
    job: str
    job_uid: str

    @property
    def uid(self) -> str:
        """The pod's name, since the store needs a UID. The real UID is not kept: nothing is written to these pods."""
        return self.name

    @property
    def metadata(self) -> "OldPod":
        return self


def old_pod_of(js: JobSet) -> Callable[[LeftoverPod], OldPod | None]:
    """A function that makes the record of a pod, or returns None for a pod that no Job has to wait for."""
    owner_of = owner_to_wait_for(js)

    def to_old_pod(pod: LeftoverPod) -> OldPod | None:
        meta, owner = pod.metadata, owner_of(pod)
        if owner is None:
            return None
        version, uid = meta.resource_version, sys.intern(owner.uid[:UID_LENGTH])  # the pods of a Job share the text
        return OldPod(namespace=meta.namespace, name=meta.name, resource_version=version, job=owner.name, job_uid=uid)

    return to_old_pod


@dataclass(slots=True)
class FollowedPods:
    """The watch of the pods of all attempts before `attempt` of one JobSet. `is_over`: the watch has ended."""

    attempt: int
    pods: Informer[OldPod]
    task: asyncio.Task[None] | None = None
    is_over: bool = False

    def stop(self) -> None:
        """End the watch, or prevent it from beginning."""
        self.is_over = True
        if self.task is not None:
            self.task.cancel()
