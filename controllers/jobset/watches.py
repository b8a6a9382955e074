"""The watches of the JobSet controller, and which JobSets each change puts into the work queue."""

from collections.abc import Iterable

from api import keys
from api.batch import Claim, Job, Service
from api.features import FeatureGates
from api.jobset import JobSet
from api.names import subdomain
from api.owners import owning_jobset
from api.packed import pack
from api.pod import DetailedPod, Pod, with_short_reports
from api.priority import PriorityClass
from api.spare_pods import PoolPod, pool_pod
from api.spares import GATE as SPARES
from controllers.gang.watches import GroupWatches
from controllers.indexes import BY_OWNER, controller_uid
from controllers.jobset.execute import Caches
from controllers.jobset.last_ends import LastEnds
from controllers.jobset.node_watches import NodeWatches
from controllers.jobset.spare_pods import BY_JOBSET
from controllers.planning.maintenance import GATE as MAINTENANCE
from controllers.planning.node_failure import GATE as NODE_FAILURE
from controllers.resources import JOBSETS
from kube.client import Client
from kube.controller import Request
from kube.indexes import IndexKey
from kube.informer import Informer, InformerGroup
from kube.model.meta import Identity
from kube.resources import JOBS, PERSISTENT_VOLUME_CLAIMS, PODS, PRIORITY_CLASSES, SERVICES
from kube.workqueue import AT_ONCE, BATCHED, COUNTED, Turn, WorkQueue

BY_SET_NAME = "set"
"""Index of Jobs by the JobSet name in their label, whoever owns them."""

BY_SUBDOMAIN = "subdomain"
"""Index of JobSets by the name of the Service that they want."""


class Watches(InformerGroup):
    """The watches of the JobSet controller. They run on every replica, so that a new leader has full caches."""

    def __init__(
        self,
        client: Client,
        gates: FeatureGates,
        *,
        groups_required: bool = True,
        failed_node_taints: Iterable[str] = (),
    ) -> None:
        jobset_selector = keys.JOBSET_NAME
        self.jobsets = Informer(client, JOBSETS, JobSet, indexes={BY_SUBDOMAIN: _service_name}, transform=pack)
        indexes = {BY_OWNER: controller_uid, BY_SET_NAME: set_name}
        self.jobs = Informer(client, JOBS, Job, indexes=indexes, label_selector=jobset_selector)
        self.services = Informer(client, SERVICES, Service)
        self.claims = Informer(client, PERSISTENT_VOLUME_CLAIMS, Claim, label_selector=jobset_selector)
        self.priority_classes = Informer(client, PRIORITY_CLASSES, PriorityClass)
        self.groups = GroupWatches(client, gates, required=groups_required)
        self.nodes: NodeWatches | None = None
        if gates[NODE_FAILURE] or gates[MAINTENANCE]:
            jobsets = self.jobsets.store
            self.nodes = NodeWatches(client, jobsets, failed_node_taints, all_taints=gates[MAINTENANCE])
        self.last_ends = LastEnds()
        self.pods: Informer[Pod] | None = None
        if gates["InPlaceRestart"]:
            indexes = {BY_OWNER: controller_uid}
            self.pods = Informer(
                client, PODS, Pod, indexes=indexes, label_selector=jobset_selector, transform=with_short_reports
            )
            self.pods.on_event(self.last_ends.on_event)

        self.spare_pods: Informer[PoolPod] | None = None
        if gates[SPARES]:
            self.spare_pods = Informer(
                client,
                PODS,
                DetailedPod,  # type: ignore[arg-type]  # the decoded type; the transform makes the cached one
                indexes={BY_JOBSET: lambda pod: [pod.jobset_uid]},
                label_selector=f"{keys.JOBSET_UID},{keys.SPARES}",
                transform=pool_pod,
            )
        pods = [informer for informer in (self.pods, self.spare_pods) if informer is not None]
        nodes = () if self.nodes is None else self.nodes.informers
        self.informers = [self.jobsets, self.jobs, self.services, self.claims, self.priority_classes, *pods, *nodes]
        self.companions = (self.groups.run,)

    def feed(self, queue: WorkQueue[Request]) -> None:
        """Make every future change of an object put its JobSet into the queue."""
        self.jobsets.on_event(lambda _, old, new: _forget_failures(queue, old, new))
        self.jobsets.enqueue(queue, lambda js: [Request(js.metadata.namespace, js.metadata.name)])
        self.jobs.enqueue(queue, lambda job: owner_requests(job.metadata), job_turn)
        self.services.enqueue(queue, self._jobsets_of_service, lambda _, new: COUNTED if new else AT_ONCE)
        self.claims.enqueue(
            queue, lambda c: [Request(c.metadata.namespace, c.metadata.labels.get(keys.JOBSET_NAME, ""))]
        )
        if self.pods is not None:
            self.pods.enqueue(queue, self._jobset_of_pod)
        if self.spare_pods is not None:
            self.spare_pods.enqueue(queue, _jobset_to_serve)
        if self.nodes is not None:
            self.nodes.feed(queue)
        self.groups.feed(queue, owner_requests)
        self.groups.on_change(lambda: self._enqueue_all_with_groups(queue))

    def _enqueue_all_with_groups(self, queue: WorkQueue[Request]) -> None:
        """Put every JobSet with `spec.scheduling` into the queue, since the API server serves other group kinds now."""
        for js in self.jobsets.store.list():
            if js.spec.scheduling is not None:
                queue.add(Request(js.metadata.namespace, js.metadata.name))

    def caches(self) -> Caches:
        """The caches from which plans are made, and into which the executor puts the answers to its writes."""
        return Caches(
            jobsets=self.jobsets.store,
            jobs=self.jobs.store,
            services=self.services.store,
            claims=self.claims.store,
            pods=None if self.pods is None else self.pods.store,
            priority_classes=self.priority_classes.store,
            groups=self.groups,
            nodes=self.nodes,
            last_ends=self.last_ends,
            spare_pods=None if self.spare_pods is None else self.spare_pods.store,
        )

    def _jobsets_of_service(self, service: Service) -> list[Request]:
        """The JobSets that want a Service of this name: its owner, and JobSets that wait until the name is free."""
        meta = service.metadata
        jobsets = self.jobsets.store.by_index(BY_SUBDOMAIN, IndexKey(meta.namespace, meta.name))
        return [Request(js.metadata.namespace, js.metadata.name) for js in jobsets]

    def _jobset_of_pod(self, pod: Pod) -> list[Request]:
        """The JobSet of the Job that controls a pod."""
        job = self.jobs.store.get(pod.metadata.namespace, pod.metadata.owner.name)
        return owner_requests(job.metadata) if job is not None and pod.metadata.controlled_by(job.metadata.uid) else []


def _jobset_to_serve(pod: PoolPod) -> list[Request]:
    """The JobSet of a spare pod, which holds a node for other pods, or of a pod that needs such a place.

    Other pods only wait for kube-scheduler. In exclusive placement the result is the JobSet of any pod, since the pods
    of a Job get places once the pod with completion index 0 has a node.
    """
    is_relevant = pod.is_spare or pod.gated or pod.unschedulable or pod.job_key
    return [Request(pod.namespace, pod.jobset)] if is_relevant else []


def _forget_failures(queue: WorkQueue[Request], old: JobSet | None, new: JobSet | None) -> None:
    """Reset the back-off of a deleted JobSet, so that a new JobSet of the same name does not inherit it."""
    if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
        queue.forget(Request(old.metadata.namespace, old.metadata.name))


def _service_name(js: JobSet) -> Iterable[str]:
    """The values of a JobSet in `BY_SUBDOMAIN`."""
    return [subdomain(js)] if js.dns_enabled else []


def set_name(job: Job) -> Iterable[str]:
    """The values of a Job in `BY_SET_NAME`."""
    return [job.metadata.labels.get(keys.JOBSET_NAME, "")]


def job_turn(old: Job | None, new: Job | None) -> Turn:
    """When to reconcile the JobSet of a changed Job: `COUNTED`, after more urgent changes, if only counts changed."""
    if new is None:
        return AT_ONCE if old is None or old.outcome or old.is_failing else BATCHED
    if old is None:
        return AT_ONCE if new.status.conditions else COUNTED
    is_same = old.metadata.generation == new.metadata.generation and old.status.conditions == new.status.conditions
    return COUNTED if is_same else AT_ONCE


def owner_requests(meta: Identity) -> list[Request]:
    """The JobSet that controls an object, as a request; none if no JobSet does."""
    ref = owning_jobset(meta)
    return [] if ref is None else [Request(meta.namespace, ref.name)]
