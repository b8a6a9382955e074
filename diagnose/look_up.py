"""Reads objects that only some checks need, such as claims, nodes, events and the pods of the manager.

Each function reads a bounded number of objects. If the user lacks a right, this is noted in the `Reader`.
"""

from collections.abc import AsyncIterator, Container, Iterable, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from api import keys
from api.batch import OwnedObject
from api.event import Regarding, SeenEvent
from api.jobset import JobSet
from api.names import subdomain
from api.pod import Pod, PodStatus
from api.restart_agent import jobs_without_agent
from api.selectors import one_of, other_attempts_selector
from controllers.planning.attempts import requested_attempt
from controllers.planning.child_jobs import Child, integer
from diagnose.facts import SeenClaim, SeenConditions, SeenLease, SeenPod, SeenQuota, SeenStorageClass
from diagnose.nodes import SeenNode
from diagnose.quota import quota_refusal
from diagnose.wording import PREEMPTED
from kube.errors import NotFound
from kube.options import METADATA_LIST, ListOptions
from kube.reader import MAX_EXAMPLES, MAX_PAGES, Reader
from kube.resources import (
    EVENTS,
    KUEUE_WORKLOADS,
    LEASES,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    SERVICES,
    STORAGE_CLASSES,
)
from manifests.installed.webhook_switch import State, configuration_state
from manifests.naming import MUTATING_CONFIGURATION

DISRUPTION_REASONS = ("Preempted", "Evicted", "TaintManagerEviction", "NodeNotReady")
"""Reasons of events about pods that were preempted or evicted, or whose node is not ready."""
PLACED_SELECTOR = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of pods that are on a node and have not ended."""
_MAX_RESTARTED_JOBS = 50
"""The pods of at most this many Jobs that restart alone are read: the UIDs of the Jobs are in the URL."""


async def manager_lease(reader: Reader) -> SeenLease | None:
    """The manager's lease, or an empty record if it does not exist; None if it may not be read."""
    with reader.noting(f"the manager: you may not get leases in namespace {keys.MANAGER_NAMESPACE}"):
        return await reader.get(LEASES, SeenLease, keys.LEASE, keys.MANAGER_NAMESPACE) or SeenLease()
    return None


async def webhook_state(reader: Reader) -> State | None:
    """Whether the API server calls the mutating webhooks; None if their configuration may not be read."""
    with reader.noting("webhooks: you may not get mutatingwebhookconfigurations, so whether they are off is not known"):
        stored = await reader.get(MUTATING_WEBHOOK_CONFIGURATIONS, dict[str, Any], MUTATING_CONFIGURATION)
        return configuration_state(MUTATING_WEBHOOK_CONFIGURATIONS.kind, MUTATING_CONFIGURATION, stored).state
    return None


async def namespace(reader: Reader, name: str) -> SeenConditions | None:
    """The namespace of this name; None if it is gone or may not be read."""
    note = f"the namespace: you may not get namespaces in {name}, so whether it is being deleted is not known"
    return await reader.find(NAMESPACES, SeenConditions, name, note)


async def has_service(reader: Reader, js: JobSet, warnings: Iterable[SeenEvent]) -> bool:
    """Whether the Service exists that could not be created according to Warnings; False without such Warnings."""
    if all(event.reason != keys.SERVICE_CREATION_FAILED for event in warnings):
        return False
    note = "the Service: you may not get services, so whether it has been created since is not known"
    service = await reader.find(SERVICES, OwnedObject, subdomain(js), note)
    return service is not None and service.metadata.controlled_by(js.metadata.uid)


async def quotas(reader: Reader, refusals: Iterable[SeenEvent]) -> dict[str, SeenQuota | None]:
    """The first quotas that these Warnings name, by name; None for a quota that does not exist."""
    names = (refusal.quota for event in refusals if (refusal := quota_refusal(event.note)))
    note = "quotas: you may not get resourcequotas, so whether they still refuse what they refused is not known"
    return await reader.by_name(RESOURCE_QUOTAS, SeenQuota, names, note)


async def kueue_workloads(reader: Reader, js: JobSet) -> Sequence[SeenConditions]:
    """Kueue's Workloads of a JobSet; empty if the API server does not serve this version of the API."""
    group = KUEUE_WORKLOADS.group
    note = f"Kueue: you may not list workloads.{group}, so whether it has admitted the JobSet is not known"
    options: ListOptions = {"label_selector": f"{keys.KUEUE_JOB_UID}={js.metadata.uid}"}
    with suppress(NotFound):
        return await reader.collect(KUEUE_WORKLOADS, SeenConditions, "Workloads", note, pages=1, **options) or ()
    return ()


async def claims(reader: Reader, pods: Iterable[SeenPod]) -> dict[str, SeenClaim | None]:
    """The first PersistentVolumeClaims of these pods, by name; None for a claim that does not exist."""
    names = (name for pod in pods for name in pod.spec.claims_of(pod.name))
    note = "claims: you may not get persistentvolumeclaims, so what is wrong with them is not known"
    return await reader.by_name(PERSISTENT_VOLUME_CLAIMS, SeenClaim, names, note)


async def device_claims(reader: Reader, pods: Iterable[SeenPod]) -> dict[str, bool]:
    """Whether the first ResourceClaims that these pods name exist; empty if the API server does not serve them."""
    names = dict.fromkeys(claim.resource_claim_name for pod in pods for claim in pod.spec.resource_claims)
    note = "resource claims: you may not list resourceclaims, so whether they exist is not known"
    claim_exists: dict[str, bool] = {}
    with suppress(NotFound):
        for name in list(filter(None, names))[:MAX_EXAMPLES]:
            options: ListOptions = {"field_selector": f"metadata.name={name}"}
            claims = await reader.collect(RESOURCE_CLAIMS, OwnedObject, "resource claims", note, pages=1, **options)
            claim_exists |= {} if claims is None else {name: any(claim.metadata.name == name for claim in claims)}
    return claim_exists


async def storage_classes(reader: Reader) -> Sequence[SeenStorageClass] | None:
    """The StorageClasses of the cluster; None if they may not be read."""
    note = "storage classes: you may not list storageclasses.storage.k8s.io, so which there are is not known"
    return await reader.collect(STORAGE_CLASSES, SeenStorageClass, "storage classes", note, pages=1, namespace=None)


async def nodes(reader: Reader, pods: Iterable[SeenPod]) -> dict[str, SeenNode | None]:
    """The nodes of the first of these pods, by name; None for a node that does not exist."""
    note = "nodes: you may not get nodes, so whether those of pods that are not ready or end work is not known"
    return await reader.by_name(NODES, SeenNode, (pod.spec.node_name for pod in pods), note)


async def placed_pods(
    reader: Reader, selector: str = keys.JOBSET_NAME, subject: str = "pods of JobSets", pages: int = MAX_PAGES
) -> AsyncIterator[SeenPod]:
    """Pods of JobSets of all namespaces that are on nodes, without their status, which would take much memory."""
    options: ListOptions = {"namespace": None, "label_selector": selector, "field_selector": PLACED_SELECTOR}
    async for pod in reader.some(PODS, SeenPod, subject, pages=pages, **options):
        yield replace(pod, status=PodStatus())


async def all_placed_pods(reader: Reader) -> Sequence[SeenPod] | None:
    """Pods of all JobSets that are on nodes; None if they may not be read."""
    note = "pods of other namespaces: you may not list them, so which JobSets hold what its pods lack is not known"
    with reader.noting(note):
        return [pod async for pod in placed_pods(reader)]
    return None


async def ending_pods(reader: Reader, js: JobSet, previous: Sequence[Child]) -> tuple[SeenPod, ...]:
    """Pods of earlier attempts that are being deleted on a node, of the Jobs `previous` and of Jobs that are gone.

    Jobs that restart alone have the label of the current attempt, so their pods are selected by the UIDs of the Jobs.
    Pods that are not ready come first, such as all pods of an unreachable node. Otherwise the time of deletion decides.
    """
    attempt, metadata = str(js.status.restarts), (child.job.metadata for child in previous)
    restarted_alone = [meta.uid for meta in metadata if meta.labels.get(keys.RESTART_ATTEMPT) == attempt]
    selectors = [other_attempts_selector(js)] if js.status.restarts else []
    selectors += [one_of(keys.JOB_UID, restarted_alone[:_MAX_RESTARTED_JOBS])] if restarted_alone else []
    return await deleted_pods(reader, selectors)


async def deleted_pods(reader: Reader, selectors: Sequence[str]) -> tuple[SeenPod, ...]:
    """Pods for these label selectors that are being deleted on a node, in the order of `ending_pods`."""
    pods: list[SeenPod] = []
    subject = "pods that are ending"
    note = "pods that are ending: you may not list pods, so the nodes that they are on are not known"
    for labels in selectors:
        options: ListOptions = {"label_selector": labels, "field_selector": "spec.nodeName!="}
        pods += await reader.collect(PODS, SeenPod, subject, note, pages=1, **options) or ()
    ending = (pod for pod in pods if pod.metadata.deletion_timestamp is not None)
    return tuple(sorted(ending, key=lambda pod: (pod.is_ready, pod.metadata.deletion_timestamp or "", pod.name)))


async def pods_without_agent_report(reader: Reader, js: JobSet, job_uids: Container[str]) -> tuple[Pod, ...]:
    """Running pods of the Jobs with these UIDs whose agents have not reported the attempt for which workers wait."""
    if not js.restarts_in_place or keys.DISABLE_IN_PLACE_RESTART in js.metadata.annotations:
        return ()
    labels = f"{keys.JOBSET_NAME}={js.metadata.name}"
    if without_agent := jobs_without_agent(js):
        labels += f",{keys.REPLICATED_JOB_NAME} notin ({','.join(sorted(without_agent))})"
    note = "agents: you may not list pods, so whether workers wait for one is not known"
    options: ListOptions = {"label_selector": labels, "field_selector": "status.phase=Running"}
    pods = await reader.collect(PODS, Pod, "agents", note, **options) or ()
    reporting_pods = [pod for pod in pods if pod.is_reporting and pod.job_uid in job_uids]
    reports = [integer(pod.metadata.annotations.in_place_restart_attempt) for pod in reporting_pods]
    attempts = [-1 if attempt is None else attempt for attempt in reports]
    awaited_attempt = max([requested_attempt(js.status), *attempts])
    return tuple(pod for pod, attempt in zip(reporting_pods, attempts, strict=True) if attempt < awaited_attempt)


async def disruption_events(reader: Reader, js: JobSet) -> tuple[SeenEvent, ...]:
    """Events with a reason of `DISRUPTION_REASONS` about pods of the JobSet, newest first."""
    disruptions: list[SeenEvent] = []
    with reader.noting():  # a missing right is noted where the Warnings are read
        for reason in DISRUPTION_REASONS:
            fields = f"regarding.kind=Pod,reason={reason}"
            events = reader.some(EVENTS, SeenEvent, f"events {reason}", pages=4, field_selector=fields)
            disruptions += [event async for event in events if event.regarding.name.startswith(f"{js.metadata.name}-")]
        disruptions.sort(key=lambda event: event.last_time, reverse=True)
        first, further = disruptions[:MAX_EXAMPLES], disruptions[MAX_EXAMPLES:]
        return tuple([await _with_preemptor(reader, event) for event in first] + further)
    return ()


async def _with_preemptor(reader: Reader, event: SeenEvent) -> SeenEvent:
    """The event. An event of a preemption gets the name of the preempting pod, as its note only has UID and node."""
    preemption = PREEMPTED.search(event.note)
    if preemption is None or event.related is not None:
        return event
    uid, node = preemption.groups()
    with reader.noting("who preempted: you may not list pods of other namespaces"):
        fields = f"spec.nodeName={node}"
        options: ListOptions = {"namespace": None, "field_selector": fields, "accept": METADATA_LIST}
        async for pod in reader.some(PODS, OwnedObject, "pods of a node", **options):
            if pod.metadata.uid == uid:
                return replace(event, related=Regarding(name=pod.metadata.name, namespace=pod.metadata.namespace))
    return event


async def manager_pods(reader: Reader) -> tuple[SeenPod, ...]:
    """The live pods of the manager, sorted by name; empty if they run outside the cluster or may not be read."""
    note = f"the manager's pods: you may not list pods in namespace {keys.MANAGER_NAMESPACE}"
    options: ListOptions = {"namespace": keys.MANAGER_NAMESPACE, "label_selector": keys.MANAGER_SELECTOR}
    pods = await reader.collect(PODS, SeenPod, "the manager's pods", note, pages=1, **options) or ()
    return tuple(sorted((pod for pod in pods if pod.is_live), key=lambda pod: pod.name))
