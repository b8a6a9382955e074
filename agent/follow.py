"""Watches the JobSet and reports due actions. It only writes the annotation of the pod.

The order of one round makes it safe: list (never from a cache: an attempt chosen from an old state would let this
worker start alone), report, then watch from the version of the list. So no decision is made before the report is
stored, and nothing that happens meanwhile is missed. Any error leads back to the list.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from agent.api import JSON, Api, ApiError
from agent.decision import Action, Notice, Own, decide, following_attempt, next_attempt, open_notice

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0


class NextAttempt(NamedTuple):
    """How an agent continues after its attempt without a restart of its container.

    `end_worker` returns once no process of the worker is left. `api` is a second connection, for the report: the
    first one is used by the watch.
    """

    end_worker: Callable[[], None]
    api: Api


class JobSetWatcher:
    """One agent's view of its JobSet. `act` gets LIFT, RESTART and FAIL when they are due; RESTART and FAIL come last.

    With `following` there is no RESTART: it ends the worker, and reports the next attempt. For each new state of the
    JobSet, unless it ends the attempt, `notify` is called with the open maintenance notice, or None.
    """

    def __init__(
        self,
        api: Api,
        act: Callable[[Action], None],
        sleep: Callable[[float], None] = time.sleep,
        following: NextAttempt | None = None,
        notify: Callable[[Notice | None], None] = lambda _: None,
    ) -> None:
        self.own = Own()
        self._api = api
        self._act = act
        self._sleep = sleep
        self._following = following
        self._notify = notify
        self._pause = FIRST_PAUSE
        self._over = False
        self._new_failure = ""
        self._failure = ""

    def report_failure(self, failure: str) -> None:
        """Request a report of the next attempt and of the worker's failure; for another thread.

        FAIL follows instead if the API server refuses that, or if the end of the container has to report it.
        """
        self._new_failure = failure
        self._api.interrupt()

    def run(self) -> None:
        """Follow the JobSet until this attempt is over.

        Errors are logged and retried, with pauses that double up to a limit.
        """
        while not self._over:
            try:
                self._round()
            except ApiError as error:
                if self._new_failure:
                    continue
                wait = max(_somewhat_less(self._pause), min(error.pause, LONGEST_PAUSE))
                say(f"{error}; trying again in {wait:.1f} s")
                self._sleep(wait)
                self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def _round(self) -> None:
        """List, report and watch until the first error, the end of the attempt, or a report that is due again."""
        if self._new_failure:
            self._failure, self._new_failure, self.own = self._new_failure, "", Own(failed=True)
        jobset = self._api.list()
        if jobset is not None and decide(jobset, self.own) is Action.REPORT:
            self._report(self._api, next_attempt(jobset))
        self._pause = FIRST_PAUSE
        due = self._settle(jobset)
        while due is Action.WAIT:
            due = self._watch()

    def _report(self, api: Api, attempt: int) -> None:
        """Report the attempt; one that was chosen earlier takes precedence."""
        if self.own.attempt is None:
            self.own = self.own._replace(attempt=attempt)
        try:
            api.report(self.own.attempt or 0, self._failure)
        except ApiError as error:
            if not (error.forbidden and self._failure):
                raise
            say(f"{error}; ending with the worker's exit code")
            self._end(Action.FAIL)
            return
        self.own = self.own._replace(reported=True)
        say(f"reported attempt {self.own.attempt}")

    def _watch(self) -> Action:
        seen = False
        for jobset in self._api.watch(lambda: not self._new_failure):
            seen = True
            due = self._settle(jobset)
            if due is not Action.WAIT:
                return due
        if not seen:  # no tight loop if a server ends watches at once
            self._sleep(_somewhat_less(FIRST_PAUSE))
        return Action.WAIT

    def _settle(self, jobset: JSON | None) -> Action:
        """Act on one state of the JobSet. Returns REPORT, RESTART or FAIL if this round is over, else WAIT."""
        action = Action.FAIL if self._over else decide(jobset, self.own)
        if action is not Action.RESTART:  # the end of the attempt depends on whether its notice was acknowledged
            self._notify(open_notice(jobset))
        if action is Action.LIFT:
            self.own, self._failure = self.own._replace(lifted=True, failed=False), ""
            self._act(action)
            return Action.WAIT
        if action is Action.RESTART and jobset is not None and self._following is not None:
            self._following.end_worker()
            self._failure, self._new_failure = self._new_failure, ""  # the worker may have failed meanwhile
            self.own = Own(failed=self.own.failed or bool(self._failure))
            # Higher than any attempt that this pod has reported, so an old state of the JobSet is harmless here.
            with closing(self._following.api) as api:
                self._report(api, following_attempt(jobset))
            return Action.WAIT
        if action in {Action.RESTART, Action.FAIL} and not self._over:
            self._end(action)
        return action

    def _end(self, action: Action) -> None:
        self._over = True
        self._act(action)


def say(text: str) -> None:
    """One line for `kubectl logs`, in one write, so that lines of threads do not mix."""
    sys.stderr.write(f"in-place-restart-agent: {text}\n")
    sys.stderr.flush()


def _somewhat_less(seconds: float) -> float:
    return random.uniform(seconds / 2, seconds)  # noqa: S311 - keeps agents apart, protects nothing
