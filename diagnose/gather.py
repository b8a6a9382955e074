"""Reads the facts that explain one JobSet from a cluster, page by page, with the rights of the user.

A JobSet may have 10,000 Jobs and 100,000 pods, so pods are read only while Jobs are not ready: the leaders (pods with
completion index 0), the pending pods, and some followers (all other pods) of a few Jobs. With exclusive placement,
followers are gated until their leader has a node. If the user lacks a right, the facts are left out with a note.
"""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime

from api import keys
from api.batch import OwnedObject
from api.event import SeenEvent
from api.gang_status import StoredGroup
from api.gangs import forest, forest_of_single_jobs
from api.jobset import JobSet
from api.leftovers import NOT_ENDED, LeftoverPod, owner_to_wait_for
from api.pod import PodMetadata
from api.selectors import one_of, other_attempts_selector
from api.topology import NodeMetadata
from controllers.resources import JOBSETS
from diagnose import look_up
from diagnose.case import is_unheld
from diagnose.facts import Facts, SeenGroups, SeenJob, SeenPod
from diagnose.jobset_causes import missing_defaults
from diagnose.look_up import PLACED_SELECTOR
from diagnose.manager_causes import last_completion_time
from diagnose.misfits import lacking_resource
from diagnose.nodes import Nodes, SeenNode
from diagnose.states import recently_failed_attempts
from diagnose.survey import Survey, missing_pods, survey_jobs
from diagnose.wording import ANTI_AFFINITY, MISFIT, UNBOUND_CLAIM
from kube.client import PAGE_SIZE, Client
from kube.errors import NotFound
from kube.model.meta import Owner, seconds_between
from kube.options import COMMAND_TIMEOUT, METADATA_LIST, ListOptions
from kube.reader import MAX_EXAMPLES, MAX_PAGES, Reader
from kube.resources import COMPOSITE_POD_GROUPS, EVENTS, JOBS, KUEUE_WORKLOADS, NODES, POD_GROUPS, PODS

REPLACED_SECONDS = 10.0
"""A pod that is created more than this number of seconds after the start of its Job replaces another pod."""
FEW_PAGES = 4
"""At most this many pages are read of pods that are seldom needed."""


async def gather(client: Client, namespace: str, name: str, now: datetime) -> Facts:
    """The facts about a JobSet. Raises all errors, except missing rights to read other objects."""
    js = await client.get(JOBSETS, name, namespace=namespace, type=JobSet, timeout=COMMAND_TIMEOUT)
    return await gather_about(client, js, now)


async def gather_about(client: Client, js: JobSet, now: datetime) -> Facts:
    """The facts about a JobSet that has just been read. Raises all errors but missing rights."""
    facts = Facts(now=now, jobset=js)
    if not js.status.terminal_state and js.is_ours:
        await _Gatherer(client, facts).fill()
    return facts


class _Gatherer:
    """Reads the facts about one JobSet once."""

    def __init__(self, client: Client, facts: Facts) -> None:
        self._client = client
        self._facts = facts
        self._js = facts.jobset
        self._namespace = self._js.metadata.namespace
        self._jobset_selector = f"{keys.JOBSET_NAME}={self._js.metadata.name}"
        self._reader = Reader(client, self._namespace)

    async def fill(self) -> None:
        """Read the facts that findings about a JobSet in its present state may need."""
        facts, js = self._facts, self._js
        facts.jobs = await self._jobs()
        facts.warnings = await self._warnings(f"regarding.kind={keys.KIND},regarding.name={js.metadata.name}")
        facts.has_service = await look_up.has_service(self._reader, js, facts.warnings)
        if js.spec.suspend and keys.QUEUE_NAME in js.metadata.labels:
            facts.has_kueue = await self._client.serves(KUEUE_WORKLOADS.group)
            if facts.has_kueue:
                facts.workloads = await look_up.kueue_workloads(self._reader, js)
        if missing_defaults(js):
            facts.webhook_state = await look_up.webhook_state(self._reader)
        has_pods = any(job.status.active or job.status.terminating for job in facts.jobs or ())
        if (js.spec.suspend or js.metadata.deletion_timestamp) and has_pods:
            facts.ending_pods = await look_up.deleted_pods(self._reader, [self._jobset_selector])
            facts.nodes_by_name |= await look_up.nodes(self._reader, facts.ending_pods)
        if facts.jobs is not None:
            await self._fill_about_jobs(survey_jobs(js, facts.jobs), facts.jobs)
        facts.unread_notes = tuple(self._reader.unseen)

    async def _fill_about_jobs(self, survey: Survey, jobs: Sequence[SeenJob]) -> None:
        facts, js = self._facts, self._js
        if last_completion_time(survey, jobs):
            facts.lease = await look_up.manager_lease(self._reader)
        are_all_ready_or_completed = not survey.unsettled_names
        if not (are_all_ready_or_completed or js.spec.suspend or js.metadata.deletion_timestamp is not None):
            await self._fill_about_waiting(survey)
        if are_all_ready_or_completed and not js.spec.suspend:
            job_uids = {job.metadata.uid for job in jobs}
            facts.pods_without_agent_report = await look_up.pods_without_agent_report(self._reader, js, job_uids)
        has_manager_done_nothing = len(survey.missing_jobs) == survey.job_count and not js.status.replicated_jobs_status
        if is_unheld(facts.lease, facts.now) or (has_manager_done_nothing and facts.lease is not None):
            facts.manager_pods = await look_up.manager_pods(self._reader)
        if facts.pods is not None:
            facts.pods += await self._failed_pods(survey, jobs)
        refusals = (*facts.job_warnings, *(facts.warnings if survey.missing_jobs else ()))
        facts.quotas = await look_up.quotas(self._reader, refusals)
        if recently_failed_attempts(js, facts.now) or survey.failed_jobs or _has_replacement(survey, facts.pods or ()):
            facts.disruption_events = await look_up.disruption_events(self._reader, js)

    async def _fill_about_waiting(self, survey: Survey) -> None:
        """Read the facts for a JobSet with Jobs that are missing, or neither ready nor completed."""
        facts, js, reader = self._facts, self._js, self._reader
        facts.lease = await look_up.manager_lease(reader)
        namesake_job_uids = await self._fill_foreign_owners(survey)
        if survey.startable_jobs or any(child.deleting for child in survey.unready_jobs):
            facts.namespace = await look_up.namespace(reader, self._namespace)
        namesake_selectors = [one_of(keys.JOB_UID, namesake_job_uids)] if namesake_job_uids else []
        facts.namesake_pods = await look_up.deleted_pods(reader, namesake_selectors)
        facts.nodes_by_name |= await look_up.nodes(reader, facts.namesake_pods)
        if survey.missing_jobs and js.status.restarts:
            facts.leftover_pods = await self._leftover_pods(survey)
        if survey.previous_jobs or facts.leftover_pods:
            facts.ending_pods = await look_up.ending_pods(reader, js, survey.previous_jobs)
        ending_jobs = [child.job for child in survey.unready_jobs if child.deleting or child.job.status.terminating]
        if ending_jobs:
            labels = one_of(keys.JOB_UID, [job.metadata.uid for job in ending_jobs[:MAX_EXAMPLES]])
            facts.ending_pods += await look_up.deleted_pods(reader, [labels])
        facts.nodes_by_name |= await look_up.nodes(reader, facts.ending_pods)
        if any(missing_pods(child.job) for child in survey.unready_jobs):
            unready_names = {child.name for child in survey.unready_jobs}
            facts.job_warnings = await self._warnings("regarding.kind=Job", unready_names)
        if survey.unready_jobs:
            await self._fill_about_pods(survey)

    async def _fill_about_pods(self, survey: Survey) -> None:
        """Read the facts about pods of Jobs that are not ready."""
        facts, js, reader = self._facts, self._js, self._reader
        topologies = {key for child in survey.unready_jobs if (key := child.job.topology) is not None}
        facts.pods = await self._pods(survey)
        facts.gated_followers = await self._gated_followers() if topologies else {}
        pods = facts.pods or ()
        unscheduled = [(pod, failure.message) for pod in pods if (failure := pod.scheduling_failure)]
        # For a pod in a group, the scheduler sometimes reports no more than that the group does not fit.
        has_groups = js.spec.scheduling is not None
        misfits = [pod for pod, message in unscheduled if has_groups or MISFIT.search(message)]
        if misfits:
            trees = forest_of_single_jobs(js)
            levels = {group.topology_key for group in trees.groups()} if trees is not None else set()
            facts.node_offers = offers = await self._node_offers(misfits, topologies | levels)
            if offers is not None and any(lacking_resource(pod) and offers.fitting_nodes(pod.spec) for pod in misfits):
                facts.placed_pods = await look_up.all_placed_pods(reader)
        pods_with_claims = [pod for pod, message in unscheduled if UNBOUND_CLAIM.search(message)]
        facts.claims = await look_up.claims(reader, pods_with_claims)
        if facts.claims:
            facts.storage_classes = await look_up.storage_classes(reader)
        facts.nodes_by_name |= await look_up.nodes(reader, (pod for pod in pods if pod.is_unready_without_reason))
        pods_without_scheduler = [pod for pod in pods if pod.has_no_scheduler and pod.spec.resource_claims]
        facts.device_claim_exists = await look_up.device_claims(reader, pods_without_scheduler)
        unready_names = {pod.name for pod in pods if pod.is_live and pod.spec.node_name and not pod.is_ready}
        if pod_names := unready_names.union(pod.name for pod in pods_without_scheduler):
            facts.pod_warnings = await self._warnings("regarding.kind=Pod", pod_names, FEW_PAGES)
        leaders = [pod for pod in pods if pod.metadata.topology in topologies and pod.metadata.leads]
        waiting_leaders = [pod for pod in leaders if pod.scheduling_failure]
        if waiting_leaders or any(pod.job_uid in facts.gated_followers for pod in leaders):
            offers = facts.node_offers
            facts.node_labels = offers.labels(topologies) if offers else await self._node_labels(topologies)
        if waiting_leaders or any(has_groups or ANTI_AFFINITY.search(message) for _, message in unscheduled):
            facts.holder_pods = await self._holder_pods(waiting_leaders)
        if has_groups:
            facts.groups = await self._seen_groups()

    async def _seen_groups(self) -> SeenGroups | None:
        """The groups that the JobSet owns, and how many of its pods have a node; None if they may not be listed."""
        trees = forest(self._js)
        kinds = [POD_GROUPS, *([COMPOSITE_POD_GROUPS] if trees is not None and trees.needs_composites else [])]
        stored: dict[str, StoredGroup] = {}
        for resource in kinds:
            note = f"groups: you may not list {resource.plural}.{resource.group} in namespace {self._namespace}"
            options: ListOptions = {"label_selector": self._jobset_selector}
            try:
                groups = await self._reader.collect(resource, StoredGroup, resource.plural, note, **options)
            except NotFound:
                continue  # the API is not served, which the condition GroupsReady says
            if groups is None:
                return None
            own_groups = (group for group in groups if group.metadata.controlled_by(self._js.metadata.uid))
            stored |= {group.metadata.name: group for group in own_groups}
        pods = self._reader.some(PODS, OwnedObject, "pods with a node", **self._metadata_options(PLACED_SELECTOR))
        counts = await self._count_by_job(pods)
        return None if counts is None else SeenGroups(stored, counts)

    def _metadata_options(self, field_selector: str) -> ListOptions:
        """The options that list the metadata of the pods of the JobSet that the field selector selects."""
        return {"label_selector": self._jobset_selector, "field_selector": field_selector, "accept": METADATA_LIST}

    async def _jobs(self) -> tuple[SeenJob, ...] | None:
        """The Jobs that the JobSet owns; None if they may not be listed."""
        with self._reader.noting(f"Jobs and pods: you may not list jobs in namespace {self._namespace}"):
            jobs = self._reader.all(JOBS, SeenJob, label_selector=self._jobset_selector)
            own_jobs = tuple([job async for job in jobs if job.metadata.controlled_by(self._js.metadata.uid)])
            return own_jobs if self._js.spec.suspend else await self._with_uncounted_failures(own_jobs)
        return None

    async def _with_uncounted_failures(self, jobs: tuple[SeenJob, ...]) -> tuple[SeenJob, ...]:
        """The Jobs, with failed pods added that the Job controller has not counted.

        In several releases of Kubernetes 1.32 to 1.36, the API server refuses the status of a Job that has ready pods
        while the Job controller delays the replacement of a failed pod. So this pod is counted only after the delay.
        """
        if not any(job.may_hide_failures and not missing_pods(job) for job in jobs):
            return jobs
        options = self._metadata_options("status.phase=Failed")
        pods = self._reader.some(PODS, PodMetadata, "failed pods", pages=FEW_PAGES, **options)
        # The Job controller removes its finalizer from a pod that it has counted.
        uncounted_pods = (pod async for pod in pods if keys.JOB_TRACKING in pod.metadata.finalizers)
        counts = await self._count_by_job(uncounted_pods) or Counter()
        return tuple(job.with_failures(counts[job.metadata.uid]) for job in jobs)

    async def _fill_foreign_owners(self, survey: Survey) -> list[str]:
        """Read who owns Jobs with names of missing Jobs. Returns the UIDs of Jobs of an earlier JobSet of this name."""
        foreign_owners: dict[str, Owner] = {}
        namesake_job_uids = []
        previous_jobs = {child.name for child in survey.previous_jobs}
        names = [position.name for position in survey.startable_jobs if position.name not in previous_jobs]
        note = f"who has the names of missing Jobs: you may not get jobs in namespace {self._namespace}"
        with self._reader.noting(note):
            for name in names[:MAX_EXAMPLES]:
                job = await self._reader.get(JOBS, OwnedObject, name)
                if job is not None and not job.metadata.controlled_by(self._js.metadata.uid):
                    foreign_owners[name] = job.metadata.owner
                    if job.metadata.owner == Owner(keys.KIND, self._js.metadata.name):
                        namesake_job_uids.append(job.metadata.uid)
        self._facts.foreign_owners = foreign_owners
        return namesake_job_uids

    async def _leftover_pods(self, survey: Survey) -> Mapping[str, tuple[str, ...]]:
        """The names of pods of earlier attempts whose Job has been deleted before them, by the name of the Job."""
        existing_jobs = {child.name for child in survey.previous_jobs}
        names_by_job: dict[str, tuple[str, ...]] = {}
        owner_of = owner_to_wait_for(self._js)
        with self._reader.noting(f"pods of earlier attempts: you may not list pods in namespace {self._namespace}"):
            options = self._metadata_options(NOT_ENDED)
            options["label_selector"] = other_attempts_selector(self._js)
            async for pod in self._reader.all(PODS, LeftoverPod, **options):
                if (owner := owner_of(pod)) is not None and owner.name not in existing_jobs:
                    names_by_job[owner.name] = (*names_by_job.get(owner.name, ()), pod.metadata.name)
        return names_by_job

    async def _warnings(
        self, field_selector: str, names: set[str] | None = None, pages: int = MAX_PAGES
    ) -> tuple[SeenEvent, ...]:
        """Warnings that the field selector selects, newest first; if `names` is given, only about these objects."""
        note = f"events: you may not list events.events.k8s.io in namespace {self._namespace}"
        options: ListOptions = {"field_selector": f"{field_selector},type=Warning"}
        events = await self._reader.collect(EVENTS, SeenEvent, "events", note, pages=pages, **options) or ()
        matching = (event for event in events if names is None or event.regarding.name in names)
        return tuple(sorted(matching, key=lambda event: event.last_time, reverse=True))

    async def _pods(self, survey: Survey) -> tuple[SeenPod, ...] | None:
        """Leaders and pending pods of the Jobs that are not ready, and running pods of a few of these Jobs.

        The running pods are unready pods of Jobs for which no pod shows a cause, and a follower of each waiting leader.
        """
        unready_uids = dict.fromkeys(child.job.metadata.uid for child in survey.unready_jobs)
        leader_selector = f"{self._jobset_selector},{keys.COMPLETION_INDEX}=0"
        ungated_selector = f"{self._jobset_selector},{keys.COMPLETION_INDEX}!=0,!{keys.AWAITS_LEADER}"
        with self._reader.noting(f"pods: you may not list pods in namespace {self._namespace}"):
            leaders = self._reader.all(PODS, SeenPod, label_selector=leader_selector)
            pods = [pod async for pod in leaders if pod.job_uid in unready_uids]
            pods += [pod for pod in await self._page("Pending", ungated_selector) if pod.job_uid in unready_uids]
            explained_uids = {pod.job_uid for pod in pods if pod.scheduling_failure or pod.trouble or pod.is_gated}
            for uid in [uid for uid in unready_uids if uid not in explained_uids][:MAX_EXAMPLES]:
                running = await self._page("Running", f"{keys.JOB_UID}={uid}")
                pods += [pod for pod in running if not pod.is_ready and not pod.metadata.leads]
            # A replaced leader has to go to the domain of its followers, which one running follower shows.
            started_uids = {child.job.metadata.uid for child in survey.unready_jobs if child.job.status.ready}
            exclusive_leaders = (pod for pod in pods if pod.metadata.leads and pod.metadata.topology)
            waiting_leaders = [pod for pod in exclusive_leaders if pod.scheduling_failure]
            for uid in [pod.job_uid for pod in waiting_leaders if pod.job_uid in started_uids][:MAX_EXAMPLES]:
                pods += (await self._page("Running", f"{keys.JOB_UID}={uid}"))[:1]
            return tuple(pods)
        return None

    async def _failed_pods(self, survey: Survey, jobs: Sequence[SeenJob]) -> tuple[SeenPod, ...]:
        """Failed pods with an index above 0, of Jobs that are not ready and lack pods."""
        uids = {job.metadata.uid for job in jobs if job.status.failed and missing_pods(job)}
        uids &= {child.job.metadata.uid for child in survey.unready_jobs}
        if not uids:
            return ()
        pods = await self._page("Failed", f"{self._jobset_selector},{keys.COMPLETION_INDEX}!=0")
        return tuple(pod for pod in pods if pod.job_uid in uids)

    async def _page(self, phase: str, selector: str) -> list[SeenPod]:
        """The first page of pods in this phase. If there are more pods, this is noted."""
        options: ListOptions = {"label_selector": selector, "field_selector": f"status.phase={phase}"}
        return [pod async for pod in self._reader.some(PODS, SeenPod, f"{phase.lower()} pods", pages=1, **options)]

    async def _gated_followers(self) -> Mapping[str, int]:
        """The number of followers that wait for their leader, by the UID of their Job."""
        selector = f"{self._jobset_selector},{keys.AWAITS_LEADER}"
        pods = self._reader.all(PODS, OwnedObject, label_selector=selector, accept=METADATA_LIST)
        return await self._count_by_job(pods) or {}

    async def _count_by_job(self, pods: AsyncIterator[OwnedObject | PodMetadata]) -> Counter[str] | None:
        """The number of pods by the UID of their Job; None if they may not be listed, which `_pods` notes."""
        with self._reader.noting():
            counts: Counter[str] = Counter()
            async for pod in pods:
                owner = pod.metadata.controller()
                counts["" if owner is None else owner.uid] += 1
            return counts
        return None

    async def _node_offers(self, misfits: list[SeenPod], topologies: set[str]) -> Nodes | None:
        """All nodes, for pods that do not fit; None if there are too many nodes, or if the user may not list them."""
        nodes = Nodes(label_keys=frozenset(topologies).union(*(pod.spec.label_keys for pod in misfits)))
        with self._reader.noting("nodes: you may not list nodes, so what they offer is not known"):
            async for node in self._reader.all(NODES, SeenNode, namespace=None):
                if len(nodes) == PAGE_SIZE * MAX_PAGES:
                    self._reader.skip(f"what nodes beyond the first {len(nodes)} offer")
                    return None
                nodes.add(node)
            return nodes
        return None

    async def _node_labels(self, topologies: set[str]) -> Mapping[str, Mapping[str, str]] | None:
        """The labels with these keys of every node, by the name of the node; None without the right to read nodes."""
        names = ", ".join(sorted(topologies))
        with self._reader.noting(f"nodes: you may not list nodes, so which values of {names} there are is not known"):
            nodes = self._reader.all(NODES, NodeMetadata, namespace=None, accept=METADATA_LIST)
            return {
                node.metadata.name: {key: text for key, text in node.metadata.labels.items() if key in topologies}
                async for node in nodes
            }
        return None

    async def _holder_pods(self, waiting_leaders: list[SeenPod]) -> Sequence[SeenPod] | None:
        """The leaders of all JobSets that have a node, and other pods that keep a waiting leader out of a domain.

        The other pods are in a domain without a leader: their Job is not exclusive, or has lost its leader. The result
        has one of them for each domain and each priority of a waiting leader.
        """
        leader_selector, subject = f"{keys.JOB_KEY},{keys.COMPLETION_INDEX}=0", "pods of other JobSets"
        node_labels = (self._facts.node_labels or {}) if waiting_leaders else {}
        note = "pods of other namespaces: you may not list them, so which Jobs hold the domains is not known"
        with self._reader.noting(note):
            holders = [pod async for pod in look_up.placed_pods(self._reader, leader_selector, subject)]
            priorities = {pod.priority for pod in waiting_leaders}
            unheld = {spot for node in node_labels for spot in _spots(node, node_labels, priorities)}
            unheld -= {spot for pod in holders for spot in _spots(pod.spec.node_name, node_labels, {pod.priority})}
            if unheld:
                other_selector = f"{keys.JOB_KEY},{keys.COMPLETION_INDEX}!=0{_priority_selector(waiting_leaders)}"
                async for pod in look_up.placed_pods(self._reader, other_selector, subject, FEW_PAGES):
                    held = unheld & _spots(pod.spec.node_name, node_labels, {pod.priority})
                    holders += [pod] if held else []
                    unheld -= held
                    if not unheld:
                        break
            return holders
        return None


def _has_replacement(survey: Survey, pods: Sequence[SeenPod]) -> bool:
    """Whether a pod was created later than the first pods of its Job, so that it replaces another pod."""
    start_times = {child.job.metadata.uid: child.job.status.start_time for child in survey.unready_jobs}
    times = ((start_times.get(pod.job_uid), pod.metadata.creation_timestamp) for pod in pods)
    return any(start and created and seconds_between(start, created) > REPLACED_SECONDS for start, created in times)


def _priority_selector(leaders: list[SeenPod]) -> str:
    """The part of a label selector that selects pods with priorities of these leaders.

    If a leader lacks the label, the part is empty and selects all pods.
    """
    labels = {pod.metadata.labels.priority for pod in leaders}
    return "" if "" in labels else f",{keys.PRIORITY} in ({','.join(sorted(labels))})"


def _spots(node: str, node_labels: Mapping[str, Mapping[str, str]], priorities: set[int]) -> set[tuple[str, str, int]]:
    """The spots of a node. A spot is a domain of the node (label key and value) with one of the priorities."""
    return {(key, value, priority) for key, value in node_labels.get(node, {}).items() for priority in priorities}
