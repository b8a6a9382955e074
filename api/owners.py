"""Finds the JobSet or the Job that controls an object, by the object's owner references. Pure.

An owner is in the same namespace as the object. Any user can write the UID of an object in another namespace into an
owner reference, so callers compare only UIDs of the same namespace.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from api import keys
from kube.model.meta import Identity, OwnerReference


class _Object(Protocol):
    @property
    def metadata(self) -> Identity: ...


T = TypeVar("T", bound=_Object)


def owning_jobset(meta: Identity) -> OwnerReference | None:
    """The owner reference to the JobSet that controls an object; None if no JobSet does."""
    return _controller(meta, keys.KIND, keys.API_VERSION)


def owning_job(meta: Identity) -> OwnerReference | None:
    """The owner reference to the Job that controls an object; None if no Job does."""
    return _controller(meta, "Job", "batch/v1")


def _controller(meta: Identity, kind: str, api_version: str) -> OwnerReference | None:
    ref = meta.controller()
    return ref if ref is not None and (ref.kind, ref.api_version) == (kind, api_version) else None


def pods_of(jobs: Iterable[_Object], pods: Iterable[T]) -> list[T]:
    """The pods that one of these Jobs controls. Labels of a pod do not prove that, since any user can write them."""
    uids = {job.metadata.uid for job in jobs}
    return [pod for pod in pods if (owner := owning_job(pod.metadata)) is not None and owner.uid in uids]
