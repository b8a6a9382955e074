"""Counts JobSets that end (metrics jobset_completed_total, jobset_failed_total and that of exceeded deadlines).

Attempts that end because pods do not run in time are counted, too.
"""

from typing import Protocol

from api import keys
from api.jobset import JobSet
from api.meta import find
from controllers.jobset.memory import Memories
from controllers.planning.deadline import EXCEEDED
from controllers.planning.start_timeout import REASON as START_TIMEOUT
from kube.controller import Request


class Outcomes(Protocol):
    """Counts finished JobSets. `state` is the terminal state: Completed or Failed."""

    def finished(self, namespace: str, name: str, state: str) -> None: ...
    def deadline_exceeded(self, namespace: str, name: str) -> None: ...
    def start_timed_out(self, namespace: str, name: str) -> None: ...
    def forget(self, namespace: str, name: str) -> None: ...


class Endings:
    """Counts each JobSet that ends while this process reconciles.

    See docs/reference/metrics.md#jobsets, and defect 10 in docs/reference/defects.md.

    A JobSet counts when the watch shows it finished after it had shown the same UID unfinished. That holds whether the
    answer to the write arrived or not, however often the write was tried, and whatever overlays the store had: handlers
    do not get overlays. A JobSet that is finished when first seen ended under another process. One that ended and was
    deleted while the watch had lost both events is not counted.
    """

    def __init__(self, outcomes: Outcomes, memories: Memories) -> None:
        self._outcomes = outcomes
        self._memories = memories

    def on_event(self, _kind: object, old: JobSet | None, new: JobSet | None) -> None:
        """A `kube.informer.Handler`. Register it when the lease is won and before the first reconcile."""
        if new is not None:
            self._saw(new)
            if old is not None and old.status.attempt_history != new.status.attempt_history:
                self._attempts_ended(old, new)
        elif old is not None:
            meta = old.metadata
            self._memories.forget(Request(meta.namespace, meta.name), meta.uid)
            self._outcomes.forget(meta.namespace, meta.name)

    def _saw(self, js: JobSet) -> None:
        meta, state = js.metadata, js.status.terminal_state
        if not js.is_ours:
            return
        memory = self._memories.get_or_create(Request(meta.namespace, meta.name), meta.uid)
        if state and memory.unfinished:
            self._outcomes.finished(meta.namespace, meta.name, state)
            failed = find(js.status.conditions, keys.FAILED)
            if failed is not None and failed.reason == EXCEEDED:
                self._outcomes.deadline_exceeded(meta.namespace, meta.name)
        memory.unfinished = not state

    def _attempts_ended(self, old: JobSet, new: JobSet) -> None:
        """Both states come from the watch, so an attempt is new in one of them only."""
        if old.metadata.uid != new.metadata.uid or not new.is_ours:
            return
        for attempt in new.status.attempt_history:
            if attempt not in old.status.attempt_history and attempt.message.startswith(f"{START_TIMEOUT}: "):
                self._outcomes.start_timed_out(new.metadata.namespace, new.metadata.name)
