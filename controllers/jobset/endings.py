"""Counts JobSets that end, for metrics: completions, failures, exceeded deadlines.

An attempt is the run of a set between two restarts. This module also counts the attempts that end because pods do not
run in time or because of a node, and the seconds that sets ran, or should have run.
"""

from collections.abc import Sequence
from typing import Protocol

from api import keys
from api.jobset import JobSet
from api.jobset_status import FailedAttempt
from api.recovery_times import Recovery
from controllers.jobset.memory import Memories
from controllers.planning.finished import EXCEEDED
from controllers.planning.node_failure import REASON as NODE_FAILURE
from controllers.planning.start_timeout import REASON as START_TIMEOUT
from kube.controller import Request
from kube.model.meta import find


class Outcomes(Protocol):
    """Receives what is counted. `state`: the terminal state of a JobSet, Completed or Failed."""

    def on_end(self, namespace: str, name: str, state: str) -> None: ...
    def deadline_exceeded(self, namespace: str, name: str) -> None: ...
    def start_timed_out(self, namespace: str, name: str) -> None: ...
    def node_failed(self) -> None: ...
    def on_seconds(self, running: int, lost: int) -> None: ...
    def forget(self, namespace: str, name: str) -> None: ...


class Endings:
    """Counts each JobSet that ends while this process reconciles.

    See docs/reference/metrics.md#jobsets, and defect 10 in docs/reference/defects.md.

    A JobSet counts when the watch shows it finished after the watch had shown the same UID unfinished. An attempt
    counts when the watch shows it in the attempt history of the status after it had shown a history without it. The
    `old` of `on_event` may be the answer to a write, so the last status that the watch has shown is remembered instead.

    A JobSet that ended before this process first saw it was counted by another process. A JobSet that ended and was
    deleted is not counted if the watch missed both events.
    """

    def __init__(self, outcomes: Outcomes, memories: Memories) -> None:
        self._outcomes = outcomes
        self._memories = memories

    def on_event(self, _kind: object, old: JobSet | None, new: JobSet | None) -> None:
        """Handle a change of a JobSet. Register it when the lease is won, before the first reconcile."""
        if new is not None:
            if new.is_ours:
                self._count_changes(new)
        elif old is not None:
            meta = old.metadata
            self._memories.forget(Request(meta.namespace, meta.name), meta.uid)
            self._outcomes.forget(meta.namespace, meta.name)

    def _count_changes(self, js: JobSet) -> None:
        meta, status = js.metadata, js.status
        memory = self._memories.get_or_create(Request(meta.namespace, meta.name), meta.uid)
        old_status, memory.watched_status = memory.watched_status, status
        if old_status is None:
            return
        if status.terminal_state and not old_status.terminal_state:
            self._outcomes.on_end(meta.namespace, meta.name, status.terminal_state)
            failed = find(status.conditions, keys.FAILED)
            if failed is not None and failed.reason == EXCEEDED:
                self._outcomes.deadline_exceeded(meta.namespace, meta.name)
        self._count_attempts(js, old_status.attempt_history)
        self._count_seconds(old_status.recovery, status.recovery)

    def _count_attempts(self, js: JobSet, old_history: Sequence[FailedAttempt]) -> None:
        for attempt in js.status.attempt_history:
            if attempt in old_history:
                continue
            if attempt.message.startswith(f"{START_TIMEOUT}: "):
                self._outcomes.start_timed_out(js.metadata.namespace, js.metadata.name)
            elif attempt.message.startswith(f"{NODE_FAILURE}: "):
                self._outcomes.node_failed()

    def _count_seconds(self, old: Recovery | None, new: Recovery | None) -> None:
        """Count the seconds by which `new` exceeds `old`. If `old` is None, an earlier process has counted them."""
        if old is None or new is None or old is new:
            return
        running, lost = new.running_seconds - old.running_seconds, new.lost_seconds - old.lost_seconds
        self._outcomes.on_seconds(max(running, 0), max(lost, 0))
