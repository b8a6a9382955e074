"""New suspended sets, as under a queue, begin one after the other; one that is resumed does not wait."""

import asyncio

import pytest

from controllers.jobset.start_spacing import LONGEST_PAUSE, LONGEST_WAIT, StartSpacing
from kube.transport import Request, Response
from tests.support.model.many_lives import NOW, NS, Crowd
from tests.support.model.memory_api import MemoryApi
from tests.support.objects.jobsets import jobset, rjob, stored

pytestmark = pytest.mark.looptime

SETS = 8
SECONDS = 0.2
"""Until the API server has created a Job."""


class SlowApi(MemoryApi):
    """Takes its time to create Jobs, and counts how many it creates at once, and the status writes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.creating = self.most_at_once = self.status_writes = 0

    async def send(self, request: Request) -> Response:
        self.status_writes += request.path.endswith("/status")
        if request.method != "POST" or not request.path.endswith("/jobs"):
            return await super().send(request)
        self.creating += 1
        self.most_at_once = max(self.most_at_once, self.creating)
        await asyncio.sleep(SECONDS)
        self.creating -= 1
        return await super().send(request)


class Queue(Crowd):
    """Sets of one Job that a queue has suspended."""

    def __init__(self) -> None:
        super().__init__()
        self.api = self.slow = SlowApi()  # type: ignore[assignment]  # a slower one

    def put(self, number: int, *, suspend: bool) -> None:
        body = stored(jobset(rjob(replicas=1), suspend=suspend))
        meta = {"generation": 1 + (not suspend), "creationTimestamp": NOW}
        self.api.put("jobsets", f"js-{number}", NS, metadata=meta, spec=body["spec"])

    @property
    def names(self) -> set[str]:
        return {name for _, name in self.api.storage["jobs"].objects}


async def test_suspended_sets_get_their_jobs_one_after_the_other():
    queue = Queue()

    async with queue.watched():
        queue.put(0, suspend=True)
        await asyncio.sleep(1)
        for number in range(1, SETS):
            queue.put(number, suspend=True)
        await asyncio.sleep(1 + LONGEST_PAUSE * SETS)
        assert len(queue.names) == SETS
    assert queue.slow.most_at_once <= 2
    assert queue.slow.status_writes == SETS, "one for each set, which counts its Job"


async def test_a_set_that_is_resumed_does_not_wait_for_its_turn():
    queue = Queue()

    async with queue.watched():
        for number in range(SETS):
            queue.put(number, suspend=True)
            await asyncio.sleep(SECONDS)
        for number in range(SETS, 4 * SETS):
            queue.put(number, suspend=True)
        await asyncio.sleep(0.01)
        last = 4 * SETS - 1
        queue.put(last, suspend=False)
        await asyncio.sleep(2 * SECONDS)
        assert f"js-{last}-workers-0" in queue.names
        assert len(queue.names) < 3 * SETS


async def test_counts_wait_longer_where_writes_are_slow():
    queue = Queue()

    async with queue.watched():
        queue.put(0, suspend=False)
        await asyncio.sleep(1.5)
        assert queue.names
        assert queue.slow.status_writes == 0
        await asyncio.sleep(2)
        assert queue.slow.status_writes == 1


def test_slow_writes_delay_the_next_set_by_a_limited_time():
    spacing = StartSpacing()
    assert [spacing.reserve(time, write_seconds=60) for time in (100, 100, 103)] == [100, 100 + LONGEST_PAUSE, 103]


def test_a_set_does_not_wait_for_all_that_a_neighbour_has_created():
    start_spacing = StartSpacing()
    assert max(start_spacing.reserve(100, write_seconds=60) for _ in range(1000)) == 100 + LONGEST_WAIT
