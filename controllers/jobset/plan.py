"""Decides what to do about one JobSet: a pure function from an observation to a plan (behaviour section 5.3).

No clock, no network, no randomness: time is a field of the observation. Planning again on the state that a plan leads
to asks for nothing; the property tests hold it to that.
"""

from api import keys
from api.children import build_job, build_service, build_volume_claim
from api.features import FeatureGates
from api.jobset import JobSet, JobSetStatus, ReplicatedJobStatus
from api.names import volume_claim_name
from api.placement import Group, Placement, Slot, placement
from controllers.jobset import counters
from controllers.jobset.actions import (
    Action,
    CreateClaim,
    CreateJob,
    CreateService,
    DeleteJob,
    DeleteJobSet,
    Observed,
    Plan,
)
from controllers.jobset.buckets import Buckets, Child, bucket
from controllers.jobset.draft import Draft
from controllers.jobset.policies import failure, startup, success, suspension, ttl


def plan(observed: Observed, gates: FeatureGates) -> Plan:
    """What to do now."""
    js = observed.jobset
    if js.metadata.deletion_timestamp is not None:
        return Plan()
    if not js.is_ours:
        return _expire(js, observed.now)
    return _Planner(observed, gates).plan()


def _expire(js: JobSet, now: str) -> Plan:
    """Time to live of a finished JobSet; kept for those that another controller manages, too."""
    left = ttl.remaining(js, now)
    if left is None:
        return Plan()
    return Plan(actions=(DeleteJobSet(),)) if left <= 0 else Plan(requeue_after=left)


class _Planner:
    """One run of `plan`: the observation, sorted, and what has been decided so far."""

    def __init__(self, observed: Observed, gates: FeatureGates) -> None:
        self.observed = observed
        self.gates = gates
        self.js: JobSet = observed.jobset
        self.placed: Placement = placement(self.js)
        self.groups: dict[str, Group] = self.placed.by_name()
        self.buckets: Buckets = bucket(self.js, observed.jobs, self.placed, gates)
        self.counts: tuple[ReplicatedJobStatus, ...] = counters.count(self.js, self.buckets, gates)
        self.draft = Draft(self.js, observed.now)
        self.draft.update(replicated_jobs_status=self.counts)
        self.counted: JobSetStatus = self.draft.status
        self.actions: list[Action] = []

    def plan(self) -> Plan:
        if ttl.finished(self.js):
            self._delete(self.buckets.active)
            expiry = _expire(self.js, self.observed.now)
            self.actions.extend(expiry.actions)
            return self._result(expiry.requeue_after)
        self._delete(self.buckets.previous)
        if not self.js.suspended and counters.all_ready(self.js, self.counts):
            self.draft.condition(keys.RESTARTING, true=False, reason="JobsReady", message="all jobs are ready")
        if self.buckets.failed:
            failure.apply(self.js, self.buckets.failed, self.draft, self.gates)
        elif success.met(self.js, self.buckets.successful):
            self.draft.complete()
        else:
            self._progress()
        return self._result(None)

    def _progress(self) -> None:
        """Nothing has ended: bring everything into being that should be."""
        if self.js.dns_enabled and not self.observed.service_exists:
            self.actions.append(CreateService(build_service(self.js)))
        self._create_claims()
        stages = startup.Stages(self.js, self.counts, self.buckets)
        self._create_jobs(stages)
        if self.js.suspended:
            self._suspend()
        else:
            self._resume(stages)

    def _create_claims(self) -> None:
        for policy in self.js.spec.volume_claim_policies:
            for template in policy.templates:
                name = volume_claim_name(template["metadata"]["name"], self.js.metadata.name)
                if name not in self.observed.claims:
                    self.actions.append(CreateClaim(name, build_volume_claim(self.js, policy, template)))

    def _create_jobs(self, stages: startup.Stages) -> None:
        """Create what is missing, as far as the order of stages lets it start."""
        ordered = startup.in_order(self.js) and not self.js.suspended
        blocked = self._blocked_by_previous()
        taken = {job.metadata.name for job in self.observed.jobs}
        for group in self.placed.groups:
            rjob = group.replicated_job
            if not stages.dependencies_met(rjob):
                continue
            if not blocked:
                missing = (slot for slot in group.slots(self.js.metadata.name) if slot.name not in taken)
                self.actions.extend(CreateJob(slot.name, self._body(group, slot)) for slot in missing)
            if ordered and not stages.started(rjob.name):
                self._in_progress()
                return
        if ordered:
            self.draft.condition(
                keys.STARTUP_COMPLETED,
                true=True,
                reason="InOrderStartupPolicyCompleted",
                message="in order startup policy has completed",
            )

    def _blocked_by_previous(self) -> bool:
        policy = self.js.spec.failure_policy
        blocking = policy is not None and policy.restart_strategy == "BlockingRecreate"
        return blocking and bool(self.buckets.previous)

    def _in_progress(self) -> None:
        self.draft.condition(
            keys.STARTUP_IN_PROGRESS,
            true=True,
            reason="InOrderStartupPolicyInProgress",
            message="in order startup policy is in progress",
        )

    def _body(self, group: Group, slot: Slot) -> dict[str, object]:
        attempt = None
        if self.gates["RestartJob"]:
            restarts = next((c.job_restarts for c in self.counts if c.name == slot.replicated_job.name), ())
            attempt = restarts[slot.job_index] if restarts else 0
        return build_job(self.js, group, slot, global_replicas=self.placed.global_replicas, job_restart_attempt=attempt)

    def _suspend(self) -> None:
        running = (c for c in self.buckets.active if not c.job.spec.suspend and not c.deleting)
        self.actions.extend(suspension.suspend(child) for child in running)
        message = "jobset is suspended"
        self.draft.condition(keys.SUSPENDED, true=True, reason="SuspendedJobs", message=message)
        self.draft.condition(keys.RESTARTING, true=False, reason="JobSetSuspended", message=message)

    def _resume(self, stages: startup.Stages) -> None:
        """Resume stage by stage. Suspended stays True until every Job that may run has been told to."""
        ordered = startup.in_order(self.js)
        halted: dict[str, list[Child]] = {}
        for child in self.buckets.active:
            if child.job.spec.suspend and not child.deleting:
                halted.setdefault(child.replicated_job, []).append(child)
        waiting = False
        for group in self.placed.groups if halted else ():
            rjob = group.replicated_job
            if not stages.dependencies_met(rjob):
                continue
            waiting |= self._resume_group(group, halted.get(rjob.name, []))
            if ordered and not stages.started(rjob.name):
                break
        if not waiting:
            self.draft.condition(keys.SUSPENDED, true=False, reason="ResumeJobs", message="jobset is resumed")

    def _resume_group(self, group: Group, children: list[Child]) -> bool:
        """Resume these Jobs; True when one of them has to wait for its old pods to go."""
        waiting = False
        for child in children:
            wanted = build_job(
                self.js,
                group,
                suspension.slot_of(group, child),
                global_replicas=self.placed.global_replicas,
                job_restart_attempt=suspension.attempt_of(child),
            )
            action = suspension.resume(child, wanted["spec"]["template"])
            if action is None:
                waiting = True
            else:
                self.actions.append(action)
        return waiting

    def _delete(self, children: tuple[Child, ...]) -> None:
        self.actions.extend(DeleteJob(c.name, c.job.metadata.uid) for c in children if not c.deleting)

    def _result(self, requeue_after: float | None) -> Plan:
        """Close the plan: a status that only counts may wait for the next write."""
        status = self.draft.status
        if status == self.js.status:
            return Plan(tuple(self.actions), requeue_after=requeue_after)
        delay = counters.write_delay(
            self.js.status, status, self.placed.global_replicas, self.observed.since_status_write
        )
        if delay > 0:
            soonest = delay if requeue_after is None else min(delay, requeue_after)
            return Plan(tuple(self.actions), requeue_after=soonest)
        counted = self.counted if self.counted != self.js.status else None
        return Plan(tuple(self.actions), status, counted, tuple(self.draft.events), requeue_after)
