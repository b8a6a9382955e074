"""Writes what the failure policy has decided into the status of a JobSet.

The failure policy decides for each failed Job whether the set fails, or how much of the set restarts: one Job, its
ReplicatedJob, or the whole set. A restart raises counters in the status, and later steps create the Jobs again.
`attemptHistory` in the status tells how attempts ended; an attempt is the time between two restarts of the set. See
docs/reference/failure-policy.md#failure-policy.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import assert_never

import msgspec

from api.failure_actions import FailureAction, Scope
from api.jobset_status import FailedAttempt, ReplicatedJobStatus, RuleRestarts
from api.policies import FailurePolicyRule
from controllers.planning import escalation
from controllers.planning.attempts import (
    REACHED,
    entry_of_next_attempt,
    fail_set,
    kept_fields,
    record_failure,
    restart_set,
)
from controllers.planning.child_jobs import Child
from controllers.planning.decisive_pod import FailedContainer
from controllers.planning.status import StatusDraft

MAX_REASON_BYTES = 256
"""At most this many bytes of a kubelet's reason in the attempt history."""
MAX_MESSAGE_BYTES = 1024
"""At most this many bytes of a message in the attempt history."""


@dataclass(slots=True)
class _PartRestart:
    """The Jobs that one plan restarts in one ReplicatedJob, while the rest of the set runs on (gate RestartJob).

    - `replicas`: how many Jobs the ReplicatedJob has.
    - `job_indexes`: indexes of failed Jobs that restart alone. `has_all_jobs`: all Jobs of the ReplicatedJob restart.
    - `counted_indexes`: indexes of failed Jobs whose restart, alone or with all Jobs, counts towards maxRestarts.
    """

    replicas: int
    job_indexes: list[int] = field(default_factory=list)
    counted_indexes: list[int] = field(default_factory=list)
    has_all_jobs: bool = False


class Record:
    """Writes the decisions of one plan about failures into the draft of the status.

    A restart of the whole set is written at once. Restarts of parts of the set (single Jobs, or all Jobs of one
    ReplicatedJob) are collected, and `restart_parts` writes all of them.
    """

    def __init__(self, draft: StatusDraft) -> None:
        self._draft = draft
        self._attempt = draft.status.execution_attempts or 0
        self._parts: dict[str, _PartRestart] = {}
        self._counted_rules: set[str] = set()
        """Names of the rules whose step was counted in this plan."""

    @property
    def newly_counted_part_restarts(self) -> int:
        """How many restarts of parts of the set in this plan count towards maxRestarts."""
        return sum(len(part.counted_indexes) for part in self._parts.values())

    def take_step(self, rule: FailurePolicyRule, step: int) -> None:
        """Record that a rule applies its action number `step`, once for all failures of one plan.

        A rule has several actions if it has `then` (see `escalation`).
        """
        if rule.name not in self._counted_rules:
            self._counted_rules.add(rule.name)
            escalation.record_step(self._draft, rule, step)

    def restart(
        self, rule: FailurePolicyRule | None, action: FailureAction, child: Child, replicas: int, message: str
    ) -> str:
        """Restart the Job, its ReplicatedJob or the whole set, whichever the action says.

        Returns the reason of the restart of the whole set; "" if only a part of the set restarts. `rule`: the rule that
        matches the failed Job, None for the default action. `replicas`: the number of Jobs in the ReplicatedJob of the
        failed Job.
        """
        reason = ""
        if rule and rule.max_restarts is not None:
            _count_rule(self._draft, rule.name)
        match action.scope:
            case Scope.JOB | Scope.REPLICATED_JOB:
                part = self._parts.setdefault(child.replicated_job, _PartRestart(replicas))
                if action.scope is Scope.JOB:
                    part.job_indexes.append(child.job_index)
                else:
                    part.has_all_jobs = True
                if action.counts_restarts:
                    part.counted_indexes.append(child.job_index)
            case Scope.JOBSET:
                reason = f"FailurePolicy_{rule.name}" if rule else "DefaultFailurePolicy"
                restart_set(self._draft, reason, message, counts=action.counts_restarts)
            case Scope.NOTHING:
                raise AssertionError(f"{action.name} restarts nothing")
            case other:
                assert_never(other)
        self._draft.add_event("Warning", f"{action.name}FailurePolicyAction", message)
        return reason

    def fail_set(self, reason: str, message: str) -> None:
        """Set the condition Failed of the set."""
        fail_set(self._draft, reason, message)

    def record_attempt(self, reason: str, child: Child, pod: FailedContainer, step: int | None) -> None:
        """Add the attempt that this failure ends to the history.

        `step`: the number of the rule's action, None if the rule has only one.
        """
        failure = child.job.failure
        message = f"{failure.reason}: {failure.message}" if failure else ""
        attempt = FailedAttempt(
            attempt=self._attempt,
            reason=reason,
            message=message.encode()[:MAX_MESSAGE_BYTES].decode(errors="ignore"),
            failed_job=child.name,
            pod=pod.pod,
            node=pod.node,
            container=pod.container,
            exit_code=pod.exit_code,
            pod_reason=pod.kubelet_reason.encode()[:MAX_REASON_BYTES].decode(errors="ignore"),
            termination_message=pod.message,
            step=step,
        )
        record_failure(self._draft, attempt)

    def restart_parts(self) -> None:
        """Raise the counters of the Jobs in the collected restarts of parts of the set."""
        if self._parts:
            _restart_parts(self._draft, self._parts)


def _restart_parts(draft: StatusDraft, parts: Mapping[str, _PartRestart]) -> None:
    """Raise the counters of the Jobs that restart. `parts`: by name of the ReplicatedJob.

    Only ReplicatedJobs with a failed Job are in `parts`. The targets of a rule say whose failures the rule matches, and
    not which ReplicatedJobs restart.

    A restart of all Jobs of a ReplicatedJob, including completed Jobs, counts once towards maxRestarts, like a restart
    of the failed Job alone. The restart also raises the counters of indexes that an elastic set no longer has. If the
    set grows again, a Job that still exists at such an index then belongs to an earlier attempt.
    """

    def restart(stored: ReplicatedJobStatus) -> ReplicatedJobStatus:
        part, new_entry, indexes_of_all = parts[stored.name], stored, range(0)
        if part.has_all_jobs:
            indexes_of_all = range(max(part.replicas, len(stored.job_restarts)))
            new_entry = msgspec.structs.replace(entry_of_next_attempt(stored), **kept_fields(REACHED, stored))
        towards_max = stored.job_restarts_count_towards_max
        return msgspec.structs.replace(
            new_entry,
            job_restarts=raise_counters(stored.job_restarts, part.replicas, chain(part.job_indexes, indexes_of_all)),
            job_restarts_count_towards_max=raise_counters(towards_max, part.replicas, part.counted_indexes)
            if part.counted_indexes
            else towards_max,
        )

    draft.update_replicated_jobs(parts.keys(), restart)


def _count_rule(draft: StatusDraft, name: str) -> None:
    """Count a restart by the rule of this name, which has its own maxRestarts."""
    entries = draft.status.failure_policy_restarts
    if all(entry.name != name for entry in entries):
        entries = (*entries, RuleRestarts(name=name))
    draft.update(
        failure_policy_restarts=tuple(
            msgspec.structs.replace(entry, restarts=entry.restarts + 1) if entry.name == name else entry
            for entry in entries
        )
    )


def raise_counters(counters: tuple[int, ...], replicas: int, indexes: Iterable[int]) -> tuple[int, ...]:
    """The counters by job index, with zeros appended for up to `replicas` Jobs, and one added at each of `indexes`."""
    extended = [*counters, *(0,) * (replicas - len(counters))]
    for index in indexes:
        extended[index] += 1
    return tuple(extended)
