"""Jobs of a set that is alone reach the Job controller as fast as it takes them up; beside others at most 40 wait there."""

import asyncio
from collections import deque
from itertools import count

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.batch import Job
from api.features import FeatureGates
from api.jobset import JobSet
from controllers.jobset.controller import JobSetReconciler
from controllers.jobset.execute import FailedWrites
from controllers.jobset.watches import Watches
from controllers.planning.job_window import IDLE_SECONDS, QUEUE_SECONDS, JobWindow
from controllers.planning.limits import DEFAULT_LIMITS
from dev.simulator import job_status
from kube.client import Client
from kube.controller import Request
from kube.model.meta import ObjectMeta
from tests.support.model import virtual
from tests.support.model.blind import Blind, RecordedEvents, refusing
from tests.support.model.memory_api import MemoryApi
from tests.support.model.tally import Tally
from tests.support.objects.stored_sets import jobset, rjob

QUEUED_JOBS = DEFAULT_LIMITS.queued_jobs
TICK = 0.1
NOW = "2026-01-01T00:00:00Z"
WAITING = Job(metadata=ObjectMeta(name="a"))
TAKEN_UP = msgspec.convert({"metadata": {"name": "a"}, "status": {"startTime": NOW}}, Job)


class Crowd:
    """JobSets of one process beside a Job controller that takes up `rate` Jobs a second in their order of arrival."""

    def __init__(self, rate: float) -> None:
        self.api, self.rate, self.credit = MemoryApi(), rate, 0.0
        client, gates = Client(self.api), FeatureGates({})
        watches = Watches(client, gates)
        self.jobs, self.jobsets = watches.jobs.store, watches.jobsets.store
        self.reconciler = JobSetReconciler(client, watches.caches(), gates, RecordedEvents(), Tally())
        self.queue = deque[str]()
        self.arrived: dict[str, float] = {}
        self.waited: dict[str, float] = {}
        self.names: list[str] = []

    def add(self, name: str, jobs: int) -> None:
        body = msgspec.to_builtins(jobset(rjob("w", jobs)))
        meta = {"generation": 1, "uid": f"uid-{name}"}
        self.jobsets.overlay(msgspec.convert(self.api.put("jobsets", name, spec=body["spec"], metadata=meta), JobSet))
        self.names.append(name)

    def queued(self, name: str) -> int:
        return sum(job.startswith(f"{name}-w-") for job in self.queue)

    async def pass_time(self, seconds: float) -> None:
        """Every set is looked at, and the Job controller works, ten times a second."""
        for _ in range(round(seconds / TICK)):
            self.credit = self.credit + self.rate * TICK if self.queue else 0.0
            while self.credit >= 1 and self.queue:
                self.credit -= 1
                self._take_up(self.queue.popleft())
            for name in self.names:
                await self.reconciler.reconcile(Request("ns", name))
            self._see_new_jobs()
            await asyncio.sleep(TICK)

    def _see_new_jobs(self) -> None:
        for job in self.jobs.list():
            if job.metadata.name not in self.arrived:
                self.arrived[job.metadata.name] = asyncio.get_running_loop().time()
                self.queue.append(job.metadata.name)

    def _take_up(self, name: str) -> None:
        job = self.api.storage.get("jobs", ("ns", name)).body()
        stored = self.api.put("jobs", name, metadata=job["metadata"], status=job_status.with_start_time(job, NOW))
        self.jobs.overlay(msgspec.convert(stored, Job))
        self.waited[name] = asyncio.get_running_loop().time() - self.arrived[name]


@settings(max_examples=8, deadline=None)
@given(st.floats(2, 150), st.floats(0.3, 4))
def test_who_comes_later_waits_no_longer_than_the_window_says(rate: float, later: float):
    async def main() -> None:
        crowd = Crowd(rate)
        crowd.add("large", 500)
        await crowd.pass_time(later)
        crowd.add("small", 1)
        while "small-w-0" not in crowd.waited:
            await crowd.pass_time(TICK)
        assert crowd.waited["small-w-0"] <= max(QUEUE_SECONDS, (QUEUED_JOBS + 1) / rate) + 4 * TICK

    virtual.run(main)


@settings(max_examples=6, deadline=None)
@given(st.floats(5, 100), st.integers(1, 30))
def test_a_large_set_and_many_small_ones_do_not_starve_each_other(rate: float, each: int):
    async def main() -> None:
        crowd, numbers, seen = Crowd(rate), count(), []
        crowd.add("large", 400)
        before = 0
        for _ in range(6):
            for _ in range(each):
                crowd.add(f"small{next(numbers)}", 1)
            await crowd.pass_time(TICK)
            seen.append(crowd.queued("large"))
        assert max(seen) <= QUEUED_JOBS, "more wait although others do"
        crowd.rate = 200.0  # until all are served, whoever comes first
        while len(crowd.waited) < 400 + 6 * each:
            await crowd.pass_time(1)
            assert len(crowd.waited) > before, "nothing moves"
            before = len(crowd.waited)

    virtual.run(main)


@pytest.mark.looptime
async def test_jobs_are_not_held_back_when_the_job_controller_is_fast():
    crowd = Crowd(150)
    crowd.add("large", 400)
    await crowd.pass_time(1.5)
    assert crowd.reconciler.memories.get_or_create(Request("ns", "large"), "uid-large").job_window.size > QUEUED_JOBS
    assert len(crowd.arrived) > 5 * QUEUED_JOBS


async def test_others_that_are_served_or_gone_do_not_hold_a_set_back():
    crowd = Crowd(1)
    memories, large = crowd.reconciler.memories, Request("ns", "large")
    crowd.add("small", 1)
    crowd.add("gone", 1)
    await crowd.pass_time(TICK)
    assert memories.others_wait(large)
    await crowd.pass_time(3)
    assert not memories.others_wait(large), "both were taken up"
    crowd.add("last", 2)
    await crowd.pass_time(TICK)
    assert memories.others_wait(large)
    assert not memories.others_wait(Request("ns", "last"))
    crowd.reconciler.memories.forget(Request("ns", "last"))
    assert not memories.others_wait(large)


async def test_a_set_whose_jobs_are_refused_does_not_hold_others_back():
    blind = Blind(refusing(lambda _: "exceeded quota"), jobset(rjob("workers", 2)))
    with pytest.raises(FailedWrites):
        await blind.reconcile()
    assert not blind.reconciler.memories.others_wait(Request("ns", "other"))


class TestWindow:
    @pytest.mark.parametrize(("seconds", "size"), [(0, 80), (1, 80), (2, 40), (4, 20), (100, 0)])
    def test_is_what_is_taken_up_in_time(self, seconds, size):
        assert JobWindow().watch("a", 40, 0.0).measure(TAKEN_UP, seconds) == JobWindow(size, time=seconds)

    def test_is_not_measured_while_the_job_waits(self):
        watching = JobWindow(60).watch("a", 40, 0.0)
        assert watching.measure(WAITING, 1e6) == watching
        assert watching.watch("b", 80, 1.0) == watching

    def test_stays_when_the_job_was_not_created(self):
        assert JobWindow(60).watch("a", 40, 0.0).measure(None, 1.0).size == 60

    def test_is_forgotten_after_a_while(self):
        known = JobWindow(60, time=1.0)
        assert known.measure(None, IDLE_SECONDS) == known
        assert known.measure(None, IDLE_SECONDS + 1) == JobWindow()
