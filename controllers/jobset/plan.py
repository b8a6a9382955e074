"""Decides what to do about one JobSet: a pure function from an observation to a plan (behaviour section 5.3).

No clock, no network, no randomness: time is a field of the observation. Planning again on the state that a plan leads
to asks for nothing; the property tests hold it to that.
"""

from functools import partial

from api import keys
from api.batch import ServiceSpec
from api.children import build_job, build_service, build_volume_claim, in_group, with_priority
from api.features import FeatureGates
from api.jobset import JobSet, JobSetStatus, ReplicatedJobStatus
from api.meta import JSON, find
from api.names import job_name_prefix, subdomain, volume_claim_name
from api.placement import Group, Placement, placement
from api.stages import in_order
from controllers.gang.plan import UNTROUBLED, Gangs, at_the_end, decide, misplaced
from controllers.jobset import collective, counters
from controllers.jobset.actions import (
    Action,
    CreateClaim,
    CreateJob,
    CreateService,
    DeleteJob,
    DeleteJobSet,
    Observed,
    Plan,
    Question,
)
from controllers.jobset.buckets import Buckets, Child, bucket
from controllers.jobset.draft import Draft
from controllers.jobset.policies import elastic, failure, in_place, startup, success, suspension, ttl

FOREIGN_RETRY = 10.0
"""Seconds until a look whether an object of somebody else has made room."""

AHEAD = 40
"""Jobs of one set that may run and that the Job controller has not come to yet. It serves Jobs in their order: those of
a small set that come after thousands of a large one would have to wait for all of these."""

MOST_WORDS = 300
"""Characters of the scheduler's that a condition repeats."""

NAMED = 5
"""Objects that one warning names; the rest is counted."""


def plan(observed: Observed, gates: FeatureGates, *, create_suspended: bool = True) -> Plan:
    """What to do now. `create_suspended` off: nothing is created for a set while it is suspended."""
    js = observed.jobset
    if js.metadata.deletion_timestamp is not None:
        return Plan()
    if not js.is_ours:
        return _expire(js, observed.now)
    return _Planner(observed, gates, create_suspended=create_suspended).plan()


def _expire(js: JobSet, now: str) -> Plan:
    """Time to live of a finished JobSet; kept for those that another controller manages, too."""
    left = ttl.remaining(js, now)
    if left is None:
        return Plan()
    return Plan(actions=(DeleteJobSet(),)) if left <= 0 else Plan(requeue_after=left)


class _Planner:
    """One run of `plan`: the observation, sorted, and what has been decided so far."""

    def __init__(self, observed: Observed, gates: FeatureGates, *, create_suspended: bool) -> None:
        self.observed = observed
        self.gates = gates
        self.js: JobSet = observed.jobset
        self.creates = create_suspended or not self.js.suspended
        self.placed: Placement = placement(self.js)
        self.groups: dict[str, Group] = self.placed.by_name()
        self.buckets: Buckets = bucket(self.js, observed.jobs, self.placed, gates, observed.departed)
        self.counts: tuple[ReplicatedJobStatus, ...] = counters.count(self.js, self.buckets, gates)
        self.stages = startup.Stages(self.js, self.counts, self.buckets)
        self.follows = collective.follows(self.js, self.buckets, self.placed, gates)
        self.lingering = collective.lingering(observed.lingering, self.buckets) if self.follows else frozenset()
        self.gangs: Gangs = decide(self.js, observed.groups, self.buckets, self.stages.is_next, self.lingering)
        self.draft = Draft(self.js, observed.now)
        self.draft.update(replicated_jobs_status=self.stages.remembered())
        self.counted: JobSetStatus = self.draft.status
        self.room = AHEAD - sum(child.job.queued and not child.deleting for child in self.buckets.active)
        self.actions: list[Action] = []
        self.requeue_after: float | None = None
        self.status_first = False
        self.question: Question | None = None

    def plan(self) -> Plan:
        if ttl.finished(self.js):
            self._end()
            return self._result()
        self._delete_attempts()
        self._delete(self.buckets.surplus[::-1])
        self._delete(self.buckets.needless)
        self._warn_of_strays()
        self._count_attempt()
        if not self.js.suspended and counters.all_ready(self.js, self.counts):
            self.draft.all_ready()
        if self.buckets.failed:
            self._judge()
        elif (share := success.met(self.js, self.counts, self.buckets)) is not None:
            self.draft.complete(share)
        else:
            self._progress()
        return self._result()

    def _end(self) -> None:
        """The set has finished: what still runs ends, whatever its labels, and the set itself when its time comes."""
        of = self.buckets
        left = (*of.active, *of.previous, *of.surplus, *of.needless)
        self._delete(tuple(child for child in left if child.job.finished is None))
        for job in self.buckets.odd:
            if job.finished is None and job.metadata.deletion_timestamp is None:
                self.actions.append(DeleteJob(job.metadata.name, job.metadata.uid))
        self.actions.extend(at_the_end(self.observed.groups))
        expiry = _expire(self.js, self.observed.now)
        self.actions.extend(expiry.actions)
        self.requeue_after = expiry.requeue_after

    def _count_attempt(self) -> None:
        """Number the run that begins: the first one, and each one after a suspension, once.

        The number is stored before a Job is resumed, and with it that the set is not suspended any more: a crash in
        between finds suspended Jobs of a set that runs, and only resumes them.
        """
        if self.js.suspended:
            return
        message = "jobset is resumed"
        resumed = self.draft.condition(keys.SUSPENDED, true=False, reason="ResumeJobs", message=message)
        if resumed or self.js.status.execution_attempts is None:
            self.draft.begin_attempt()
        self.status_first = resumed

    def _judge(self) -> None:
        """Jobs have failed: the failure policy decides. If it does, nothing else is done in this round."""
        before = self.draft.status
        self.question = failure.apply(self.js, self.buckets.failed, self.draft, self.gates, self.observed.evidence)
        undecided = self.question is not None and self.question.needed
        if self.draft.status is before and not undecided:
            self._progress()

    def _progress(self) -> None:
        """Nothing has ended: bring everything into being that should be."""
        self._release_stages()
        self._group()
        if self.creates:
            self._create_service()
            self._create_claims()
        if self.gates["ElasticJobSet"]:
            self._adjust()
        self._create_jobs()
        if self.js.suspended:
            self._suspend()
        else:
            self._resume()
        policy = self.js.spec.failure_policy
        if self.gates["InPlaceRestart"] and policy is not None and policy.restart_strategy == "InPlaceRestart":
            uids = frozenset(child.job.metadata.uid for child in self.buckets.active)
            in_place.apply(self.js, self.observed.pods, uids, self.draft)

    def _release_stages(self) -> None:
        """Take note of the stages that may start. That is stored first: a release is told of once, and holds."""
        released = self.stages.newly_released()
        for number, stage in released.items():
            self.draft.release(stage, number, self.stages.number)
        self.draft.update(current_stage=self.stages.current)
        self.status_first |= bool(released)

    def _group(self) -> None:
        """Groups ahead of the Jobs that are to be their members."""
        if self.js.spec.scheduling is None:
            self.draft.forget_condition(keys.GROUPS_READY)
            self.draft.forget_condition(keys.GROUPS_SCHEDULED)
        self.actions.extend(self.gangs.actions)
        if self.observed.groups is not None:
            self._delete(tuple(child for child in self.buckets.active if misplaced(child, self.gangs)))
        if self.gangs.state is not None:
            true, reason, message = self.gangs.state
            kind = "Normal" if true or reason in UNTROUBLED else "Warning"
            self.draft.condition(
                keys.GROUPS_READY, true=true, reason=reason, message=message, event_type=kind, always=True
            )
        if self.gangs.scheduled:
            message = "every group has been scheduled"
            self.draft.condition(keys.GROUPS_SCHEDULED, true=True, reason="Scheduled", message=message)
        elif self.gangs.refused:
            self._tell_refusal(self.gangs.refused)

    def _tell_refusal(self, refused: tuple[tuple[str, str], ...]) -> None:
        """Why pods are not placed: of one PodGroup, until that one is, since the words differ with every attempt."""
        told = find(self.js.status.conditions, keys.GROUPS_SCHEDULED)
        before = told.message if told is not None and told.status == "False" else ""
        if any(f"PodGroup {name} " in before for name, _ in refused):
            return
        name, words = refused[0]
        message = f"PodGroup {name} has found no room yet; kube-scheduler says: {words[:MOST_WORDS]}"
        self.draft.condition(keys.GROUPS_SCHEDULED, true=False, reason="Unschedulable", message=message, always=True)

    def _create_service(self) -> None:
        if not self.js.dns_enabled:
            return
        service = self.observed.service
        if service is None:
            self.actions.append(CreateService(build_service(self.js)))
            return
        owner = service.metadata.controller()
        ours = ServiceSpec(cluster_ip="None", selector={keys.JOBSET_NAME: self.js.metadata.name})
        by_hand = owner is None and service.spec == ours
        # An earlier JobSet of this name is on its way out, and its Service with it.
        renewed = service.metadata.whose == f"{keys.KIND} {self.js.metadata.name}"
        if not by_hand and not renewed:
            name, whose = subdomain(self.js), service.metadata.whose
            self.draft.warn(
                "HeadlessServiceCreationFailed",
                f"Service {name} exists already and belongs to {whose}: pods of this JobSet get no DNS names. Delete or"
                " rename it, or set spec.network.subdomain to a name of its own in a new JobSet",
            )

    def _create_claims(self) -> None:
        """Claims that pods may ask for now: what only later stages mount is created with them."""
        mounted = self.stages.mounted()
        for policy in self.js.spec.volume_claim_policies:
            for template in policy.templates:
                name = volume_claim_name(template["metadata"]["name"], self.js.metadata.name)
                later = mounted is not None and template["metadata"]["name"] not in mounted
                if name not in self.observed.claims and not later:
                    self.actions.append(CreateClaim(name, build_volume_claim(self.js, policy, template)))

    def _adjust(self) -> None:
        """Running Jobs follow the size of the set (gate ElasticJobSet), once their groups count on it."""
        for child in self.buckets.active:
            if not child.deleting and self.gangs.may_run(child.name):
                patch = elastic.adjust(child, self.groups[child.replicated_job], self.placed)
                if patch is not None:
                    self.actions.append(patch)

    def _create_jobs(self) -> None:
        """Create what is missing, as far as the order of stages lets it start."""
        ordered = in_order(self.js.spec) and not self.js.suspended
        lingering = self.lingering if self.creates and not self._blocked_by_previous() else None
        for group in self.placed.groups:
            rjob = group.replicated_job
            if not self.stages.may_start(rjob):
                continue
            if lingering is not None:
                self._create_missing(group, lingering)
            if ordered and not self.stages.started(rjob.name):
                self.draft.condition(
                    keys.STARTUP_IN_PROGRESS,
                    true=True,
                    reason="InOrderStartupPolicyInProgress",
                    message="in order startup policy is in progress",
                )
                return
        if ordered:
            self.draft.condition(
                keys.STARTUP_COMPLETED,
                true=True,
                reason="InOrderStartupPolicyCompleted",
                message="in order startup policy has completed",
            )

    def _create_missing(self, group: Group, lingering: frozenset[str]) -> None:
        """The Jobs of one ReplicatedJob that neither exist nor have completed, but for names that others hold.

        Those of which pods of an earlier attempt are left have to wait until these are gone.
        """
        name = group.replicated_job.name
        there = self.buckets.present[name] | self.buckets.completed[name]
        odd = {job.metadata.name for job in self.buckets.odd}
        taken: list[str] = []
        prefix = job_name_prefix(self.js.metadata.name, name)
        for index in (i for i in range(group.replicated_job.replicas) if i not in there):
            job = f"{prefix}{index}"
            if job in self.observed.foreign:
                taken.append(job)
            elif job not in odd and job not in lingering and self.gangs.may_run(job) and self._has_room():
                self.actions.append(CreateJob(job, partial(self._body, group, index)))
        if taken:
            self._wait_for_foreign(taken)

    def _has_room(self) -> bool:
        """Whether one more Job may be told to run now; a suspended one costs nobody anything."""
        if self.js.suspended:
            return True
        self.room -= 1
        return self.room >= 0

    def _wait_for_foreign(self, taken: list[str]) -> None:
        """Names of Jobs that are not ours: those of an earlier JobSet of our name go by themselves."""
        self.requeue_after = FOREIGN_RETRY
        foreign = self.observed.foreign
        own = f"{keys.KIND} {self.js.metadata.name}"
        others = [
            f'job "{name}" creation failed with error: it exists already and belongs to {foreign[name]}'
            for name in taken
            if foreign[name] != own
        ]
        if others:
            self.draft.warn(keys.JOB_CREATION_FAILED, _listed(others, "delete or rename it, or rename the JobSet"))

    def _blocked_by_previous(self) -> bool:
        policy = self.js.spec.failure_policy
        blocking = policy is not None and policy.restart_strategy == "BlockingRecreate"
        return blocking and bool(self.buckets.previous or self.lingering)

    def _body(self, group: Group, index: int, attempt: int | None = None) -> JSON:
        """The Job of that index as it is to be now. `attempt`: its own restart counter if it exists already."""
        if attempt is None and self.gates["RestartJob"]:
            restarts = next((c.job_restarts for c in self.counts if c.name == group.replicated_job.name), ())
            attempt = restarts[index] if index < len(restarts) else 0
        job = build_job(
            self.js,
            group,
            group.slot(self.js.metadata.name, index),
            global_replicas=self.placed.global_replicas,
            job_restart_attempt=attempt,
            execution_attempt=self.draft.status.execution_attempts if self.gates["ExecutionAttemptsTracking"] else None,
        )
        if (pods := self.gangs.group_of(job["metadata"]["name"])) is not None:
            job = in_group(job, pods.template, pods.name)
        return job if self.observed.priorities is None else with_priority(job, self.observed.priorities)

    def _suspend(self) -> None:
        """Suspend what runs. That is stored first, so that the resume is counted however far the suspension came."""
        running = [c for c in self.buckets.active if not c.job.spec.suspend and not c.deleting]
        self.actions.extend(suspension.suspend(child) for child in running)
        message = "jobset is suspended"
        suspended = self.draft.condition(keys.SUSPENDED, true=True, reason="SuspendedJobs", message=message)
        self.draft.condition(keys.RESTARTING, true=False, reason="JobSetSuspended", message=message)
        self.status_first |= suspended and bool(running)

    def _resume(self) -> None:
        """Resume stage by stage."""
        ordered = in_order(self.js.spec)
        halted: dict[str, list[Child]] = {}
        for child in self.buckets.active:
            if child.job.spec.suspend and not child.deleting:
                halted.setdefault(child.replicated_job, []).append(child)
        for group in self.placed.groups if halted else ():
            rjob = group.replicated_job
            if not self.stages.may_start(rjob):
                continue
            self._resume_group(group, halted.get(rjob.name, []))
            if ordered and not self.stages.started(rjob.name):
                break

    def _resume_group(self, group: Group, children: list[Child]) -> None:
        resources = self.gates["MutablePodResourcesForSuspendedJobSets"]
        for child in children:
            if self.room <= 0 or not self.gangs.may_run(child.name) or misplaced(child, self.gangs):
                continue
            wanted = self._body(group, child.job_index, suspension.attempt_of(child))
            patch = suspension.resume(child, wanted, resources=resources)
            if patch is not None:
                self.actions.append(patch)
                self.room -= 1

    def _delete_attempts(self) -> None:
        """Jobs of earlier attempts: those of a large set together, if nobody else has Jobs that look like them."""
        old = self.buckets.previous
        alone = not self.follows or self.observed.foreign
        together = () if alone else collective.batches(self.js, old, self.placed)
        names = {name for batch in together for name, _ in batch.jobs}
        self._delete(tuple(child for child in old if child.name not in names))
        self.actions.extend(together)

    def _delete(self, children: tuple[Child, ...]) -> None:
        self.actions.extend(DeleteJob(c.name, c.job.metadata.uid) for c in children if not c.deleting)

    def _warn_of_strays(self) -> None:
        if self.buckets.odd:
            strays = [f"job {job.metadata.name!r}" for job in self.buckets.odd]
            self.draft.warn(
                "StrayJob",
                _listed(strays, "owned by this JobSet, but its labels or its name are none of its Jobs': delete it"),
            )

    def _result(self) -> Plan:
        """Close the plan: a status that only counts may wait for the next write."""
        status: JobSetStatus | None = self.draft.status
        events = tuple(self.draft.events)
        requeue_after = self.requeue_after
        if status == self.js.status:
            status = None
        elif not self.buckets.unsaved:
            jobs, since = self.placed.global_replicas, self.observed.since_status_write
            delay = counters.write_delay(self.js.status, self.draft.status, jobs, since)
            if delay > 0:
                status = None
                requeue_after = delay if requeue_after is None else min(delay, requeue_after)
        return Plan(
            actions=tuple(self.actions),
            status=status,
            counters=self.counted if status is not None and self.counted != self.js.status else None,
            events=events if status is not None else (),
            requeue_after=requeue_after,
            status_first=self.status_first,
            warnings=tuple(self.draft.warnings),
            question=self.question,
            follow_pods=self.follows and (collective.earlier(self.js, self.buckets) or self.lingering != frozenset()),
        )


def _listed(items: list[str], advice: str) -> str:
    """The first few, the number of the others, and what to do."""
    more = f" and {len(items) - NAMED} more" if len(items) > NAMED else ""
    return f"{', '.join(items[:NAMED])}{more}: {advice}"
