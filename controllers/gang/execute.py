"""Writes the scheduling groups of a JobSet as a plan says. No other file writes these objects.

Groups are PodGroups, whose members are pods, and CompositePodGroups (here: composites), whose members are groups. A
Workload lists the templates of all groups of a set. Here, "group" includes the Workload.

Each answer of the API server is compared with the object that was sent. While a feature gate is off, the API server
silently drops fields, such as the name of the parent of a group. Without its parent, kube-scheduler would place the
group independently of the other groups.
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
    """A group cannot be created with the wanted fields. `reason`: for the condition SchedulingObjectsReady."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class GroupWriter:
    """Writes groups, and puts the API server's answers into the caches of the watches."""

    client: Client
    watches: GroupWatches

    async def write(self, js: JobSet, actions: Sequence[Action]) -> list[Failure]:
        """Delete, then patch, then create groups. Returns the failures.

        Groups are created by level (`CreateGroup.level`), parents first. After a failure, no lower level is created.
        """
        deletions = [action for action in actions if isinstance(action, DeleteGroup)]
        patches = [action for action in actions if isinstance(action, PatchGroup)]
        creations = [action for action in actions if isinstance(action, CreateGroup)]
        failures = await each(deletions, partial(self._delete, js.metadata.namespace))
        failures += await each(patches, partial(self._patch, js))
        for level in sorted({action.level for action in creations}):
            if failures:
                break
            creations_of_level = [action for action in creations if action.level == level]
            failures += await each(creations_of_level, partial(self._create, js))
        return failures

    async def _create(self, js: JobSet, action: CreateGroup) -> None:
        namespace = js.metadata.namespace
        resource, body = RESOURCES[action.kind], action.build_body()
        try:
            stored = await self.client.create(resource, body, namespace=namespace)
        except AlreadyExists:
            # If the existing object belongs to the set, the next plan decides what to do with it.
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
            # Composites are immutable in Kubernetes 1.37. Their children refer to them by name, so a new object works.
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
