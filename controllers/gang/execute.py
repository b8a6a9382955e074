"""Carries out a plan's actions on groups. No other file writes Workloads, CompositePodGroups and PodGroups.

The stored objects are compared with what was sent, since the API server drops fields silently while a feature gate is
off, and a group without its parent would be scheduled as a tree of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from api import gang_api
from api.gang_objects import dropped_fields
from api.jobset import JobSet
from controllers.gang.watches import RESOURCES, GroupWatches
from controllers.planning.actions import Action, CreateGroup, DeleteGroup, PatchGroup
from kube.client import Client
from kube.decode import convert
from kube.errors import AlreadyExists, Invalid, KubeError, NotFound
from kube.model.meta import JSON, ObjectMeta
from kube.parallel import Failure, each


class GroupWriteError(KubeError):
    """A group cannot be created with the wanted fields. `reason` is for the condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class GroupWriter:
    """Writes groups, and overlays the stores of the watches with the API server's answers."""

    client: Client
    watches: GroupWatches

    async def write(self, js: JobSet, actions: Sequence[Action]) -> list[Failure]:
        """Delete, then patch, then create groups, parents first. After a failure no lower level is created."""
        deletions = [action for action in actions if isinstance(action, DeleteGroup)]
        patches = [action for action in actions if isinstance(action, PatchGroup)]
        creations = [action for action in actions if isinstance(action, CreateGroup)]
        failures = await each(deletions, partial(self._delete, js.metadata.namespace))
        failures += await each(patches, partial(self._patch, js))
        for level in sorted({action.level for action in creations}):
            if failures:
                break
            failures += await each([a for a in creations if a.level == level], partial(self._create, js))
        return failures

    async def _create(self, js: JobSet, action: CreateGroup) -> None:
        namespace = js.metadata.namespace
        resource, body = RESOURCES[action.kind], action.build_body()
        try:
            stored = await self.client.create(resource, body, namespace=namespace)
        except AlreadyExists:
            # The next plan sees whether the existing object is being deleted.
            stored = await self.client.get(resource, action.name, namespace=namespace)
            meta = convert(ObjectMeta, stored["metadata"])
            if not meta.controlled_by(js.metadata.uid):
                problem = f"{action.kind} {action.name} exists already and belongs to {meta.owner}: delete it"
                raise GroupWriteError("NameConflict", problem) from None
            self.watches.overlay(action.kind, stored)
            return
        try:
            _check_stored(action, body, stored)
        except GroupWriteError:
            await self.client.delete(resource, action.name, namespace=namespace, uid=stored["metadata"]["uid"])
            raise
        self.watches.overlay(action.kind, stored)

    async def _patch(self, js: JobSet, action: PatchGroup) -> None:
        namespace = js.metadata.namespace
        resource = RESOURCES[action.kind]
        body = {**action.patch, "metadata": {"uid": action.uid, "resourceVersion": action.resource_version}}
        try:
            stored = await self.client.patch(resource, action.name, body, namespace=namespace)
        except Invalid:
            if action.replacement is None:
                raise
            # A composite is immutable in 1.37. Its children refer to it by name, so it can be replaced.
            await self._delete(namespace, DeleteGroup(action.kind, action.name, action.uid))
            replacement = action.replacement
            await self._create(js, CreateGroup(action.kind, action.name, lambda: replacement, 0))
            return
        self.watches.overlay(action.kind, stored)
        _check_stored(action, action.patch, stored)

    async def _delete(self, namespace: str, action: DeleteGroup) -> None:
        resource = RESOURCES[action.kind]
        try:
            terminating = await self.client.delete(resource, action.name, namespace=namespace, uid=action.uid)
        except NotFound:
            terminating = None
        if terminating is not None and "deletionTimestamp" in terminating.get("metadata", {}):
            self.watches.overlay(action.kind, terminating)
        else:
            self.watches.by_kind[action.kind].store.overlay_deleted(namespace, action.name, action.uid)


def _check_stored(action: CreateGroup | PatchGroup, sent: JSON, stored: JSON) -> None:
    """Raise `GroupWriteError` if the API server has dropped fields that were sent."""
    dropped = dropped_fields(sent, stored)
    if dropped:
        missing_fields = gang_api.missing_fields(action.kind, action.name, dropped)
        raise GroupWriteError(missing_fields.reason, missing_fields.message)
