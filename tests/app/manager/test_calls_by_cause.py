"""What the controllers ask of the API server in the life of one JobSet of 20 Jobs, exactly.

docs/performance.md has the table. Time is virtual, so the same happens in every run. tests/e2e/test_calls_by_cause.py
counts the same on a real control plane, and what admission adds.
"""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from dev.simulator import job_status
from dev.simulator.storage import Event, Scope, Watcher
from kube.transport import Request, Response
from tests.support import calls_by_cause as calls
from tests.support.model.many_lives import JSON, NOW, NS, Crowd
from tests.support.model.memory_api import MemoryApi
from tests.support.objects.jobsets import jobset, rjob, stored
from tests.support.played.namespace import resource_of

pytestmark = pytest.mark.looptime

ROUND = 0.2
"""Virtual seconds between two rounds of the Job controller."""

ROUNDS = 100


class Api(MemoryApi):
    """Counts what is asked, and keeps every status of the JobSet."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.calls: Counter[str] = Counter()
        self.statuses: list[JSON] = []
        self.storage["jobsets"].watch(Watcher(Scope(), self._keep_status))

    def _keep_status(self, event: Event) -> None:
        self.statuses.append(event.item.body().get("status") or {})

    async def send(self, request: Request) -> Response:
        response = await super().send(request)
        plural, _, subresource = resource_of(request.path)
        if plural and request.verb != "watch":
            self.calls[calls.row(request.verb, f"{plural}/{subresource}".rstrip("/"), response.status)] += 1
        return response


class OneLife(Crowd):
    """One JobSet, and who acts on it beside the controllers: its user, its pods, the Job controller."""

    def __init__(self) -> None:
        super().__init__()
        self.api = Api()  # type: ignore[assignment]  # one that counts
        self._status: JSON = {}

    def steps(self) -> dict[str, Callable[[], object]]:
        """Column of the table -> what begins it."""
        return {
            "is created": self._begin,
            "one Job fails": lambda: self._finish("js", "Failed", most=1),
            "is suspended": lambda: self._put_spec(suspend=True),
            "is resumed": lambda: self._put_spec(suspend=False),
            "completes": lambda: self._finish("js", "Complete"),
            "is deleted": self._drop,
        }

    async def calls_of(self, act: Callable[[], object]) -> Counter[str]:
        """What is asked from now until all is quiet."""
        self.api.calls.clear()
        self.api.statuses.clear()
        act()
        for _ in range(ROUNDS):
            await asyncio.sleep(ROUND)
            for key in [*self.api.storage["jobs"].objects]:
                self._one_round(key)
        decided, self._status = calls.decisions(self.api.statuses, self._status)
        found = Counter(self.api.calls)
        found[calls.COUNTS] = found.pop(calls.STATUS_WRITES, 0) - decided
        return found + Counter({calls.DECISIONS: decided})

    def _one_round(self, key: tuple[str, str]) -> None:
        job = self._get("jobs", key[1])
        status = job and job_status.next_status(job, NOW)
        if job and status is not None:
            self._set_status(job, status)

    def _begin(self) -> None:
        body = stored(jobset(rjob(replicas=calls.JOBS), failurePolicy={"maxRestarts": 1}))
        meta = {"generation": 1, "creationTimestamp": NOW}
        self.api.put("jobsets", "js", NS, metadata=meta, spec=body["spec"])

    def _put_spec(self, **changes: object) -> None:
        js = self._get("jobsets", "js")
        assert js is not None
        meta = {**js["metadata"], "generation": js["metadata"]["generation"] + 1}
        self.api.put("jobsets", "js", NS, metadata=meta, spec={**js["spec"], **changes})

    def _drop(self) -> None:
        self.api.drop("jobsets", "js")
        self._collect()


async def test_calls_by_cause_are_those_of_the_table():
    wanted = calls.Table(admission=False)

    life = OneLife()
    async with life.watched():
        steps = life.steps()
        assert list(steps) == wanted.causes
        for cause, act in steps.items():
            wanted.found(cause, await life.calls_of(act))
    wanted.check()
