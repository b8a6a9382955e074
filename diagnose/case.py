"""The facts about one JobSet, sorted for the checks of `diagnose/reasons.py`. Pure."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from api.event import SeenEvent
from api.gangs import Forest, forest
from api.jobset import JobSet
from api.keys import SERVICE_CREATION_FAILED
from controllers.planning.child_jobs import Child
from diagnose.facts import Facts, SeenJob, SeenLease, SeenPod
from diagnose.finding import Finding
from diagnose.states import RECENT_SECONDS
from diagnose.survey import Survey, survey_jobs
from diagnose.times import seconds_since
from kube.model.requests import sum_requests
from policy.judged import JudgedJobSet

RECENT_WARNING_SECONDS = 600.0
"""Seconds for which a Warning of a kubelet counts. The kubelet repeats it every 5 min at least."""
LEASE_MARGIN_SECONDS = 5.0
"""Seconds for which a lease still counts after its duration, because the clocks of two machines differ."""


@dataclass(frozen=True, slots=True)
class Case:
    """The facts about one JobSet, with its Jobs and pods sorted. Pods are by the UID of their Job.

    - `jobs_by_uid`: all Jobs by UID. `unready_by_name`: Jobs that run and are not ready, by name.
    - `leaders`: pods with index 0; `followers`: other live pods; `failed_pods`: failed pods that are not being deleted.
    - `pod_warnings`: Warnings about pods that kubelets still repeat, newest first, by the name of the pod.
    - `forest`: the trees of the groups of spec.scheduling; None without groups, or if the Jobs are not known.
    - `shortage`: the finding about a resource of which the JobSet requests more than all nodes have, if it is known.
    - `usage_findings`: a cache of findings about nodes in use, by the shape of a pod and the name of a resource.
    """

    facts: Facts
    survey: Survey
    jobs_by_uid: Mapping[str, SeenJob]
    unready_by_name: Mapping[str, Child]
    forest: Forest | None = None
    shortage: Finding | None = None
    leaders: dict[str, SeenPod] = field(default_factory=dict)
    followers: dict[str, list[SeenPod]] = field(default_factory=dict)
    failed_pods: dict[str, list[SeenPod]] = field(default_factory=dict)
    pod_warnings: dict[str, list[SeenEvent]] = field(default_factory=dict)
    usage_findings: dict[tuple[bytes, str], Finding] = field(default_factory=dict)

    @property
    def is_manager_missing(self) -> bool:
        """Whether no manager runs, as far as is known.

        A manager without leader election needs no lease. Such a manager runs if the lease never had a holder and the
        set has Jobs or a status.
        """
        lease, js = self.facts.lease, self.facts.jobset
        has_no_election = was_never_held(lease) and (bool(self.facts.jobs) or was_reconciled(js))
        return is_unheld(lease, self.facts.now) and not has_no_election

    @property
    def recent_warnings(self) -> list[SeenEvent]:
        """Warnings about the JobSet that are recent and still true, newest first.

        Warnings about an earlier JobSet of this name are left out.
        """
        uid = self.facts.jobset.metadata.uid
        return [
            event
            for event in self.facts.warnings
            if not (self.facts.has_service and event.reason == SERVICE_CREATION_FAILED)
            and (event.regarding.uid == uid or (not event.regarding.uid and self._is_newer_than_set(event)))
            and seconds_since(event.last_time, self.facts.now) <= RECENT_SECONDS
        ]

    def has_gate_warning(self, gate: str) -> bool:
        """Whether the manager has warned that this feature gate, which a field of the JobSet needs, is off."""
        return any(event.reason == "FeatureGateDisabled" and gate in event.note for event in self.recent_warnings)

    @property
    def disruptions(self) -> list[SeenEvent]:
        """Events about preempted, evicted or not ready pods, newest first, without cancelled evictions.

        Events that are older than the JobSet are left out: they are about pods of an earlier JobSet of this name.
        """
        return [
            event
            for event in self.facts.disruption_events
            if not event.note.startswith("Cancelling") and self._is_newer_than_set(event)
        ]

    def _is_newer_than_set(self, event: SeenEvent) -> bool:
        """Whether the event last happened after the creation of the JobSet; True if this is not known."""
        jobset_age = seconds_since(self.facts.jobset.metadata.creation_timestamp, self.facts.now)
        return seconds_since(event.last_time, self.facts.now, unknown=0) <= jobset_age

    def refusals(self, uid: str) -> list[SeenEvent]:
        """Warnings that the creation of a pod of the Job with this UID was refused, newest first."""
        return [
            event for event in self.facts.job_warnings if event.regarding.uid == uid and event.reason == "FailedCreate"
        ]

    def unready_jobs(self, unexplained_jobs: frozenset[str]) -> list[Child]:
        """The unexplained Jobs that run and are not ready."""
        return [child for name, child in self.unready_by_name.items() if name in unexplained_jobs]

    def pods_where(
        self, unexplained_jobs: frozenset[str], predicate: Callable[[SeenPod], object]
    ) -> Iterator[tuple[Child, list[SeenPod]]]:
        """The Jobs of `unready_jobs` that have pods for which `predicate` is true, each with these pods."""
        for child in self.unready_jobs(unexplained_jobs):
            if pods := [pod for pod in self.pods_of(child) if predicate(pod)]:
                yield child, pods

    def pods_of(self, child: Child) -> list[SeenPod]:
        """The known pods of a Job, its leader first."""
        uid = child.job.metadata.uid
        return [*([self.leaders[uid]] if uid in self.leaders else []), *self.followers.get(uid, ())]


def was_never_held(lease: SeenLease | None) -> bool:
    """Whether no manager has ever taken the lease, as far as is known."""
    return lease is not None and not lease.spec.renew_time


def was_reconciled(js: JobSet) -> bool:
    """Whether a manager has written the status of the JobSet, and no other controller manages it."""
    return js.is_ours and bool(js.status.replicated_jobs_status or js.status.terminal_state)


def is_unheld(lease: SeenLease | None, now: datetime) -> bool:
    """Whether no manager holds the lease, because it was released or has expired; False if unknown."""
    if lease is None:
        return False
    valid_seconds = (lease.spec.lease_duration_seconds or 0) + LEASE_MARGIN_SECONDS
    return not lease.spec.holder_identity or seconds_since(lease.spec.renew_time, now) > valid_seconds


def sort_facts(facts: Facts) -> Case:
    """The case with these facts. The leader of a Job is the newest of its live pods with index 0, else of all."""
    survey = survey_jobs(facts.jobset, facts.jobs) if facts.jobs is not None else Survey()
    jobs = {job.metadata.uid: job for job in facts.jobs or ()}
    unready_jobs = {child.name: child for child in survey.unready_jobs}
    groups = forest(facts.jobset) if facts.jobs is not None else None
    case = Case(facts, survey, jobs, unready_jobs, groups, _shortage(facts, survey))
    for event in facts.pod_warnings:
        if seconds_since(event.last_time, facts.now) <= RECENT_WARNING_SECONDS:
            case.pod_warnings.setdefault(event.regarding.name, []).append(event)
    for pod in sorted(facts.pods or (), key=lambda pod: (pod.is_live, pod.metadata.creation_timestamp or "", pod.name)):
        if pod.status.phase == "Failed" and pod.metadata.deletion_timestamp is None:
            case.failed_pods.setdefault(pod.job_uid, []).append(pod)
        if pod.metadata.leads:
            case.leaders[pod.job_uid] = pod
        elif pod.is_live:
            case.followers.setdefault(pod.job_uid, []).append(pod)
    return case


def _shortage(facts: Facts, survey: Survey) -> Finding | None:
    """The finding about a resource of which the JobSet requests more than all nodes have; None if unknown."""
    if facts.node_offers is None:
        return None
    templates = JudgedJobSet(facts.jobset).templates
    requests = ((template.requests, survey.pods_at_once[template.rjob.name]) for template in templates)
    return facts.node_offers.shortage(sum_requests(requests))
