"""What the API server is asked for in the life of one JobSet of 20 Jobs on a real control plane, admission included.

docs/performance.md has the table.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from controllers.jobset.unscheduled_pods import FIRST_CHECK
from dev.cluster import audit
from tests.support import calls_by_cause as calls
from tests.support.cluster.client_calls import history, now, path
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.manager import USER
from tests.support.cluster.requests import request, wait_for

QUIET_SECONDS = 2.0
"""So long nothing was asked: what a step causes is over."""

COUNTS_A_SECOND = 2
"""Status writes that change only counts, at most."""

LISTS = "`list pods`"
CALLS_OF_WEBHOOKS = "apiserver_admission_webhook_admission_duration_seconds_count"


@dataclass(frozen=True, slots=True)
class Step:
    """What begins a step of the life, and how the JobSet looks when it is over."""

    act: Callable[[], object]
    reached: Callable[[], bool]


class OneLife:
    """One JobSet, its user and its pods, and what is asked of the API server because of it."""

    def __init__(self, sets: Sets) -> None:
        self._sets = sets
        self._status: dict[str, Any] = {}

    def steps(self) -> dict[str, Step]:
        """By the column of the table."""
        sets, jobs = self._sets, calls.JOBS
        js = manifest(group(replicas=jobs), failurePolicy={"maxRestarts": 1})
        return {
            "is created": Step(lambda: sets.apply(js), lambda: sets.counts().get("ready") == jobs),
            "one Job fails": Step(
                lambda: sets.end(sets.pods()[0], 1),
                lambda: sets.status()["restarts"] == 1 and sets.counts()["ready"] == jobs,
            ),
            "is suspended": Step(
                lambda: sets.patch({"suspend": True}),
                lambda: (sets.counts()["suspended"], sets.counts()["active"]) == (jobs, 0),
            ),
            "is resumed": Step(lambda: sets.patch({"suspend": False}), lambda: sets.counts()["ready"] == jobs),
            "completes": Step(
                lambda: [sets.end(pod) for pod in sets.pods()],
                lambda: sets.status().get("terminalState") == "Completed",
            ),
            "is deleted": Step(
                lambda: request(sets.cluster, "DELETE", path(sets, "js")),
                lambda: sets.get() is None and not sets.jobs(),
            ),
        }

    def wait_until_quiet(self) -> None:
        start = audit.log_size(self._sets.cluster.audit_log)
        before: Counter[str] = Counter()

        def quiet() -> bool:
            nonlocal before
            time.sleep(QUIET_SECONDS)
            before, last = self._asked(start), before
            return before == last

        wait_for(quiet, timeout=60, what="the manager to ask for nothing more")

    def calls_of(self, step: Step) -> tuple[Counter[str], float]:
        """What is asked from now until all is quiet, and the seconds until the JobSet looks as it should."""
        start, since, reviewed = audit.log_size(self._sets.cluster.audit_log), now(self._sets), self._reviews()
        begun = time.monotonic()
        step.act()
        wait_for(step.reached, timeout=60)
        seconds = time.monotonic() - begun
        self.wait_until_quiet()
        found = self._asked(start) + (self._reviews() - reviewed)
        statuses = [body.get("status") or {} for body in history(self._sets, since)]
        decided, self._status = calls.decisions(statuses, self._status)
        found[calls.COUNTS] = found.pop(calls.STATUS_WRITES, 0) - decided
        return found + Counter({calls.DECISIONS: decided}), seconds

    def _asked(self, start: int) -> Counter[str]:
        """The manager's calls since byte `start` of the audit log, about the cluster or this namespace."""
        return Counter(
            calls.row(call.verb, call.resource, call.code, dry_run=call.dry_run)
            for call in audit.calls(self._sets.cluster.audit_log, start, USER)
            if call.user == USER and call.namespace in {"", self._sets.namespace} and call.verb != "watch"
        )

    def _reviews(self) -> Counter[str]:
        """Calls of webhooks so far, as the API server counts them."""
        text = str(request(self._sets.cluster, "GET", "/metrics")[1])
        lines = "".join(f"{line}\n" for line in text.splitlines() if line.startswith(CALLS_OF_WEBHOOKS))
        found: Counter[str] = Counter()
        for family in text_string_to_metric_families(lines):
            for sample in family.samples:
                found[calls.review(sample.labels["name"])] += int(sample.value)
        return found


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_all_that_is_asked_because_of_a_jobset_is_in_the_table(sets, manager):
    wanted = calls.Table(admission=True)
    life = OneLife(sets)
    steps = life.steps()
    assert list(steps) == wanted.causes
    life.wait_until_quiet()
    for cause, step in steps.items():
        found, seconds = life.calls_of(step)
        more = {calls.COUNTS: int(COUNTS_A_SECOND * seconds), LISTS: int(seconds // FIRST_CHECK)}
        wanted.found(cause, found, more=more)
    wanted.check()
