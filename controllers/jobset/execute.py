"""Executes a plan: sends its actions to the API server, and stores its status. All writes about a JobSet start here.

First come deletions, the places of spares (pods that hold nodes for other pods), the Service, volume claims, and groups
(the PodGroups, CompositePodGroups and Workloads of gang scheduling). Then come Jobs, then the status, unless the plan
wants its status first, then events. Each answer is put into a cache as an overlay, which the next plan reads even if
the watch is behind. "Not found" on a deletion, and "already exists" on a creation if the object belongs to the set, are
no errors. Other errors are collected, so that one refused Job does not delay other Jobs.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec

from api import keys
from api.batch import Claim, Job, Service
from api.jobset import JobSet
from api.jobset_status import JobSetStatus
from api.pod import Pod
from api.priority import PriorityClass
from api.spare_pods import PoolPod
from controllers.gang.execute import GroupWriteError, GroupWriter
from controllers.gang.watches import GroupWatches
from controllers.jobset.last_ends import LastEnds
from controllers.jobset.node_watches import NodeWatches
from controllers.jobset.pod_writes import PodWrites
from controllers.jobset.refused import RefusedJobs
from controllers.planning.actions import (
    Action,
    CreateClaim,
    CreateGroup,
    CreateJob,
    CreateService,
    DeleteGroup,
    DeleteJob,
    DeleteJobs,
    DeleteJobSet,
    DeletePod,
    EndSpare,
    Event,
    GivePlace,
    LiftGate,
    PatchGroup,
    PatchJob,
    Plan,
)
from controllers.resources import JOBSETS
from kube.client import Client, PatchType
from kube.errors import AlreadyExists, ApiError, Invalid, KubeError, NotFound
from kube.events import NOTE_LIMIT, Recorder, Reference
from kube.model.meta import JSON, Owner
from kube.parallel import Failure, each
from kube.patches import merge_diff
from kube.resources import JOBS, PERSISTENT_VOLUME_CLAIMS, SERVICES, Resource
from kube.store import Store

COUNT_BYTES = 24
"""Bytes of a note that are reserved for "and N more"."""

STATUS_TOO_LARGE = (
    "the status cannot be stored: with it the JobSet would be larger than etcd allows (1.5 MiB by default); until it"
    " is stored, the JobSet neither restarts nor ends: replace it by several JobSets, or move long texts of its"
    " templates to ConfigMaps"
)

T = TypeVar("T")
ServiceOrClaim = TypeVar("ServiceOrClaim", Service, Claim)
ActionsByType = defaultdict[type[Action], list[Any]]
"""The actions of a plan by their type. The actions of one type keep their order."""


@dataclass(frozen=True, slots=True)
class Caches:
    """The caches of the watches, from which plans are made. The executor puts the answers to its writes into them."""

    jobsets: Store[JobSet]
    jobs: Store[Job]
    services: Store[Service]
    claims: Store[Claim]
    pods: Store[Pod] | None = None
    priority_classes: Store[PriorityClass] | None = None
    groups: GroupWatches | None = None
    nodes: NodeWatches | None = None
    last_ends: LastEnds | None = None
    spare_pods: Store[PoolPod] | None = None


class ForeignObjectError(KubeError):
    """A Job of the set cannot be created, since a Job with the same name belongs to `owner`."""

    def __init__(self, name: str, owner: Owner) -> None:
        super().__init__(f"job {name!r} exists already and belongs to {owner}")
        self.name = name
        self.owner = owner


class FailedWrites(ExceptionGroup[Exception]):
    """Some writes of a plan failed. The other writes were done."""


@dataclass(frozen=True, slots=True)
class Executor:
    """Executes the plans of one process."""

    client: Client
    caches: Caches
    recorder: Recorder

    async def execute(
        self,
        js: JobSet,
        plan: Plan,
        on_stored: Callable[[JobSetStatus], None] = lambda _: None,
        refused: RefusedJobs | None = None,
        *,
        has_current_caches: bool = True,
    ) -> None:
        """Execute the plan. Raises `FailedWrites` if a write fails.

        Then `plan.counters` (the status with new counts, without the plan's decisions) is stored in place of
        `plan.status`, unless `plan.status` was stored first.

        `on_stored` is called with each status that the API server has stored (`plan.status` or `plan.counters`), even
        if a later write fails. `refused`: the Jobs that could not be created so far. If a user changes the JobSet
        meanwhile, the rest of the plan is left out. `has_current_caches`: whether the caches have all writes of earlier
        leaders. If not, a Job is deleted only in the version that the action names.
        """
        if plan.status_first:
            js = await self._publish(js, plan.status, plan.events, on_stored)
        actions = _group_by_type(plan.actions)
        failures = await self._prepare(js, actions, has_current_caches=has_current_caches) if actions else []
        is_prepared = not failures
        if is_prepared:
            failures += await self._create_jobs(js, actions[CreateJob], RefusedJobs() if refused is None else refused)
        if is_prepared or js.spec.suspend:  # a suspension is carried out even if other writes are refused
            failures += await self._run_each(js, actions[PatchJob], partial(self._patch_job, js))
        if self._is_superseded(js):
            return
        if failures:
            errors = [failure.error for failure in failures]
            try:
                if not plan.status_first:
                    await self._publish(js, plan.counters, (), on_stored)
            except KubeError as error:
                errors.append(error)
            raise FailedWrites(f"{len(failures)} of {len(plan.actions)} writes failed", errors)
        if not plan.status_first:
            await self._publish(js, plan.status, plan.events, on_stored)
        if actions[DeleteJobSet]:
            await self._delete_jobset(js)

    async def _publish(
        self,
        js: JobSet,
        status: JobSetStatus | None,
        events: Sequence[Event],
        on_stored: Callable[[JobSetStatus], None],
    ) -> JobSet:
        """Store a status, if there is one, then record its events. Returns the JobSet as it is then stored."""
        stored = None if status is None else await self._write_status(js, status)
        if status is not None and stored is not None:
            on_stored(status)
            js = stored
        for event in events:
            self.record_event(js, event)
        return js

    def _is_superseded(self, js: JobSet) -> bool:
        """Whether the user has changed or deleted the JobSet since the plan was made."""
        current = self.caches.jobsets.get(js.metadata.namespace, js.metadata.name)
        return current is None or (
            (current.metadata.uid, current.metadata.generation, current.metadata.deletion_timestamp)
            != (js.metadata.uid, js.metadata.generation, js.metadata.deletion_timestamp)
        )

    async def _prepare(self, js: JobSet, actions: ActionsByType, *, has_current_caches: bool) -> list[Failure]:
        """Write everything that comes before Jobs: deletions, places of spares, the Service, claims and groups."""
        caches = self.caches
        failures = await self._run_each(js, actions[DeleteJob], partial(self._delete_job, js, has_current_caches))
        failures += await self._run_each(js, actions[DeleteJobs], partial(self._delete_jobs, js))
        pod_writes = PodWrites(self.client, js.metadata.namespace)
        if caches.nodes is not None:
            delete_pod = partial(pod_writes.delete, caches.nodes.pods.store)
            failures += await self._run_each(js, actions[DeletePod], delete_pod)
        if caches.spare_pods is not None:
            delete_job = partial(self._delete_job, js, has_current_caches)
            give_place = partial(pod_writes.give_place, caches.spare_pods, delete_job=delete_job)
            failures += await self._run_each(js, actions[GivePlace], give_place)
            failures += await self._run_each(js, actions[EndSpare], partial(pod_writes.end_spare, caches.spare_pods))
            failures += await self._run_each(js, actions[LiftGate], partial(pod_writes.lift_gate, caches.spare_pods))
        ensure_service = partial(self._ensure_exists, js, SERVICES, Service, caches.services)
        service_failures = await self._run_each(js, actions[CreateService], ensure_service)
        self._warn_of_failures(js, keys.SERVICE_CREATION_FAILED, service_failures)
        ensure_claim = partial(self._ensure_exists, js, PERSISTENT_VOLUME_CLAIMS, Claim, caches.claims)
        claim_failures = await self._run_each(js, actions[CreateClaim], ensure_claim)
        self._warn_of_failures(js, "PVCCreationFailed", claim_failures)
        group_failures: list[Failure] = []
        group_actions = [*actions[DeleteGroup], *actions[PatchGroup], *actions[CreateGroup]]
        if caches.groups is not None and group_actions:
            group_failures = await GroupWriter(self.client, caches.groups).write(js, group_actions)
        # The next plan reports a GroupWriteError in a condition.
        unreported_failures = [failure for failure in group_failures if not isinstance(failure.error, GroupWriteError)]
        self._warn_of_failures(js, "SchedulingObjectsFailed", unreported_failures)
        return [*failures, *service_failures, *claim_failures, *group_failures]

    async def _create_jobs(
        self, js: JobSet, creations: Sequence[CreateJob], refused_jobs: RefusedJobs
    ) -> list[Failure]:
        """Create Jobs, and report failures, except for Jobs of other owners, which the next plan reports."""
        create_each = partial(self._run_each, js, label=failure_prefix)
        failures = await refused_jobs.create(creations, create_each, partial(self._create_job, js))
        unreported_failures = [failure for failure in failures if not isinstance(failure.error, ForeignObjectError)]
        self._warn_of_failures(js, keys.JOB_CREATION_FAILED, unreported_failures)
        return failures

    async def _run_each(
        self,
        js: JobSet,
        items: Sequence[T],
        act: Callable[[T], Awaitable[None]],
        label: Callable[[T], str] = lambda _: "",
    ) -> list[Failure]:
        """Call `act` for each item, concurrently, until the user changes the JobSet. `label` begins an error's text."""
        return await each(items, act, label, until=lambda: self._is_superseded(js)) if items else []

    async def _create_job(self, js: JobSet, action: CreateJob) -> None:
        namespace = js.metadata.namespace
        try:
            job = await self.client.create(JOBS, action.build_body(), namespace=namespace, type=Job)
        except AlreadyExists:
            job = await self.client.get(JOBS, action.name, namespace=namespace, type=Job)
            if not job.metadata.controlled_by(js.metadata.uid):
                raise ForeignObjectError(job.metadata.name, job.metadata.owner) from None
        self.caches.jobs.overlay(job)

    async def _delete_job(self, js: JobSet, has_current_caches: bool, action: DeleteJob) -> None:
        namespace = js.metadata.namespace
        try:
            terminating = await self.client.delete(
                JOBS,
                action.name,
                namespace=namespace,
                propagation_policy="Foreground",
                uid=action.uid,
                resource_version="" if has_current_caches else action.resource_version,
                type=Job,
            )
        except NotFound:
            terminating = None
        if terminating is None:
            self.caches.jobs.overlay_deleted(namespace, action.name, action.uid)
        else:
            self.caches.jobs.overlay(terminating)

    async def _delete_jobs(self, js: JobSet, action: DeleteJobs) -> None:
        namespace = js.metadata.namespace
        deleted_uids = await self.client.delete_collection(
            JOBS, label_selector=action.selector, namespace=namespace, propagation_policy="Background"
        )
        # Jobs with a finalizer or changed labels may still exist. The watch shows them.
        for name, uid in action.jobs:
            if uid in deleted_uids:
                self.caches.jobs.overlay_deleted(namespace, name, uid)

    async def _patch_job(self, js: JobSet, action: PatchJob) -> None:
        """Patch a Job.

        An API server may refuse a new pod template of a Job that has started before. Then the start time of the Job is
        cleared, and the patch is sent again.
        """
        namespace = js.metadata.namespace
        patch_type = PatchType.STRATEGIC if action.changes_resources else PatchType.MERGE
        patch = partial(self.client.patch, JOBS, action.name, namespace=namespace, type=Job)
        try:
            job = await patch(action.patch, patch_type=patch_type)
        except Invalid:
            if not action.changes_template:
                raise
            precondition = {name: action.patch["metadata"][name] for name in ("uid", "resourceVersion")}
            job = await patch({"metadata": precondition, "status": {"startTime": None}}, subresource="status")
            metadata = {**action.patch["metadata"], **job.metadata.precondition}
            try:
                job = await patch({**action.patch, "metadata": metadata}, patch_type=patch_type)
            except Invalid as error:
                if action.changes_resources:
                    note = f"the resources of job {action.name} cannot be set while it is resumed: {error.message}"
                    self.record_event(js, Event("Warning", "FailedResourcePropagation", note))
                raise
        self.caches.jobs.overlay(job)

    async def _ensure_exists(
        self,
        js: JobSet,
        resource: Resource,
        kind: type[ServiceOrClaim],
        cache: Store[ServiceOrClaim],
        action: CreateService | CreateClaim,
    ) -> None:
        """Create an object, unless an object of its name exists already."""
        namespace, name = js.metadata.namespace, action.body["metadata"]["name"]
        try:
            child = await self.client.create(resource, action.body, namespace=namespace, type=kind)
        except AlreadyExists:
            child = await self.client.get(resource, name, namespace=namespace, type=kind)
        cache.overlay(child)

    async def _write_status(self, js: JobSet, status: JobSetStatus) -> JobSet | None:
        """Store the status by a merge patch, unless the JobSet has changed. Returns None if the JobSet is gone."""
        changes = merge_diff(status_json(js.status), status_json(status))
        patch = {
            "metadata": js.metadata.precondition,
            "status": {**changes, "restarts": status.restarts},
        }
        name, namespace = js.metadata.name, js.metadata.namespace
        try:
            stored = await self.client.patch(
                JOBSETS, name, patch, namespace=namespace, subresource="status", type=JobSet
            )
        except NotFound:
            return None
        except ApiError as error:
            if error.too_large:
                self.record_event(js, Event("Warning", "StatusTooLarge", f"{STATUS_TOO_LARGE}: {error.message}"))
            raise
        self.caches.jobsets.overlay(stored)
        return stored

    async def _delete_jobset(self, js: JobSet) -> None:
        try:
            await self.client.delete(
                JOBSETS,
                js.metadata.name,
                namespace=js.metadata.namespace,
                propagation_policy="Foreground",
                uid=js.metadata.uid,
            )
        except NotFound:
            return

    def _warn_of_failures(self, js: JobSet, reason: str, failures: list[Failure]) -> None:
        """Record one Warning for all failures of a kind, if there are any."""
        if failures:
            self.record_event(js, Event("Warning", reason, join_errors([str(failure) for failure in failures])))

    def record_event(self, js: JobSet, event: Event) -> None:
        self.recorder.record(jobset_reference(js), event.type, event.reason, event.note, distinct=event.distinct)


def jobset_reference(js: JobSet) -> Reference:
    """The reference to the JobSet in its events."""
    return Reference(
        api_version=keys.API_VERSION,
        kind=keys.KIND,
        namespace=js.metadata.namespace,
        name=js.metadata.name,
        uid=js.metadata.uid,
        resource_version=js.metadata.resource_version,
    )


def status_json(status: JobSetStatus) -> JSON:
    """The status as JSON of the API; `restarts` is always present, even if it is 0."""
    wire: JSON = msgspec.to_builtins(status)
    return {"restarts": 0, **wire}


def failure_prefix(action: CreateJob) -> str:
    """The words before the error in events about a refused Job, as in the Go JobSet (docs/reference/events.md)."""
    return f'job "{action.name}" creation failed with error: '


def join_errors(errors: Sequence[str]) -> str:
    """The errors that fit into the note of an event, each on its own line, and the number of further errors.

    The first error is always included, but may be cut.
    """
    note = errors[0].encode()[: NOTE_LIMIT - COUNT_BYTES].decode(errors="ignore")
    for number, error in enumerate(errors[1:], 1):
        if len(note.encode()) + len(error.encode()) > NOTE_LIMIT - COUNT_BYTES:
            return f"{note}\nand {len(errors) - number} more"
        note = f"{note}\n{error}"
    return note


def _group_by_type(actions: Iterable[Action]) -> ActionsByType:
    by_type: ActionsByType = defaultdict(list)
    for action in actions:
        by_type[type(action)].append(action)
    return by_type
