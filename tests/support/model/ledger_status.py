"""What a status may become: the part of the ledger that judges writes of it. `Ledger` has what it looks at."""

from dataclasses import dataclass

from msgspec.structs import replace

from api import keys
from api.failure_actions import Scope, action_of
from api.indexes import parse_indexes
from api.jobset import JobSet
from api.jobset_status import JobSetStatus, ReplicatedJobStatus, RuleStep
from api.policies import OnExitCodes
from controllers.planning.escalation import GATE as ESCALATION
from controllers.planning.escalation import actions_of
from kube.model.meta import seconds_between

KNOWN = {
    keys.COMPLETED,
    keys.FAILED,
    keys.SUSPENDED,
    keys.RESTARTING,
    keys.STARTUP_IN_PROGRESS,
    keys.STARTUP_COMPLETED,
    keys.GROUPS_READY,
    keys.GROUPS_SCHEDULED,
}
MANY = 1024
"""No model set has so many Jobs."""


@dataclass(frozen=True, slots=True)
class Place:
    """Which run of which Job: `own` is its own restart counter, 0 without the gate."""

    owner: str
    replicated_job: str
    index: int
    attempt: int
    own: int


class StatusRules:
    """Rules about counters, budgets, restarts and what has completed."""

    def _terminal(self, old: JobSetStatus, new: JobSetStatus) -> None:
        assert not old.terminal_state or new.terminal_state == old.terminal_state, "a terminal state is left"
        if old.terminal_state:
            assert (new.restarts, new.execution_attempts) == (old.restarts, old.execution_attempts)
        types = [c.type for c in new.conditions]
        assert len(types) == len(set(types)), "a condition is there twice"
        assert set(types) <= KNOWN, f"unknown conditions {set(types) - KNOWN}"
        ends = [c for c in new.conditions if c.type in {keys.COMPLETED, keys.FAILED}]
        assert all(c.status == "True" for c in ends), "an end that is not true"
        assert [c.type for c in ends] == ([new.terminal_state] if new.terminal_state else []), "the end is not one"
        startup = {c.type for c in new.conditions if c.status == "True"}
        assert not {keys.STARTUP_IN_PROGRESS, keys.STARTUP_COMPLETED} <= startup
        self._newest_condition(new)

    def _newest_condition(self, new: JobSetStatus) -> None:
        """Clients may read the state from the True condition that changed last, of an end also the last in the list.

        Of a suspension another one may have changed in the same second, and a Job that fails meanwhile begins a restart.
        """
        true = {c.type: c for c in new.conditions if c.status == "True"}
        state = true.get(new.terminal_state or keys.SUSPENDED)
        if state is None or (not new.terminal_state and keys.RESTARTING in true):
            return
        newest = max(c.last_transition_time or "" for c in true.values())
        assert state.last_transition_time == newest, f"a condition is newer than {state.type}"
        last = [*true][-1]
        assert last == state.type or not new.terminal_state, f"{last} comes after {state.type}"

    def _ready_jobs(self, js: JobSet, new: JobSetStatus) -> None:
        done = sum(of.ready + of.succeeded for of in new.replicated_jobs_status)
        assert new.ready_jobs == f"{done}/{sum(r.replicas for r in js.spec.replicated_jobs)}"
        assert replace(new, ready_jobs=js.status.ready_jobs) != js.status, "a write for readyJobs alone"

    def _budgets(self, js: JobSet, new: JobSetStatus) -> None:
        """Restarts that are counted go up, each for a failure, and never beyond what is allowed."""
        policy = js.spec.failure_policy
        limits = {r.name: r.max_restarts for r in policy.rules} if policy else {}
        before, after = ({of.name: of.restarts for of in s.failure_policy_restarts} for s in (js.status, new))
        assert len(after) == len(new.failure_policy_restarts), "a rule is there twice"
        assert before.keys() <= after.keys() <= limits.keys(), f"rules {before.keys()} become {after.keys()}"
        for name, count in after.items():
            limit = limits[name]
            assert limit is not None, f"{name} has no limit and is counted"
            assert before.get(name, 0) <= count <= limit, (
                f"{name} goes from {before.get(name, 0)} to {count} of {limit}"
            )
        rise = sum(after.values()) - sum(before.values())
        assert rise <= len(self.failed_in(js)), f"{rise} restarts for {len(self.failed_in(js))} failures"
        most = policy.max_restarts if policy else 0
        assert self._used(new) <= max(most, self._used(js.status)), "more restarts than the set allows"

    def _steps(self, js: JobSet, new: JobSetStatus) -> None:
        """A rule goes up, one step at a time and for enough restarts, and does what its step says."""
        policy = js.spec.failure_policy
        rules = {r.name: r for r in policy.rules if r.then} if policy and self.gates[ESCALATION] else {}
        before, after = ({of.name: of for of in s.failure_policy_steps} for s in (js.status, new))
        assert len(after) == len(new.failure_policy_steps), "a rule is there twice"
        assert before.keys() <= after.keys() <= rules.keys(), f"rules {before.keys()} become {after.keys()}"
        for name, entry in after.items():
            rule, was = rules[name], before.get(name, RuleStep(name=name))
            if entry == was:
                continue
            assert entry.step in {was.step, was.step + 1}, f"{name} goes from step {was.step} to {entry.step}"
            assert entry.step <= len(rule.then) + 1
            action = actions_of(rule)[entry.step - 1]
            restarts = int(action.scope is not Scope.NOTHING) + (was.restarts if entry.step == was.step else 0)
            assert entry.restarts == restarts, f"{name} counts {entry.restarts} restarts after {was.restarts}"
            if entry.step > was.step:
                assert was.restarts >= rule.then[was.step - 1].after_restarts, f"{name} goes up after {was.restarts}"
            following = rule.then[entry.step - 1] if entry.step <= len(rule.then) else None
            if following is not None and following.within_seconds is None and entry.step == was.step:
                assert was.restarts < following.after_restarts, f"{name} stays after {was.restarts}"
            assert self.failed_in(js), f"{name} counts without a failure"
            named = new.last_restart is not None and new.last_restart.reason == f"FailurePolicy_{name}"
            if new.restarts > js.status.restarts and named:
                assert action.scope is Scope.JOBSET, f"{name} restarts the set by {action.name}"

    def _used(self, status: JobSetStatus) -> int:
        alone = sum(sum(of.job_restarts_count_towards_max) for of in status.replicated_jobs_status)
        return status.restarts_count_towards_max + (alone if self.gates["RestartJob"] else 0)

    def _deadline(self, js: JobSet, new: JobSetStatus) -> None:
        """The time begins with an attempt, ends with a suspension, and nothing but success comes when it is over."""
        old, seconds = js.status, js.spec.active_deadline_seconds
        if seconds is None or not self.gates["JobSetActiveDeadlineSeconds"]:
            assert new.start_time == old.start_time == "", "a start that nobody asked for"
            return
        if old.terminal_state:
            assert new.start_time == old.start_time, "the start changes after the end"
            return
        before, after = ((-1 if s.execution_attempts is None else s.execution_attempts) for s in (old, new))
        ended, restarted = bool(new.terminal_state), new.restarts > old.restarts
        if js.spec.suspend:
            assert new.start_time == "", "time runs while the set is suspended"
        else:
            assert new.start_time, "no time runs"
            assert new.start_time == old.start_time or not old.start_time or after > before, "the time begins again"
        if restarted and new.last_restart and not js.spec.suspend:
            assert new.start_time == new.last_restart.start_time, "a restart does not begin the time again"
        moments = [c.last_transition_time for c in new.conditions if c.type == keys.FAILED] if ended else []
        if restarted and new.last_restart and after == before + 1:
            moments = [new.last_restart.start_time]
        too_late = bool(old.start_time) and any(seconds_between(old.start_time, at) >= seconds for at in moments)
        exceeded = ended and any(c.reason == "DeadlineExceeded" for c in new.conditions if c.type == keys.FAILED)
        assert exceeded == (too_late and not js.spec.suspend), f"failed or restarted at {moments} of {old.start_time}"

    def _exit_codes_fit(self, js: JobSet, new: JobSetStatus) -> None:
        """A rule that ends or restarts the set by exit code is right about one of the failed Jobs."""
        rules = js.spec.failure_policy.rules if js.spec.failure_policy else ()
        if new.restarts > js.status.restarts and new.last_restart:
            rules = tuple(r for r in rules if new.last_restart.reason == f"FailurePolicy_{r.name}")
        else:
            reasons = {c.reason for c in new.conditions if c.type == keys.FAILED and not js.status.terminal_state}
            rules = tuple(r for r in rules if any(f"{a.name}FailurePolicyAction" in reasons for a in actions_of(r)))
            of_nodes = js.spec.failure_policy.node_failure if js.spec.failure_policy else None
            if of_nodes and f"{of_nodes.action}FailurePolicyAction" in reasons and self.failed_in(js) & self.lost():
                return  # a node's failure may have the action of a rule, and decides without a code
        fit = (r.on_exit_codes is None or self._ended_so(js, r.on_exit_codes) for r in rules)
        assert not rules or any(fit), f"{[r.name for r in rules]} decide for another exit code"

    def _ended_so(self, js: JobSet, on: OnExitCodes) -> bool:
        known = (self.failed_in(js) & self.codes.keys()) - self.too_late
        return any((self.codes[uid] in on.values) == (on.operator == "In") for uid in known)

    def _restarts_of_jobs(self, js: JobSet, new: JobSetStatus) -> set[str]:
        """Counters of single Jobs go up by one, each for a failure of its own, or all of a ReplicatedJob's for one of
        them. Gives the Jobs that were counted."""
        counted: set[str] = set()
        for of in new.replicated_jobs_status:
            before = entry_of(js.status, of.name)
            failed = {uid for uid in self.failed_in(js) if self.places[uid].replicated_job == of.name}
            own = {self.places[uid].index for uid in failed}
            rises = _rises(before.job_restarts if before else (), of.job_restarts)
            costs = _rises(before.job_restarts_count_towards_max if before else (), of.job_restarts_count_towards_max)
            whole = bool(own) and _restarted_whole(js, before, of)
            most = 2 if whole else 1
            assert set(rises) <= set(range(most + 1)), f"restarts of {of.name} change by {rises}"
            assert set(costs) <= {0, 1}, f"counted restarts of {of.name} change by {costs}"
            bumped = {index for index, rise in enumerate(rises) if rise}
            assert whole or bumped <= own, (
                f"{of.name} {bumped - own} restart without a failure that was not counted yet"
            )
            paid = {index for index, cost in enumerate(costs) if cost}
            assert paid <= bumped & own, f"{of.name} {paid} are paid for, {bumped & own} have failed and restart"
            if bumped - own:
                self.floors[js.metadata.uid, of.name, js.status.restarts] = of.job_restarts
            counted |= failed if whole else {uid for uid in failed if self.places[uid].index in bumped}
        return counted

    def failed_in(self, js: JobSet) -> set[str]:
        """Failed Jobs of the current attempt that nothing was counted for."""
        return {
            uid
            for uid in self.failed | ((self.lost() | self.late) & self.places.keys())
            if (at := self.places[uid]).owner == js.metadata.uid
            and at.attempt == js.status.restarts
            and at.own >= own_restarts(js.status, at)
        }

    def _completed_stays(self, js: JobSet, new: JobSetStatus) -> None:
        """What completed stays so for the attempt, and nothing else is said to have."""
        for rjob in js.spec.replicated_jobs:
            before, after = entry_of(js.status, rjob.name), entry_of(new, rjob.name)
            if after is None:
                assert before is None, f"the entry of {rjob.name} is gone"
                continue
            was = parse_indexes(before.completed_indexes, rjob.replicas) if before else frozenset()
            now = parse_indexes(after.completed_indexes, MANY)
            forgets = sorted(was - now)
            assert not forgets or _restarted_whole(js, before, after), f"{rjob.name} forgets that {forgets} completed"
            truth = {
                at.index
                for at in self.completed
                if (at.owner, at.replicated_job, at.attempt) == (js.metadata.uid, rjob.name, new.restarts)
                and at.own >= _at(self.floors.get((at.owner, at.replicated_job, at.attempt), ()), at.index)
            }
            assert now <= truth, f"{rjob.name} says that {sorted(now - truth)} completed"
            assert after.succeeded == len(now), f"{rjob.name} counts {after.succeeded} and names {sorted(now)}"
            if before is not None and before.started and not js.spec.suspend:
                assert after.started, f"{rjob.name} has not started any more"
            if before is not None and before.released and not js.spec.suspend:
                assert after.released, f"{rjob.name} is not released any more"
            left = max(rjob.replicas - len(now), 0) if js.spec.execution_policy else None
            assert after.remaining == left, f"{rjob.name}: {after.remaining} remain of {rjob.replicas}, done are {now}"


def entry_of(status: JobSetStatus, name: str) -> ReplicatedJobStatus | None:
    return next((of for of in status.replicated_jobs_status if of.name == name), None)


def _rises(old: tuple[int, ...], new: tuple[int, ...]) -> list[int]:
    """By how much counters went up, by index."""
    return [_at(new, index) - _at(old, index) for index in range(max(len(old), len(new)))]


def _restarted_whole(js: JobSet, before: ReplicatedJobStatus | None, after: ReplicatedJobStatus) -> bool:
    """Whether all Jobs of a ReplicatedJob were restarted at once, and some rule may do so."""
    policy = js.spec.failure_policy
    rules, of_nodes = ((), None) if policy is None else (policy.rules, policy.node_failure)
    actions = [action for rule in rules for action in actions_of(rule)]
    actions += [] if of_nodes is None else [action_of(of_nodes.action)]
    rises = _rises(before.job_restarts if before else (), after.job_restarts)
    replicas = next(r.replicas for r in js.spec.replicated_jobs if r.name == after.name)
    allowed = any(action.restarts_part and action.scope is not Scope.JOB for action in actions)
    return allowed and len(rises) >= replicas and all(rises)


def own_restarts(status: JobSetStatus, place: Place) -> int:
    of = entry_of(status, place.replicated_job)
    return _at(of.job_restarts, place.index) if of else 0


def _at(values: tuple[int, ...], index: int) -> int:
    return values[index] if index < len(values) else 0
