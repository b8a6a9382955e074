"""The action that the state of a JobSet requires of the agent in one pod: a pure function.

See docs/reference/in-place-restart.md#how-it-works.

It reads the JobSet as JSON, without clock, network and processes. Acting on an outdated JobSet is safe. An attempt that
has ended stays ended. If the barrier is lifted for an attempt that has just ended, the next state restarts the worker.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

DISABLE = "jobset.sigs.k8s.io/disable-in-place-restart"
PREVIOUS = "previousInPlaceRestartAttempt"
CURRENT = "currentInPlaceRestartAttempt"
TERMINAL = "terminalState"

NEEDED_KEYS = {
    *("metadata", "annotations", DISABLE, "spec", "failurePolicy", "restartStrategy"),
    *("status", PREVIOUS, CURRENT, TERMINAL),
    *("maintenance", "notice", "signal", "noticeTime"),
}
"""The keys of a JobSet that a decision needs, at whatever depth."""


class Action(enum.Enum):
    """The next thing that an agent has to do."""

    WAIT = "wait"
    REPORT = "report the attempt on the pod"
    LIFT = "lift the barrier"
    RESTART = "begin the next attempt"
    FAIL = "end as the failed worker did"


class Progress(NamedTuple):
    """The progress of this agent in its attempt.

    `attempt` is chosen once. A report whose answer was lost may have been counted, and a second report of a higher
    attempt would restart all workers. `failed`: the worker of the earlier attempt has failed, and the agent continues.
    """

    attempt: int | None = None
    reported: bool = False
    lifted: bool = False
    failed: bool = False


class Notice(NamedTuple):
    """The set is about to leave nodes. `time` identifies the notice; `signal`: a name such as SIGUSR1."""

    time: str
    signal: str


def open_notice(jobset: dict[str, Any] | None) -> Notice | None:
    """The notice that workers get now; None without a notice, or if the JobSet asks for no signal."""
    policy = ((jobset or {}).get("spec") or {}).get("failurePolicy") or {}
    signal = ((policy.get("maintenance") or {}).get("notice") or {}).get("signal")
    time = (((jobset or {}).get("status") or {}).get("maintenance") or {}).get("noticeTime")
    return Notice(time, signal) if time and signal else None


def attempt_to_join(jobset: dict[str, Any]) -> int:
    """The attempt that a pod reports if it has just started, or if its worker has failed."""
    current = _status(jobset, CURRENT)
    return 0 if current is None else current + 1


def attempt_after_restart(jobset: dict[str, Any]) -> int:
    """The attempt that a running pod reports after its own is over: the highest that any pod has reported."""
    previous = _status(jobset, PREVIOUS)
    return attempt_to_join(jobset) if previous is None else previous + 1


def decide(jobset: dict[str, Any] | None, progress: Progress) -> Action:
    """The next action of an agent with this progress. `jobset` is None if it does not exist (yet)."""
    if jobset is None:
        return Action.WAIT
    if progress.failed and (_is_bypassed(jobset) or (jobset.get("status") or {}).get(TERMINAL) == "Failed"):
        return Action.FAIL
    if _is_bypassed(jobset):
        return Action.WAIT if progress.lifted else Action.LIFT
    if progress.attempt is None or not progress.reported:
        return Action.REPORT
    previous = _status(jobset, PREVIOUS)
    if previous is not None and progress.attempt <= previous:
        return Action.RESTART
    return Action.LIFT if not progress.lifted and progress.attempt == _status(jobset, CURRENT) else Action.WAIT


def _is_bypassed(jobset: dict[str, Any]) -> bool:
    annotations = jobset.get("metadata", {}).get("annotations") or {}
    policy = (jobset.get("spec") or {}).get("failurePolicy") or {}
    return DISABLE in annotations or policy.get("restartStrategy") != "InPlaceRestart"


def _status(jobset: dict[str, Any], field: str) -> int | None:
    value: int | None = (jobset.get("status") or {}).get(field)
    return value
