"""Reads from a cluster what is needed to explain one JobSet: with the rights of the user, page by page.

A set may have 10,000 Jobs and 100,000 pods: pods are read only while Jobs are not ready, and then the leaders, pending
pods, and those of a few Jobs. What may not be read is noted and left out. Writes and decides nothing.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime
from typing import Any

from api import keys
from api.batch import Owned
from api.exclusive import topology_of
from api.gang_status import StoredGroup
from api.gangs import forest, shape
from api.jobset import JobSet
from api.leftovers import NOT_ENDED, LeftoverPod, job_waiting_for
from api.selectors import of_other_attempts
from api.topology import NodeMetadata
from controllers.resources import JOBSETS
from diagnose import kueue, look_up
from diagnose.case import unheld
from diagnose.facts import Facts, Holder, SeenEvent, SeenGroups, SeenJob, SeenPod
from diagnose.in_use import lacking_resource
from diagnose.jobset_causes import missing_defaults
from diagnose.look_up import PLACED
from diagnose.nodes import Nodes, SeenNode
from diagnose.reader import LOOKED_AT, MOST_PAGES, PAGE, Reader
from diagnose.remedies import ANTI_AFFINITY, CLAIMS, MISFIT
from diagnose.restart_causes import failed_lately
from diagnose.status_causes import all_completed
from diagnose.survey import Survey, lacking, survey_jobs
from kube.client import Client
from kube.errors import Forbidden, NotFound
from kube.model.meta import Owner, seconds_between
from kube.options import COMMAND_TIMEOUT, METADATA_LIST
from kube.resources import COMPOSITE_POD_GROUPS, EVENTS, JOBS, NODES, POD_GROUPS, PODS

REPLACED = 10.0
"""Seconds after its Job's start from which on a pod is created in the place of another."""
FEW_PAGES = 4
"""Pages of pods that seldom matter."""


async def gather(client: Client, namespace: str, name: str, now: datetime) -> Facts:
    """What there is to know. Raises what reading the JobSet itself raises, and whatever is not a lack of rights."""
    js = await client.get(JOBSETS, name, namespace=namespace, type=JobSet, timeout=COMMAND_TIMEOUT)
    return await gather_about(client, js, now)


async def gather_about(client: Client, js: JobSet, now: datetime) -> Facts:
    """What there is to know about a JobSet that has just been read. Raises whatever is not a lack of rights."""
    if js.status.terminal_state or not js.is_ours:
        return Facts(now=now, jobset=js)
    return await _Gatherer(client, js).facts(now)


class _Gatherer:
    """Reads about one JobSet, once."""

    def __init__(self, client: Client, js: JobSet) -> None:
        self._client = client
        self._js = js
        self._namespace = js.metadata.namespace
        self._of_set = f"{keys.JOBSET_NAME}={js.metadata.name}"
        self._read = Reader(client, js.metadata.namespace)

    async def facts(self, now: datetime) -> Facts:
        jobs = await self._jobs()
        known: dict[str, Any] = {"now": now, "jobset": self._js, "jobs": jobs}
        known["warnings"] = await self._events(f"regarding.kind={keys.KIND},regarding.name={self._js.metadata.name}")
        known["service_made"] = await look_up.service_made(self._read, self._js, known["warnings"])
        if self._js.suspended and keys.QUEUE_NAME in self._js.metadata.labels:
            known["kueue"] = await self._client.serves(kueue.GROUP)
        if missing_defaults(self._js):
            known["webhooks"] = await look_up.webhooks(self._read)
        if jobs is not None:
            survey = survey_jobs(self._js, jobs)
            if all_completed(survey, jobs):
                known["lease"] = await look_up.lease(self._read)
            known |= await self._about(survey)
            if unheld(known.get("lease"), now):
                known["managers"] = await look_up.managers(self._read)
            if known.get("pods") is not None:
                known["pods"] += await self._failed_pods(survey, jobs)
            refusals = (*known.get("job_warnings", ()), *(known["warnings"] if survey.missing else ()))
            known["quotas"] = await look_up.quotas(self._read, refusals)
            if failed_lately(self._js, now) or survey.failed or _replaced(survey, known.get("pods")):
                known["ends"] = await look_up.ends(self._read, self._js)
        return Facts(**known, unseen=tuple(self._read.unseen))

    async def _about(self, survey: Survey) -> dict[str, Any]:
        """What matters about Jobs that are not settled."""
        known: dict[str, Any] = {}
        if not survey.waiting or self._js.suspended or self._js.metadata.deletion_timestamp is not None:
            return known
        known["lease"] = await look_up.lease(self._read)
        known["foreign"], uids = await self._foreign(survey)
        may_start = any(position.replicated_job.name not in survey.stages for position in survey.missing)
        if may_start or any(child.deleting for child in survey.unready):
            known["namespace"] = await look_up.namespace(self._read, self._namespace)
        known["earlier"] = await look_up.earlier(self._read, uids)
        known["nodes_by_name"] = await look_up.nodes(self._read, known["earlier"])
        if (
            len(survey.missing) == survey.total
            and known["lease"] is not None
            and not self._js.status.replicated_jobs_status
        ):
            known["manager"] = await look_up.manager(self._read, known["lease"])
        if survey.missing and self._js.status.restarts:
            known["leftover_pods"] = await self._leftover_pods(survey)
        if survey.previous or known.get("leftover_pods"):
            known["ending"] = ending = await look_up.ending(self._read, self._js, survey.previous)
            known["nodes_by_name"] |= await look_up.nodes(self._read, ending)
        if any(lacking(child.job) for child in survey.unready):
            fields = "regarding.kind=Job"
            known["job_warnings"] = await self._events(fields, {child.name for child in survey.unready})
        if survey.unready:
            nodes = known["nodes_by_name"]
            known |= await self._about_pods(survey)
            known["nodes_by_name"] = {**nodes, **known["nodes_by_name"]}
        return known

    async def _about_pods(self, survey: Survey) -> dict[str, Any]:
        """What matters about pods of Jobs that are not ready."""
        known: dict[str, Any] = {}
        topologies = {
            key for child in survey.unready if (key := topology_of(child.job.metadata.annotations)) is not None
        }
        pods = await self._pods(survey)
        gated = await self._gated_followers() if topologies else {}
        known |= {"pods": pods, "gated": gated}
        leaders = [pod for pod in pods or () if pod.metadata.topology in topologies and pod.metadata.leads]
        # Of a pod in a group the scheduler may say no more than that the group does not fit.
        grouped = self._js.spec.scheduling is not None
        misfits = [
            pod for pod in pods or () if (said := pod.scheduling_failure) and (grouped or MISFIT.search(said.message))
        ]
        if misfits:
            levels = {group.topology for group in wanted.groups()} if (wanted := shape(self._js)) is not None else set()
            known["node_offers"] = offers = await self._offers(misfits, topologies | levels)
            if offers is not None and any(lacking_resource(pod) and offers.takers(pod.spec) for pod in misfits):
                known["placed"] = await look_up.placed_pods(self._read)
        unbound = [pod for pod in pods or () if (said := pod.scheduling_failure) and CLAIMS.search(said.message)]
        known["claims"] = claims = await look_up.claims(self._read, unbound)
        if claims:
            known["storage_classes"] = await look_up.storage_classes(self._read)
        known["nodes_by_name"] = await look_up.nodes(self._read, (pod for pod in pods or () if pod.silent))
        if any(pod.scheduling_failure or pod.job_uid in gated for pod in leaders):
            known["nodes"] = offers.labels(topologies) if misfits and offers else await self._nodes(topologies)
        waiting = [pod for pod in leaders if pod.scheduling_failure]
        if waiting:
            known["holders"] = await self._holders(waiting, known["nodes"])
        elif any(
            (said := pod.scheduling_failure) and (grouped or ANTI_AFFINITY.search(said.message)) for pod in pods or ()
        ):
            known["holders"] = await self._holders([], None)
        if self._js.spec.scheduling is not None:
            known["groups"] = await self._groups()
        return known

    async def _groups(self) -> SeenGroups | None:
        """The groups that the set owns, and how many of its pods have a node."""
        wanted = forest(self._js)
        kinds = [POD_GROUPS, *([COMPOSITE_POD_GROUPS] if wanted is not None and wanted.needs_composites else [])]
        there: dict[str, StoredGroup] = {}
        for resource in kinds:
            try:
                async for group in self._read.some(resource, StoredGroup, resource.plural, label_selector=self._of_set):
                    owner = group.metadata.controller()
                    if owner is not None and owner.uid == self._js.metadata.uid:
                        there[group.metadata.name] = group
            except NotFound:
                continue  # not served: the condition says so
            except Forbidden:
                where = f"in namespace {self._namespace}"
                self._read.skip(f"groups: you may not list {resource.plural}.{resource.group} {where}")
                return None
        try:
            placed: dict[str, Any] = {"label_selector": self._of_set, "field_selector": PLACED}
            bound = self._read.some(PODS, Owned, "pods with a node", accept=METADATA_LIST, **placed)
            return SeenGroups(there, await _by_job(bound))
        except Forbidden:
            return None  # `_pods` has noted it

    async def _jobs(self) -> tuple[SeenJob, ...] | None:
        uid = self._js.metadata.uid
        try:
            jobs = self._read.all(JOBS, SeenJob, label_selector=self._of_set)
            return tuple([job async for job in jobs if (owner := job.metadata.controller()) and owner.uid == uid])
        except Forbidden:
            self._read.skip(f"Jobs and pods: you may not list jobs in namespace {self._namespace}")
            return None

    async def _foreign(self, survey: Survey) -> tuple[Mapping[str, Owner], list[str]]:
        """Of the first missing Jobs, who has their names; and the UIDs of Jobs of an earlier JobSet of this name."""
        foreign: dict[str, Owner] = {}
        earlier = []
        old = {child.name for child in survey.previous}
        due = (position for position in survey.missing if position.replicated_job.name not in survey.stages)
        free = [position.name for position in due if position.name not in old]
        try:
            for name in free[:LOOKED_AT]:
                try:
                    job = await self._client.get(
                        JOBS, name, namespace=self._namespace, type=Owned, timeout=COMMAND_TIMEOUT
                    )
                except NotFound:
                    continue
                owner = job.metadata.controller()
                if owner is None or owner.uid != self._js.metadata.uid:
                    foreign[name] = job.metadata.owner
                    earlier += (
                        [job.metadata.uid] if job.metadata.owner == Owner(keys.KIND, self._js.metadata.name) else []
                    )
        except Forbidden:
            self._read.skip(f"who has the names of missing Jobs: you may not get jobs in namespace {self._namespace}")
        return foreign, earlier

    async def _leftover_pods(self, survey: Survey) -> Mapping[str, tuple[str, ...]]:
        """Pods of earlier attempts that have outlived their Jobs, which large sets delete in the background."""
        there = {child.name for child in survey.previous}
        found: dict[str, tuple[str, ...]] = {}
        job_of = job_waiting_for(self._js)
        try:
            async for pod in self._read.all(
                PODS,
                LeftoverPod,
                label_selector=of_other_attempts(self._js),
                field_selector=NOT_ENDED,
                accept=METADATA_LIST,
            ):
                if (job := job_of(pod)) and job not in there:
                    found[job] = (*found.get(job, ()), pod.metadata.name)
        except Forbidden:
            self._read.skip(f"pods of earlier attempts: you may not list pods in namespace {self._namespace}")
        return found

    async def _events(self, fields: str, names: set[str] | None = None) -> tuple[SeenEvent, ...]:
        """Warnings, newest first; only those about `names`, if given."""
        found: list[SeenEvent] = []
        try:
            async for event in self._read.some(EVENTS, SeenEvent, "events", field_selector=f"{fields},type=Warning"):
                found += [event] if names is None or event.regarding.name in names else []
        except Forbidden:
            self._read.skip(f"events: you may not list events.events.k8s.io in namespace {self._namespace}")
        return tuple(sorted(found, key=lambda event: event.last, reverse=True))

    async def _pods(self, survey: Survey) -> tuple[SeenPod, ...] | None:
        """Leaders and pending pods of the unready Jobs; of a few other Jobs, running pods that are not ready."""
        uids = {child.job.metadata.uid for child in survey.unready}
        leads, awaits = f"{keys.COMPLETION_INDEX}=0", keys.AWAITS_LEADER
        pending = f"{self._of_set},{keys.COMPLETION_INDEX}!=0,!{awaits}"
        try:
            leaders = self._read.all(PODS, SeenPod, label_selector=f"{self._of_set},{leads}")
            pods = [pod async for pod in leaders if pod.job_uid in uids]
            pods += [pod for pod in await self._page("Pending", pending) if pod.job_uid in uids]
            explained = {pod.job_uid for pod in pods if pod.scheduling_failure or pod.trouble or pod.gated}
            unexplained = [uid for child in survey.unready if (uid := child.job.metadata.uid) not in explained]
            for uid in unexplained[:LOOKED_AT]:
                running = await self._page("Running", f"{keys.JOB_UID}={uid}")
                pods += [pod for pod in running if not pod.ready and not pod.metadata.leads]
            # A leader that was replaced has to join its followers: one of them says where.
            started = {child.job.metadata.uid for child in survey.unready if child.job.status.ready}
            joining = [
                pod.job_uid for pod in pods if pod.metadata.leads and pod.scheduling_failure and pod.metadata.topology
            ]
            for uid in [uid for uid in joining if uid in started][:LOOKED_AT]:
                pods += (await self._page("Running", f"{keys.JOB_UID}={uid}"))[:1]
        except Forbidden:
            self._read.skip(f"pods: you may not list pods in namespace {self._namespace}")
            return None
        return tuple(pods)

    async def _failed_pods(self, survey: Survey, jobs: Iterable[SeenJob]) -> tuple[SeenPod, ...]:
        """Failed pods of the unready Jobs that lack pods; those with index 0 are known."""
        uids = {job.metadata.uid for job in jobs if job.status.failed and lacking(job)}
        uids &= {child.job.metadata.uid for child in survey.unready}
        if not uids:
            return ()
        pods = await self._page("Failed", f"{self._of_set},{keys.COMPLETION_INDEX}!=0")
        return tuple(pod for pod in pods if pod.job_uid in uids)

    async def _page(self, phase: str, selector: str) -> list[SeenPod]:
        """The first pods of a phase: enough to name, however many there are."""
        page = await self._client.list(
            PODS,
            type=SeenPod,
            namespace=self._namespace,
            label_selector=selector,
            field_selector=f"status.phase={phase}",
            limit=PAGE,
            timeout=COMMAND_TIMEOUT,
        )
        if page.metadata.continue_token:
            self._read.skip(f"{phase.lower()} pods beyond the first {PAGE}")
        return page.items or []

    async def _gated_followers(self) -> Mapping[str, int]:
        """How many pods of each Job await their leader."""
        selector = f"{self._of_set},{keys.AWAITS_LEADER}"
        try:
            return await _by_job(self._read.all(PODS, Owned, label_selector=selector, accept=METADATA_LIST))
        except Forbidden:
            return {}  # `_pods` has noted it

    async def _offers(self, misfits: list[SeenPod], topologies: set[str]) -> Nodes | None:
        """What the nodes have of what pods ask for; None where it is not known of all."""
        nodes = Nodes(labels=frozenset(topologies).union(*(pod.spec.label_keys for pod in misfits)))
        try:
            async for node in self._client.pages(NODES, type=SeenNode, limit=PAGE, timeout=COMMAND_TIMEOUT):
                if len(nodes) == PAGE * MOST_PAGES:
                    self._read.skip(f"what nodes beyond the first {len(nodes)} offer")
                    return None
                nodes.add(node)
        except Forbidden:
            self._read.skip("nodes: you may not list nodes, so what they offer is not known")
            return None
        return nodes

    async def _nodes(self, topologies: set[str]) -> Mapping[str, Mapping[str, str]] | None:
        nodes: dict[str, Mapping[str, str]] = {}
        pages = self._client.pages(NODES, type=NodeMetadata, accept=METADATA_LIST, limit=PAGE, timeout=COMMAND_TIMEOUT)
        try:
            async for node in pages:
                meta = node.metadata
                nodes[meta.name] = {key: meta.labels[key] for key in topologies if key in meta.labels}
        except Forbidden:
            names = ", ".join(sorted(topologies))
            self._read.skip(f"nodes: you may not list nodes, so which values of {names} there are is not known")
            return None
        return nodes

    async def _holders(
        self, waiting: list[SeenPod], nodes: Mapping[str, Mapping[str, str]] | None
    ) -> tuple[Holder, ...] | None:
        """The Jobs of all JobSets whose pod with index 0 is on a node.

        Where that leaves domains open, also those that have another pod there, of the priority of a leader that waits:
        pods of Jobs that are not exclusive, or have lost their leader, keep it out just the same.
        """
        first = f"{keys.JOB_KEY},{keys.COMPLETION_INDEX}=0"
        try:
            holders = [_holder(pod) async for pod in self._placed_pods(first, MOST_PAGES)]
            wanted = {pod.spec.priority or 0 for pod in waiting}
            spots = {spot for node in nodes or () for spot in _spots(node, nodes, wanted)}
            spots -= {spot for holder in holders for spot in _spots(holder.node, nodes, {holder.priority})}
            if spots:
                other_pods = f"{keys.JOB_KEY},{keys.COMPLETION_INDEX}!=0{_of_priority(waiting)}"
                async for pod in self._placed_pods(other_pods, FEW_PAGES):
                    holder = _holder(pod)
                    here = spots & _spots(holder.node, nodes, {holder.priority})
                    holders += [holder] if here else []
                    spots -= here
                    if not spots:
                        break
        except Forbidden:
            self._read.skip(
                "pods of other namespaces: you may not list them, so which Jobs hold the domains is not known"
            )
            return None
        return tuple(holders)

    def _placed_pods(self, selector: str, pages: int) -> AsyncIterator[SeenPod]:
        """Pods on nodes, in all namespaces."""
        subject = "pods of other JobSets"
        return self._read.some(
            PODS, SeenPod, subject, pages=pages, namespace=None, label_selector=selector, field_selector=PLACED
        )


def _replaced(survey: Survey, pods: Iterable[SeenPod] | None) -> bool:
    """Whether a pod is there in the place of another: it is newer than its Job's start."""
    starts = {child.job.metadata.uid: child.job.status.start_time for child in survey.unready}
    times = ((starts.get(pod.job_uid), pod.metadata.creation_timestamp) for pod in pods or ())
    return any(start and created and seconds_between(start, created) > REPLACED for start, created in times)


async def _by_job(pods: AsyncIterator[Owned]) -> Counter[str]:
    """How many of the pods each Job has, by its UID."""
    counts: Counter[str] = Counter()
    async for pod in pods:
        owner = pod.metadata.controller()
        counts["" if owner is None else owner.uid] += 1
    return counts


def _holder(pod: SeenPod) -> Holder:
    owner = pod.metadata.controller()
    return Holder(
        namespace=pod.metadata.namespace,
        job=pod.name if owner is None else owner.name,
        job_uid=pod.job_uid,
        priority=pod.spec.priority or 0,
        node=pod.spec.node_name,
        exclusive=pod.metadata.topology is not None,
        ending=pod.metadata.deletion_timestamp is not None,
    )


def _of_priority(waiting: list[SeenPod]) -> str:
    """The part of a selector that chooses pods of their priorities; empty (all pods) if a leader lacks the label."""
    labels = {pod.metadata.labels.priority for pod in waiting}
    return "" if "" in labels else f",{keys.PRIORITY} in ({','.join(sorted(labels))})"


def _spots(node: str, nodes: Mapping[str, Mapping[str, str]] | None, priorities: set[int]) -> set[tuple[str, str, int]]:
    """The domains that a node is in, each with these priorities."""
    return {(key, value, priority) for key, value in (nodes or {}).get(node, {}).items() for priority in priorities}
