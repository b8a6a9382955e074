"""Judges every write of the JobSet controller against what has really happened: the invariants of the reconcile loop.

The model API server (`tests.support.model.stale`) tells the ledger of every change of an object, and of every write of the
controller before it is stored; a write that must never happen is an AssertionError. What the controller could know when
it planned is given by `begin`. Must not change anything.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec

from api import keys
from api.batch import Job, is_job_ready
from api.features import FeatureGates
from api.gang_status import StoredGroup, StoredWorkload
from api.gangs import Group, forest
from api.indexes import parse_indexes
from api.jobset import JobSet
from api.jobset_status import JobSetStatus
from api.suspension import deletes_jobs_on_suspend
from controllers.planning.child_jobs import integer
from controllers.planning.observed import KnownGroups
from tests.support.model.ledger_in_place import InPlaceRules
from tests.support.model.ledger_nodes import NodeRules
from tests.support.model.ledger_recovery import RecoveryRules
from tests.support.model.ledger_status import MANY, Place, StatusRules, entry_of, own_restarts

MAX_HISTORY = 10


@dataclass(slots=True)
class View:
    """What the process knew when it planned."""

    jobset: JobSet
    jobs: dict[str, Job]
    saw_complete: set[str]
    groups: KnownGroups | None = None
    writes: int = 0


@dataclass(slots=True)
class Ledger(StatusRules, RecoveryRules, NodeRules, InPlaceRules):
    """What has happened so far to all JobSets of the name."""

    gates: FeatureGates
    create_suspended: bool
    spec_of: Callable[[], JobSet | None] = lambda: None
    lost: Callable[[], set[str]] = set
    """Jobs that may count as failed because of a node."""
    nodeless: Callable[[str], bool] = lambda _: False
    without_room: Callable[[], set[str]] = set
    """Whether the pods of a Job keep away from all nodes that have room, for too long."""
    view: View | None = None
    places: dict[str, Place] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    completed: dict[Place, str] = field(default_factory=dict)
    smallest: dict[tuple[str, str], int] = field(default_factory=dict)
    current: dict[str, Job] = field(default_factory=dict)
    reached: set[tuple[str, str, int, str]] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    ended: dict[str, str] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    too_late: set[str] = field(default_factory=set)
    deleted_by_others: set[str] = field(default_factory=set)
    """Jobs that somebody else deleted in the background: nobody waits for their pods."""
    doomed_fail: bool = False
    floors: dict[tuple[str, str, int], tuple[int, ...]] = field(default_factory=dict)
    """Restart counters of a ReplicatedJob, by attempt, when all its Jobs were last restarted: none before counts."""
    counted_from: dict[str, str] = field(default_factory=dict)
    """When the seconds of a set were first counted."""
    late: set[str] = field(default_factory=set)
    """Jobs with a pod that was late when the pending pods were last listed for a plan."""
    domains: set[str] = field(default_factory=set)
    """Topology domains that the Job which is being created has to keep away from."""
    reports: dict[str, set[int]] = field(default_factory=dict)
    """The attempts in place that agents in pods of a Job have reported."""
    containers: dict[str, int] = field(default_factory=dict)
    """How often containers of a pod of a Job were started again, at most."""
    paused: set[str] = field(default_factory=set)
    """Sets whose seconds were not counted for a while, or are not any more."""
    drains: int = 0
    """How often a node was drained."""
    moved: dict[str, int] = field(default_factory=dict)
    """How often each set has left nodes that were drained."""
    sizes: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    resizes: dict[str, int] = field(default_factory=dict)
    """How often each set has restarted because the user wanted another number of Jobs."""

    # What happens, whoever did it

    def changed(self, plural: str, obj: Any) -> None:
        if plural == "jobsets":
            self._spec_changed(obj)
        elif plural == "jobs":
            self._job_changed(obj)

    def _spec_changed(self, js: JobSet) -> None:
        self.note_sizes(js)
        js, uid = self.sized(js), js.metadata.uid
        policy = js.spec.failure_policy
        self.doomed_fail = policy is not None and policy.fail_on == "FailureTarget"
        for rjob in js.spec.replicated_jobs:
            key = uid, rjob.name
            if rjob.replicas < self.smallest.get(key, MANY):
                self.smallest[key] = rjob.replicas
                for job in self.current.values():
                    self._note_reached(self.places[job.metadata.uid])
        if js.status.terminal_state:
            assert self.ended.setdefault(uid, js.status.terminal_state) == js.status.terminal_state

    def _job_changed(self, job: Job) -> None:
        """A Job keeps the place that it was created in, whatever becomes of its labels."""
        place = self.places.get(job.metadata.uid)
        if place is None:
            return
        outcome = job.outcome
        if outcome == "Failed" or (self.doomed_fail and job.is_failing):
            self.failed.add(job.metadata.uid)
            if job.failure is not None and job.failure.reason == "DeadlineExceeded":
                self.too_late.add(job.metadata.uid)
        elif outcome == "Complete":
            self.completed[place] = job.metadata.uid
        self.current[job.metadata.name] = job
        self._note_reached(place)

    def _note_reached(self, place: Place) -> None:
        """Remember that all Jobs of a ReplicatedJob were ready, active or complete at the same time.

        "All" are as many as the smallest number of replicas that it ever had.
        """
        ready = complete = there = 0
        for job in self.current.values():
            at = self.places[job.metadata.uid]
            if (at.owner, at.replicated_job, at.attempt) == (place.owner, place.replicated_job, place.attempt):
                done = at in self.completed
                complete += done
                ready += done or (job.outcome is None and is_job_ready(job))
                there += done or (job.outcome is None and (job.status.active > 0 or is_job_ready(job)))
        least = self.smallest.get((place.owner, place.replicated_job), MANY)
        key = place.owner, place.replicated_job, place.attempt
        if ready >= least:
            self.reached.add((*key, "Ready"))
        if there >= least:
            self.reached.add((*key, "Active"))
        if complete >= least:
            self.reached.add((*key, "Complete"))

    # What the controller writes

    def begin(self, view: View) -> None:
        self.view = replace(view, jobset=self.sized(view.jobset))
        self.late.clear()

    def _of(self, js_uid: str) -> View:
        assert self.view is not None, "a write outside of a reconcile"
        self.view.writes += 1
        assert self.view.jobset.metadata.uid == js_uid, "an object of another JobSet is touched"
        return self.view

    def job_created(self, job: Job, orphans: dict[str, dict[str, Any]]) -> None:
        """`orphans`: pods that have outlived their Jobs, as JSON by the UID of that."""
        owner = job.metadata.controller()
        assert owner is not None
        view = self._of(owner.uid)
        js, place = view.jobset, self.place_of(job)
        name = job.metadata.name
        self._pods_are_gone(js, place, orphans)
        self._keeps_away(js, job)
        if keys.PLACEHOLDER in job.metadata.labels:
            self._holds_place(js, place, job)
            return
        assert name == f"{js.metadata.name}-{place.replicated_job}-{place.index}", f"{name} is at {place}"
        assert not js.status.terminal_state, f"{name} is created after the end"
        assert self.create_suspended or not js.spec.suspend, f"{name} is created although the set is suspended"
        assert job.spec.suspend == bool(js.spec.suspend), f"{name} is created with suspend={job.spec.suspend}"
        own = own_restarts(js.status, place) if self.gates["RestartJob"] else 0
        assert (place.attempt, place.own) == (js.status.restarts, own), f"{name} is created as {place}"
        self._not_run_again(view, place)
        self._order_is_kept(js, place)
        policy = js.spec.failure_policy
        if policy and policy.restart_strategy == "BlockingRecreate":
            jobs = [j for j in view.jobs.values() if keys.PLACEHOLDER not in j.metadata.labels]  # these run no worker
            old = [j for j in jobs if self._owned(j, owner.uid) and self._is_previous(js, j)]
            assert not old, f"{name} is created while {old[0].metadata.name} of an earlier attempt is there"
        self._tree_stands(view, job)
        self.places[job.metadata.uid] = place

    def _pods_are_gone(self, js: JobSet, place: Place, orphans: dict[str, dict[str, Any]]) -> None:
        """No pod of an earlier attempt of this Job is left, and of none of its tree, or of the set if that blocks."""
        policy, wanted = js.spec.failure_policy, forest(js)
        blocks = policy is not None and policy.restart_strategy == "BlockingRecreate"
        name = f"{js.metadata.name}-{place.replicated_job}-{place.index}"
        leaf = None if wanted is None or js.spec.suspend else wanted.of_job(name)
        roots = () if wanted is None or leaf is None else (root for root in wanted.roots if leaf in root.walk())
        tree = {job for root in roots for group in root.walk() for job, _ in group.jobs}
        for uid, pod in orphans.items():
            of = self.places.get(uid)
            if (
                of is None
                or uid in self.deleted_by_others | self.broken
                or (of.owner, of.attempt < place.attempt) != (place.owner, True)
            ):
                continue
            other = pod["ownerReferences"][0]["name"]
            assert other != name, f"{name} is created while its pods of attempt {of.attempt} live"
            assert not blocks, f"{name} is created while pods of {other} of attempt {of.attempt} live"
            assert other not in tree, f"{name} is created while pods of {other} of attempt {of.attempt} are in its tree"

    def _tree_stands(self, view: View, job: Job) -> None:
        """Pods name the group that the spec wants, which the process knew to be there with all above it; and nothing
        of an earlier attempt is left in the tree."""
        js, name = view.jobset, job.metadata.name
        wanted = forest(js)
        leaf = None if wanted is None else wanted.of_job(name)
        named = job.spec.template.spec.pod_group
        assert named == ("" if leaf is None else leaf.name), f"{name} is in {named or 'no group'}"
        if wanted is None or leaf is None or js.spec.suspend:
            return
        known = view.groups
        assert known is not None
        assert any(of.metadata.deletion_timestamp is None for of in known.workloads), f"{name} is ahead of the Workload"
        [root] = [root for root in wanted.roots if leaf in root.walk()]
        members = {job for group in root.walk() for job, _ in group.jobs}
        of_tree = [other for other in view.jobs.values() if other.metadata.name in members]
        there = {of.metadata.name for of in (*known.composites, *known.pod_groups) if _serves(of, of_tree)}
        path = _path(root, leaf)
        assert path <= there, f"{name} is ahead of {path - there}"
        old = [other.metadata.name for other in of_tree if self._is_previous(js, other)]
        assert not old, f"{name} runs while {old} of an earlier attempt are in its tree"

    def group_created(self, of: StoredGroup | StoredWorkload) -> None:
        view = self.group_changed(of)
        name, js = of.metadata.name, view.jobset
        wanted = forest(js)
        assert wanted is not None, f"{name} is created for a set without spec.scheduling"
        assert name in {wanted.workload, *(group.name for group in wanted.groups())}, f"{name} is in no tree"
        assert not js.spec.suspend and not js.status.terminal_state, f"{name} is created for a set that does not run"  # noqa: PT018 -- one thing

    def group_changed(self, of: StoredGroup | StoredWorkload) -> View:
        """Patched or deleted: only what is ours."""
        owner = of.metadata.controller()
        assert owner is not None, f"{of.metadata.name} of nobody is changed"
        return self._of(owner.uid)

    def _not_run_again(self, view: View, place: Place) -> None:
        of = entry_of(view.jobset.status, place.replicated_job)
        if of is not None and place.attempt == view.jobset.status.restarts:
            done = parse_indexes(of.completed_indexes, MANY)
            assert place.index not in done, f"{place} is created although the status remembers that it completed"
        uid = self.completed.get(place)
        forgotten = self.smallest[place.owner, place.replicated_job] <= place.index
        forgotten = forgotten or uid in self.broken
        assert uid not in view.saw_complete or forgotten, f"{place} is created although it was seen to complete"

    def _order_is_kept(self, js: JobSet, place: Place) -> None:
        """Whatever this stage waits for was reached in this attempt."""
        waits = self._stages_before(js, place.replicated_job)
        if js.spec.suspend and not waits:
            return
        names = [r.name for r in js.spec.replicated_jobs]
        here = js.spec.replicated_jobs[names.index(place.replicated_job)]
        waits += [(d.name, d.status) for d in here.depends_on or ()]
        if js.spec.startup_policy and js.spec.startup_policy.startup_policy_order == "InOrder":
            waits += [(name, "Ready") for name in names[: names.index(place.replicated_job)]]
        for name, status in waits:
            was = (place.owner, name, place.attempt, status) in self.reached
            assert was or not self.smallest[place.owner, name], f"{place} is created before {name} is {status}"

    @staticmethod
    def _stages_before(js: JobSet, name: str) -> list[tuple[str, str]]:
        """The ReplicatedJobs of the stages ahead of that of `name`, with what they have to be (executionPolicy)."""
        policy = js.spec.execution_policy
        if policy is None:
            return []
        state = {"Succeeded": "Complete"}.get(policy.replicated_jobs_status, policy.replicated_jobs_status)
        names = [r.name for r in js.spec.replicated_jobs]
        alone = len(names) if policy.sequential_replicated_jobs is None else policy.sequential_replicated_jobs
        return [(before, state) for before in names[: min(names.index(name), alone)]]

    def _is_previous(self, js: JobSet, job: Job) -> bool:
        attempt = integer(job.metadata.labels.get(keys.RESTART_ATTEMPT))
        return attempt is not None and attempt < js.status.restarts

    @staticmethod
    def _owned(job: Job, uid: str) -> bool:
        owner = job.metadata.controller()
        return owner is not None and owner.uid == uid

    def job_deleted(self, job: Job) -> None:
        """The set has ended or its suspension deletes Jobs, or this one is of an earlier attempt or an index too high."""
        owner = job.metadata.controller()
        name = job.metadata.name
        assert owner is not None and owner.kind == keys.KIND, f"{name} of somebody else is deleted"  # noqa: PT018 -- one thing
        view = self._of(owner.uid)
        js = self.spec_of()
        if js is None or js.metadata.uid != owner.uid:
            return
        place = self.places.get(job.metadata.uid)
        if place is None:
            attempt = integer(job.metadata.labels.get(keys.RESTART_ATTEMPT))
            old = attempt is not None and attempt < js.status.restarts
            assert js.status.terminal_state or old, f"{name}, which no plan made, is deleted"
            return
        high = self.gates["ElasticJobSet"] and place.index >= self.smallest[place.owner, place.replicated_job]
        old = (
            place.attempt < js.status.restarts or place.own < own_restarts(js.status, place) or place in self.completed
        )
        seen = view.jobs.get(name)
        assert seen is not None
        wanted = forest(view.jobset)
        leaf = None if wanted is None else wanted.of_job(name)
        misplaced = seen.spec.suspend and seen.spec.template.spec.pod_group != ("" if leaf is None else leaf.name)
        halted = (
            view.jobset.spec.suspend
            and deletes_jobs_on_suspend(view.jobset, self.gates)
            and seen.status.start_time is not None
        )
        nodeless = self.nodeless(job.metadata.uid) or halted
        assert js.status.terminal_state or old or high or misplaced or nodeless, f"{name} of this attempt is deleted"

    def job_patched(self, old: Job, new: Job) -> None:
        owner = old.metadata.controller()
        name = old.metadata.name
        assert owner is not None and owner.kind == keys.KIND, f"{name} of somebody else is patched"  # noqa: PT018 -- one thing
        view = self._of(owner.uid)
        assert old.metadata.uid in self.places, f"{name}, which no plan made, is patched"
        if old.spec.suspend != new.spec.suspend:
            assert new.spec.suspend == bool(view.jobset.spec.suspend), (
                f"{name} is patched to suspend={new.spec.suspend}"
            )
        place = self.places[old.metadata.uid]
        if old.spec.suspend and not new.spec.suspend:
            self._order_is_kept(view.jobset, place)
            self._tree_stands(view, new)

    def jobset_deleted(self, js: JobSet, now: datetime) -> None:
        view = self._of(js.metadata.uid)
        ttl = view.jobset.spec.ttl_seconds_after_finished
        ends = [c for c in js.status.conditions if c.type in {keys.COMPLETED, keys.FAILED} and c.status == "True"]
        assert ends, "a JobSet that has not finished is deleted"
        assert ttl is not None, "a JobSet without a time to live is deleted"
        age = (now - datetime.fromisoformat(ends[0].last_transition_time)).total_seconds()
        assert age >= ttl, f"a JobSet is deleted after {age} of {ttl} s"

    def status_written(self, js: JobSet, new: JobSetStatus, now: datetime) -> None:
        """`js` is what is stored: the write is conditional on it."""
        sized = self.sized(msgspec.structs.replace(js, status=new))
        self._ready_jobs(msgspec.structs.replace(sized, status=js.status), new)
        js = self.sized(js)
        self._of(js.metadata.uid)
        old = js.status
        restarted = new.restarts - old.restarts
        assert restarted in {0, 1}, "restarts jump"
        counted = new.restarts_count_towards_max - old.restarts_count_towards_max
        assert counted in {0, restarted}, "restartsCountTowardsMax does not fit restarts"
        assert new.restarts >= new.restarts_count_towards_max
        self._terminal(old, new)
        assert len(new.attempt_history) <= MAX_HISTORY, "the history is too long"
        before = -1 if old.execution_attempts is None else old.execution_attempts
        after = -1 if new.execution_attempts is None else new.execution_attempts
        assert before <= after <= before + 1 + restarted, f"executionAttempts goes from {before} to {after}"
        assert not restarted or after > before, "a restart is no execution attempt"
        names = [of.name for of in new.replicated_jobs_status]
        assert len(names) == len(set(names)), "an entry is there twice"
        self._budgets(js, new)
        self._steps(js, new)
        self._exit_codes_fit(js, new)
        self._deadline(js, new)
        self._recovery(js.metadata.uid, old, new, now)
        self._failed_nodes(js, new)
        self._in_place(js, new)
        moved = self._moved(js, new)
        counted = self._restarts_of_jobs(js, new)
        if restarted:
            by_agents = moved or self._in_another_size(js, new) or self._restarted_by_agents(js, new)
            assert by_agents or self.failed_in(js) - counted, "a restart without a failure that was not counted yet"
        else:
            self._completed_stays(js, new)


def _path(root: Group, leaf: Group) -> set[str]:
    """Names of the groups from the root to a leaf."""
    if root is leaf:
        return {root.name}
    below = [_path(child, leaf) for child in root.children if leaf in child.walk()]
    return {root.name, *below[0]}


def _serves(of: StoredGroup, jobs: list[Job]) -> bool:
    """Whether a group can have members: one in deletion only while pods of it run."""
    running = [job for job in jobs if not job.spec.suspend and job.metadata.deletion_timestamp is None]
    ends = of.metadata.deletion_timestamp is not None
    return not ends or any(job.spec.template.spec.pod_group == of.metadata.name for job in running)
