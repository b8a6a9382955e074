"""Watches the JobSet, calls `act` with each action that is due, and reports attempts in annotations of the pod.

Each round lists the JobSet, reports the attempt, then watches from the resourceVersion of the list. So no decision is
made before the report is stored, and no change in between is missed. The list never comes from a cache: with an attempt
chosen from an outdated state, this worker would start alone. Any error leads back to the list.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from agent.api import JSON, Api, ApiError
from agent.decision import Action, Notice, Progress, attempt_after_restart, attempt_to_join, decide, open_notice

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0


class Continuation(NamedTuple):
    """What an agent needs to begin the next attempt in the same container.

    - `end_worker` returns once no process of the worker is left.
    - `api` is a second connection for the report, because the watch uses the first connection.
    """

    end_worker: Callable[[], None]
    api: Api


class JobSetWatcher:
    """One agent's view of its JobSet. `act` gets LIFT (let the worker start) and, at the end, RESTART or FAIL.

    With `continuation`, the watcher ends the worker and reports the next attempt, and `act` gets no RESTART. `notify`
    gets the open maintenance notice, or None, for each new state of the JobSet that does not end the attempt.
    """

    def __init__(
        self,
        api: Api,
        act: Callable[[Action], None],
        sleep: Callable[[float], None] = time.sleep,
        continuation: Continuation | None = None,
        notify: Callable[[Notice | None], None] = lambda _: None,
    ) -> None:
        self.progress = Progress()
        self._api = api
        self._act = act
        self._sleep = sleep
        self._continuation = continuation
        self._notify = notify
        self._pause = FIRST_PAUSE
        self._is_over = False
        self._requested_failure = ""  # `report_failure` sets it in another thread, and `run` takes it over
        self._failure_to_report = ""

    def report_failure(self, failure: str) -> None:
        """Request a report of the next attempt and of the worker's failure. Another thread calls this.

        `act` gets FAIL instead if the API server refuses the report, if restarts in place are off, or if the JobSet has
        failed. Then the exit code of the container shows the failure.
        """
        self._requested_failure = failure
        self._api.interrupt()

    def run(self) -> None:
        """Follow the JobSet until this attempt is over.

        Errors are logged and retried, with pauses that double up to a limit.
        """
        while not self._is_over:
            try:
                self._list_report_and_watch()
            except ApiError as error:
                if self._requested_failure:
                    continue
                wait = max(_random_pause(self._pause), min(error.pause, LONGEST_PAUSE))
                say(f"{error}; trying again in {wait:.1f} s")
                self._sleep(wait)
                self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def _list_report_and_watch(self) -> None:
        """List, report and watch until the first error, the end of the attempt, or a report that is due again."""
        if self._requested_failure:
            self._failure_to_report, self._requested_failure = self._requested_failure, ""
            self.progress = Progress(failed=True)
        jobset = self._api.read_jobset()
        if jobset is not None and decide(jobset, self.progress) is Action.REPORT:
            self._report(self._api, attempt_to_join(jobset))
        self._pause = FIRST_PAUSE
        due_action = self._act_on(jobset)
        while due_action is Action.WAIT:
            due_action = self._watch()

    def _report(self, api: Api, attempt: int) -> None:
        """Report `attempt`, or the attempt that an earlier round has chosen, if any."""
        if self.progress.attempt is None:
            self.progress = self.progress._replace(attempt=attempt)
        try:
            api.report(self.progress.attempt or 0, self._failure_to_report)
        except ApiError as error:
            if not (error.forbidden and self._failure_to_report):
                raise
            say(f"{error}; ending with the worker's exit code")
            self._end(Action.FAIL)
            return
        self.progress = self.progress._replace(reported=True)
        say(f"reported attempt {self.progress.attempt}")

    def _watch(self) -> Action:
        has_events = False
        for jobset in self._api.watch(lambda: not self._requested_failure):
            has_events = True
            due_action = self._act_on(jobset)
            if due_action is not Action.WAIT:
                return due_action
        if not has_events:  # no tight loop if a server ends watches at once
            self._sleep(_random_pause(FIRST_PAUSE))
        return Action.WAIT

    def _act_on(self, jobset: JSON | None) -> Action:
        """Act on one state of the JobSet. Returns REPORT, RESTART or FAIL if this round is over, else WAIT."""
        action = Action.FAIL if self._is_over else decide(jobset, self.progress)
        if action is not Action.RESTART:  # how the worker is ended depends on whether it has acknowledged the notice
            self._notify(open_notice(jobset))
        if action is Action.LIFT:
            self.progress, self._failure_to_report = self.progress._replace(lifted=True, failed=False), ""
            self._act(action)
            return Action.WAIT
        if action is Action.RESTART and jobset is not None and self._continuation is not None:
            self._continuation.end_worker()
            # The worker may have failed meanwhile.
            self._failure_to_report, self._requested_failure = self._requested_failure, ""
            self.progress = Progress(failed=self.progress.failed or bool(self._failure_to_report))
            # Higher than any attempt that this pod has reported, so an old state of the JobSet is harmless here.
            with closing(self._continuation.api) as api:
                self._report(api, attempt_after_restart(jobset))
            return Action.WAIT
        if action in {Action.RESTART, Action.FAIL} and not self._is_over:
            self._end(action)
        return action

    def _end(self, action: Action) -> None:
        self._is_over = True
        self._act(action)


def say(text: str) -> None:
    """Write one line for `kubectl logs`, in one write, so that lines of threads do not mix."""
    sys.stderr.write(f"in-place-restart-agent: {text}\n")
    sys.stderr.flush()


def _random_pause(seconds: float) -> float:
    return random.uniform(seconds / 2, seconds)  # noqa: S311 - keeps agents apart, protects nothing
