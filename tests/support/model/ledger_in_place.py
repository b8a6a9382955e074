"""What agents have reported, and what may be made of it: the part of the ledger that judges restarts in place."""

from api import keys
from api.jobset import JobSet
from api.jobset_status import JobSetStatus
from api.restart_agent import jobs_without_agent
from controllers.planning.escalation import GATE as ESCALATION

TOO_MANY = "jobset failed due to reaching max number of restarts"
"""The message when no Job has failed."""
BY_AGENTS = {"InPlaceRestartImpossible", "InPlaceRestartsUsedUp"}
"""Reasons of restarts for which no Job has failed."""


class InPlaceRules:
    """No attempt is released before all have reported it, none is taken back, and each counts once."""

    def _in_place(self, js: JobSet, new: JobSetStatus) -> None:
        old = js.status
        before = old.previous_in_place_restart_attempt, old.current_in_place_restart_attempt
        after = new.previous_in_place_restart_attempt, new.current_in_place_restart_attempt
        policy = js.spec.failure_policy
        if not (policy and js.restarts_in_place and self.gates["InPlaceRestart"]):
            assert after == before, "attempts in place that nobody asked for"
            return
        for was, now in zip(before, after, strict=True):
            assert was is None or (now is not None and now >= was), f"{before} become {after}"
        previous, current = after
        reported = self._reported(js)
        if previous != before[0]:
            asked = previous is not None and previous + 1 in reported
            lost = any(self._of_attempt(uid, js) for uid in self.lost())
            replaced = previous == before[1] and (lost or self.newly_left(old, new))
            assert asked or replaced, f"{previous} is over, reported are {reported}, and no pod is replaced"
        if current != before[1]:
            assert current is not None
            self._all_have_reported(js, current)
            assert current - free(new) <= policy.max_restarts, (
                f"{current} is released, {policy.max_restarts} are allowed"
            )
        ends = {c.type: c for c in new.conditions if c.type == keys.FAILED}
        if not old.terminal_state and keys.FAILED in ends and ends[keys.FAILED].message == TOO_MANY:
            most = max(self._containers_restarted(js), max(reported, default=0) - free(old))
            used_up = self._used(old) >= policy.max_restarts and self._asked_for(js)
            assert most > policy.max_restarts or used_up, (
                f"the set fails after {most} of {policy.max_restarts} restarts"
            )

    def _all_have_reported(self, js: JobSet, attempt: int) -> None:
        """Every pod that waits at the barrier, or one in whose place it is, has reported the attempt."""
        early = jobs_without_agent(js)
        there = {
            (at.replicated_job, at.index)
            for uid, attempts in self.reports.items()
            if attempt in attempts and self._of_attempt(uid, js)
            for at in (self.places[uid],)
        }
        wanted = {
            (of.name, index) for of in js.spec.replicated_jobs if of.name not in early for index in range(of.replicas)
        }
        assert wanted <= there, f"attempt {attempt} is released before {sorted(wanted - there)} report it"

    def _of_attempt(self, uid: str, js: JobSet) -> bool:
        at = self.places.get(uid)
        return at is not None and (at.owner, at.attempt) == (js.metadata.uid, js.status.restarts)

    def _reported(self, js: JobSet) -> set[int]:
        """All attempts that pods of the current attempt of the set have reported."""
        return {attempt for uid, attempts in self.reports.items() if self._of_attempt(uid, js) for attempt in attempts}

    def _asked_for(self, js: JobSet) -> bool:
        """Whether a pod has asked for an attempt after the one that runs."""
        return max(self._reported(js), default=0) > (js.status.current_in_place_restart_attempt or 0)

    def _containers_restarted(self, js: JobSet) -> int:
        return max((times for uid, times in self.containers.items() if self._of_attempt(uid, js)), default=0)

    def _restarted_by_agents(self, js: JobSet, new: JobSetStatus) -> bool:
        """Whether the set is created again because agents ask for what is not possible, or not allowed any more."""
        if new.last_restart is None or new.last_restart.reason not in BY_AGENTS:
            return False
        policy, highest = js.spec.failure_policy, max(self._reported(js), default=0)
        assert policy and js.restarts_in_place and self.gates["InPlaceRestart"]  # noqa: PT018 -- one thing
        assert self._asked_for(js), f"the set restarts, attempt {highest} was reported last"
        if new.last_restart.reason == "InPlaceRestartsUsedUp":
            most = policy.in_place_restarts
            assert most is not None and self.gates[ESCALATION], "a limit that nobody asked for"  # noqa: PT018 -- one thing
            assert highest - free(js.status) - js.status.restarts_count_towards_max > most
        return True


def free(status: JobSetStatus) -> int:
    """Attempts that cost nothing: resumes, and restarts of the set that do not count."""
    ignored = status.restarts - status.restarts_count_towards_max
    return ignored + max(0, (status.execution_attempts or status.restarts) - status.restarts)
