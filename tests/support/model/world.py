"""A model of one namespace with one JobSet, for pure tests of `plan`.

It applies plans the way the API server and the Job controller would, and refuses what could never happen there: a
second Job of one name, a patch of a Job that is not there, restarts that go down, a terminal state that is left, pods
in a finished Job, a Job beside pods of its earlier attempt. Time is a counter of seconds. It carries
out a plan's actions without executor, client and caches, and tests change its objects between two plans.
`dev.simulator` has the rules of what they may become; `tests.support.model.stale` has these histories on all of it.
"""

import dataclasses
from typing import Any

import msgspec

from api.batch import Job, Service
from api.features import FeatureGates
from api.gang_api import Served
from api.gang_status import StoredGroup, StoredWorkload
from api.jobset import JobSet
from api.jobset_status import JobSetStatus
from api.pod import Pod
from controllers.planning.actions import (
    CreateClaim,
    CreateGroup,
    CreateJob,
    CreateService,
    DeleteGroup,
    DeleteJob,
    DeleteJobs,
    DeleteJobSet,
    Event,
    FailedPodQuery,
    PatchGroup,
    PatchJob,
    Plan,
    PodQuery,
)
from controllers.planning.decisive_pod import candidates_of
from controllers.planning.limits import DEFAULT_LIMITS, Limits
from controllers.planning.observed import Ended, FailedPod, KnownGroups, Observed
from controllers.planning.plan import Planning, plan
from dev.simulator import job_rules, job_status, jobset_rules
from dev.simulator.patches import merge, merge_strategically
from dev.simulator.selectors import matches
from kube.decode import convert
from kube.model.meta import Owner
from tests.support.model.namespace import JSON, Namespace

ALL_SERVED = Served(groups=True, composites=True, topology=True)


class World(Namespace):
    """One JobSet and its children. `served` and `group_error`: what is known of the scheduling API; see `KnownGroups`."""

    def __init__(self, js: JobSet, **gates: bool) -> None:
        super().__init__()
        self.js: JobSet | None = js
        self.served = ALL_SERVED
        self.groups_required = True
        self.group_error: tuple[str, str] | None = None
        self.gates = FeatureGates(gates)
        self.service: Service | None = None
        self.departed: dict[str, dict[str, Any]] = {}
        self.foreign: dict[str, Owner] = {}
        self.pods: list[Pod] = []
        self.last_ends: dict[str, Ended] = {}
        self.failed_pods: dict[str, tuple[FailedPod, ...]] = {}
        self.old_pods: dict[str, str] = {}  # UID by name: Jobs deleted in the background whose pods have not ended
        self.followed: int | None = None  # the attempt whose earlier pods are known
        self.create_suspended = True
        self.reported_group = ""
        self.warnings: list[Event] = []
        self.claims: set[str] = set()
        self.events: list[Event] = []
        self.plans: list[Plan] = []
        self.since_status_write: float | None = None
        self.counts_waited: float | None = None
        self.write_seconds = 0.0

    @property
    def status(self) -> JobSetStatus:
        assert self.js is not None, "the JobSet is deleted"
        return self.js.status

    def observe(self) -> Observed:
        assert self.js is not None, "the JobSet is deleted"
        return Observed(
            self.js,
            tuple(msgspec.convert(job, Job) for job in self.jobs.values()),
            self.service,
            frozenset(self.claims),
            self.now,
            self.since_status_write,
            self.counts_waited,
            self.write_seconds,
            departed=tuple(msgspec.convert(job, Job) for job in self.departed.values()),
            foreign_owners=self.foreign,
            pods=tuple(self.pods),
            last_ends=self.last_ends,
            leftovers={name: frozenset({uid}) for name, uid in self.old_pods.items()}
            if self.followed == self.status.restarts
            else None,
            groups=self._known_groups(),
            reported_group=self.reported_group,
        )

    def _known_groups(self) -> KnownGroups | None:
        """As the watches give them: None for a set that asks for none and has none."""
        assert self.js is not None
        if self.js.spec.scheduling is None and not self.groups:
            return None
        return KnownGroups(
            self.served,
            self.groups_required,
            self.group_error,
            tuple(msgspec.convert(of, StoredWorkload) for of in self.of_kind("Workload")),
            tuple(convert(StoredGroup, of) for of in self.of_kind("CompositePodGroup")),
            tuple(convert(StoredGroup, of) for of in self.of_kind("PodGroup")),
        )

    def plan(self) -> Plan:
        """What the planner wants now, with its queries about pods answered. `failed_pods` are by the name of their Job."""
        limits = Limits(create_suspended=self.create_suspended)
        observed, planning = self.observe(), Planning(self.gates, limits)
        decided = planning.decide(observed)
        while decided.pod_query is not None:
            observed = self.answer(observed, decided.pod_query)
            decided = planning.decide(observed)
            assert decided == plan(observed, self.gates, limits), "as if known at once"
        return decided

    def answer(self, observed: Observed, pod_query: PodQuery) -> Observed:
        assert isinstance(pod_query, FailedPodQuery), "no other query was expected"
        asked, keep = dict(pod_query.jobs), candidates_of(observed.jobset, observed.jobs)
        assert asked.keys() <= self.jobs.keys(), "a query about a Job that is not there"
        assert observed.failed_pods.keys().isdisjoint(asked.values()), "an answered query is asked again"
        answer = {uid: tuple(keep(uid, self.failed_pods.get(name, ()))) for name, uid in asked.items()}
        return dataclasses.replace(observed, failed_pods={**observed.failed_pods, **answer})

    def step(self) -> Plan:
        """Plan once and carry it out."""
        result = self.plan()
        self.plans.append(result)
        self.warnings.extend(result.warnings)
        attempt, self.reported_group = self.status.restarts, result.reported_group
        if result.status_first:
            self._keep(result)
        for action in result.actions:
            self._do(action)
        if result.follow_pods:
            self.followed = attempt
        if not result.status_first:
            self._keep(result)
        return result

    def _keep(self, result: Plan) -> None:
        """Store the status that a plan wants, and what it says of it."""
        if result.status is not None and self.js is not None:
            self._store(result.status)
            self.events.extend(result.events)

    def settle(self, limit: int = 40) -> None:
        """Plan until nothing is left to do; counters that were put off count as left."""
        for _ in range(limit):
            if self.js is None:
                return
            known = self.followed
            result = self.step()
            if not result.actions and result.status is None and self.followed == known:
                if len(self.queued()) < DEFAULT_LIMITS.queued_jobs:
                    return
                self.take_up()
        raise AssertionError(f"no rest after {limit} plans: {self.plans[-1]}")

    def start_jobs(self) -> None:
        """All Jobs that may run do, and what follows from it is done."""
        self.settle()
        self.run()
        self.settle()

    def replace_jobs(self) -> None:
        """Jobs that are deleted go, and what comes in their place is there."""
        self.settle()
        self.collect()
        self.settle()

    # What the Job controller, the garbage collector and people do.

    def queued(self) -> list[str]:
        """Jobs that may run and that their controller has not come to."""
        return [name for name, job in self.jobs.items() if msgspec.convert(job, Job).awaits_job_controller]

    def take_up(self, *names: str) -> None:
        """The Job controller comes to these Jobs (to all that wait for it, by default)."""
        for name in names or self.queued():
            self.jobs[name]["status"] = job_status.with_start_time(self.jobs[name], self.now)

    def run(self, *names: str, ready: bool = True) -> None:
        """Start the pods of these Jobs (of all that may run, by default)."""
        for name in names or [n for n, j in self.jobs.items() if job_status.may_run(j)]:
            job = self._running(name)
            job["status"] = job_status.start_status(job, self.now, ready=job_status.pods_wanted(job) if ready else 0)

    def finish(self, name: str, kind: str = "Complete", reason: str = "", message: str = "") -> None:
        job = self._running(name)
        job["status"] = job_status.end_status(job, self.now, kind, reason, message)

    def fail(self, name: str, reason: str = "BackoffLimitExceeded", message: str = "boom") -> None:
        self.finish(name, "Failed", reason, message)

    def doom(self, name: str, reason: str = "BackoffLimitExceeded", message: str = "boom") -> None:
        """The Job controller says that a Job is bound to fail, and ends its other pods."""
        job = self._running(name)
        job["status"] = job_status.failing_status(job, self.now, reason, message)

    def _running(self, name: str) -> JSON:
        assert job_status.may_run(self.jobs[name]), f"{name} can have no pods"
        return self.jobs[name]

    def halt(self) -> None:
        """The Job controller ends the pods of suspended Jobs and says so."""
        for job in self.jobs.values():
            if job["spec"]["suspend"] and not job_status.is_finished(job):
                job["status"] = job_status.suspended_status(job, self.now)

    def collect(self) -> None:
        """The garbage collector removes what is in deletion."""
        self.jobs = {n: j for n, j in self.jobs.items() if "deletionTimestamp" not in j["metadata"]}
        self.release()

    def end_pods(self, *names: str) -> None:
        """Pods of Jobs that were deleted in the background have ended (all of them, by default)."""
        for name in names or list(self.old_pods):
            del self.old_pods[name]

    def remove(self, name: str) -> None:
        """Somebody deletes a finished Job, or its own time to live is over; the watch saw it go."""
        assert self.finished(name), f"{name} has not finished"
        self.departed[name] = self.jobs.pop(name)

    def finished(self, name: str) -> bool:
        return msgspec.convert(self.jobs[name], Job).outcome is not None

    def edit(self, **spec: Any) -> None:
        """A user changes the spec."""
        assert self.js is not None, "the JobSet is deleted"
        self.js = msgspec.structs.replace(self.js, spec=msgspec.structs.replace(self.js.spec, **spec))

    def condition(self, kind: str) -> tuple[str, str, str] | None:
        """(status, reason, message) of a condition."""
        found = [(c.status, c.reason, c.message) for c in self.status.conditions if c.type == kind]
        return found[0] if found else None

    def counts(self, name: str = "workers") -> dict[str, int]:
        of = next(s for s in self.status.replicated_jobs_status if s.name == name)
        return {k: getattr(of, k) for k in ("ready", "succeeded", "failed", "active", "suspended")}

    def live(self) -> list[str]:
        """Names of the Jobs that are not in deletion."""
        return sorted(n for n, j in self.jobs.items() if "deletionTimestamp" not in j["metadata"])

    def _do(self, action: object) -> None:
        match action:
            case CreateJob(name=name):
                assert name not in self.jobs, f"{name} is created twice"
                assert name not in self.old_pods, f"{name} is created while pods of an earlier attempt live"
                stored = job_rules.with_defaults(self.stored_body(action.build_body()))
                refusal = job_rules.refusal(stored)
                assert not refusal, f"{name}: {refusal}"
                self.check_groups_of(stored)
                self.jobs[name] = stored
            case DeleteJob(name, uid):
                assert self.jobs[name]["metadata"]["uid"] == uid, f"{name} is another Job by now"
                assert "deletionTimestamp" not in self.jobs[name]["metadata"], f"{name} is deleted twice"
                self.jobs[name]["metadata"]["deletionTimestamp"] = self.now
            case DeleteJobs(selector, wanted):
                self._delete_jobs(selector, dict(wanted))
            case PatchJob(name, patch):
                meta, named = self.jobs[name]["metadata"], patch["metadata"]
                assert meta["uid"] == named["uid"], f"{name} is another Job by now"
                version = meta.get("resourceVersion", "")
                assert named.get("resourceVersion", version) == version, f"{name} has changed by now"
                self._patch(name, (merge_strategically if action.changes_resources else merge)(self.jobs[name], patch))
            case CreateService():
                assert self.service is None, "the Service is created twice"
                self.service = msgspec.convert(action.body, Service)
            case CreateClaim(name):
                assert name not in self.claims, f"claim {name} is created twice"
                self.claims.add(name)
            case CreateGroup() | PatchGroup() | DeleteGroup():
                self.apply_group_action(action)
            case DeleteJobSet():
                self.js = None
            case _:
                raise AssertionError(f"unknown action {action}")

    def _delete_jobs(self, selector: str, wanted: dict[str, str]) -> None:
        """In the background: Jobs go at once, unless a finalizer keeps them, and their pods later."""
        found = {n: j["metadata"] for n, j in self.jobs.items() if matches(selector, j["metadata"]["labels"])}
        fresh = {n: meta["uid"] for n, meta in found.items() if "deletionTimestamp" not in meta}
        assert fresh == wanted, f"{selector} does not find those"
        for name, meta in found.items():
            assert not meta.get("finalizers"), f"{name} does not go at once"
            if self.jobs.pop(name)["status"].get("active"):
                self.old_pods[name] = meta["uid"]

    def _patch(self, name: str, wanted: JSON) -> None:
        job = self.jobs[name]
        refusal = job_rules.change_refusal(job, wanted)
        assert not refusal, f"{name}: {refusal}"
        if job["spec"]["suspend"]:
            self.check_groups_of(wanted)
        job.update(wanted)

    def _store(self, new: JobSetStatus) -> None:
        assert self.js is not None
        refusal = jobset_rules.status_refusal(msgspec.to_builtins(self.js), msgspec.to_builtins(new))
        assert not refusal, refusal
        self.js = msgspec.structs.replace(self.js, status=new)
