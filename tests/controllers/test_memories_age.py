"""What the process remembers of a JobSet ends: with the JobSet, with a time, and for a new one of the same name."""

import asyncio
import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from api.batch import Job
from api.features import FeatureGates
from api.jobset import JobSet
from controllers.jobset.controller import NAMESPACE_RETRY, JobSetReconciler
from controllers.jobset.endings import Endings
from controllers.jobset.execute import FailedWrites
from controllers.jobset.memory import Memory
from controllers.jobset.watches import Watches
from kube.client import Client
from kube.controller import Request
from kube.store import version_of
from kube.workqueue import WorkQueue
from tests.support.model import virtual
from tests.support.model.blind import RecordedEvents
from tests.support.model.memory_api import MemoryApi, refuse, serve
from tests.support.model.tally import Tally
from tests.support.objects.stored_sets import jobset, rjob

REQUEST = Request("ns", "js")
JOBS = ("js-workers-0", "js-workers-1")
ENDS = refuse(403, verb="create", path="/jobs", details={"causes": [{"reason": "NamespaceTerminating"}]})
REFUSED = refuse(403, "exceeded quota", verb="create", path="/jobs")
FAILED = {"type": "Failed", "status": "True", "reason": "x", "lastTransitionTime": "2026-01-01T00:00:00Z"}


class Lives:
    """JobSets of one name, one after the other, before one process that sees what the test shows it."""

    def __init__(self) -> None:
        self.api = MemoryApi()
        gates = FeatureGates({"ElasticJobSet": True})
        client = Client(self.api)
        self.watches = Watches(client, gates)
        self.reconciler = JobSetReconciler(client, self.watches.caches(), gates, RecordedEvents(), Tally())
        self.memories = self.reconciler.memories
        self.queue: WorkQueue[Request] = WorkQueue()
        # As app.manager.controllers does.
        self.watches.jobsets.on_event(Endings(Tally(), self.memories).on_event)
        self.watches.jobs.on_event(self.reconciler.memories.on_job_event)
        self.watches.feed(self.queue)
        self.reconciler.leftover_pods.feed(self.queue)
        self.born = 0
        self.old_jobs: list[Job] = []

    @property
    def uid(self) -> str:
        return f"uid-{self.born}"

    @property
    def alive(self) -> bool:
        return self.watches.jobsets.store.get("ns", "js") is not None

    # What happens

    async def create(self) -> None:
        if self.alive:
            return
        self.born += 1
        body = msgspec.to_builtins(jobset(rjob("workers", len(JOBS)), failurePolicy={"maxRestarts": 99}))
        stored = self.api.put("jobsets", "js", spec=body["spec"], metadata={"generation": 1, "uid": self.uid})
        self._show(stored)
        memory = self.memories.get(REQUEST, self.uid)
        assert memory == Memory(self.uid, departed=memory.departed, watched_status=memory.watched_status), (
            "it inherits something"
        )
        assert self.queue.failures(REQUEST) == 0, "it waits for the failures of another"

    async def delete(self) -> None:
        if self.alive:
            gone = self.watches.jobsets.store.get("ns", "js")
            self.old_jobs += self._jobs()
            self.api.drop("jobsets", "js")
            self.watches.jobsets._call_handlers(self.watches.jobsets.store.remove(gone))

    async def replace(self) -> None:
        """The watch was cut: the next list shows the new one in the place of the old."""
        if self.alive:
            self.old_jobs += self._jobs()
            self.api.drop("jobsets", "js")
            self.born += 1
            body = msgspec.to_builtins(jobset(rjob("workers", len(JOBS)), failurePolicy={"maxRestarts": 99}))
            stored = self.api.put("jobsets", "js", spec=body["spec"], metadata={"generation": 1, "uid": self.uid})
            store = self.watches.jobsets.store
            store.begin()
            store.apply(msgspec.convert(stored, JobSet))
            self.watches.jobsets._call_handlers(store.commit(self.api.revision))
            assert self.queue.failures(REQUEST) == 0

    async def plan(self) -> None:
        """The worker takes the request, if it is there and due."""
        key = self.queue._take()
        if key is None:
            return
        try:
            result = await self.reconciler.reconcile(key)
        except FailedWrites:
            self.queue.add_rate_limited(key)
        else:
            self.queue.forget(key)
            if result.requeue_after is not None:
                self.queue.add_after(key, result.requeue_after)
        self.queue.done(key)
        if self.alive:
            self._show(self.api.objects("jobsets")["ns", "js"])
        informer = self.watches.jobs
        made = [
            msgspec.convert(job, Job)
            for job in self.api.objects("jobs").values()
            if "ownerReferences" in job["metadata"]
        ]
        for job in sorted(made, key=version_of):
            informer._call_handlers(informer.store.apply(job))

    async def job_fails_and_goes(self) -> None:
        for job in self._jobs()[:1]:
            stored = self.api.objects("jobs")["ns", job.metadata.name]
            failed = self.api.put(
                "jobs", job.metadata.name, metadata=stored["metadata"], status={"conditions": [FAILED]}
            )
            self._gone(msgspec.convert(failed, Job))

    async def old_job_is_seen_to_go(self) -> None:
        """Late: its JobSet is gone, and perhaps there is another one."""
        if self.old_jobs:
            job = self.old_jobs.pop()
            self._gone(msgspec.structs.replace(job, status=msgspec.convert({"conditions": [FAILED]}, type(job.status))))

    async def namespace_ends(self) -> None:
        self.api.answering = ENDS

    async def quota_is_used_up(self) -> None:
        self.api.answering = REFUSED

    async def all_is_allowed(self) -> None:
        self.api.answering = serve

    async def name_is_taken(self) -> None:
        if ("ns", JOBS[1]) not in self.api.objects("jobs"):
            self.api.put("jobs", JOBS[1], metadata={"uid": "theirs"})

    async def name_is_free(self) -> None:
        if self.api.objects("jobs").get(("ns", JOBS[1]), {"metadata": {}})["metadata"].get("uid") == "theirs":
            self.api.drop("jobs", JOBS[1])

    async def time_passes(self) -> None:
        await asyncio.sleep(7)

    # What is looked at

    def _show(self, stored: dict[str, Any]) -> None:
        informer = self.watches.jobsets
        informer._call_handlers(informer.store.apply(msgspec.convert(stored, JobSet)))

    def _jobs(self) -> list[Job]:
        """Those of the JobSet that lives."""
        return [job for job in self.watches.jobs.store.list() if job.metadata.controller().uid == self.uid]

    def _gone(self, job: Job) -> None:
        """The garbage collector takes it, and the watch shows that."""
        stored = self.api.objects("jobs").get(("ns", job.metadata.name))
        if stored is not None and stored["metadata"]["uid"] == job.metadata.uid:
            self.api.drop("jobs", job.metadata.name)
        version = str(self.api.revision)
        gone = msgspec.structs.replace(job, metadata=msgspec.structs.replace(job.metadata, resource_version=version))
        informer = self.watches.jobs
        informer._call_handlers([*informer.store.apply(gone), *informer.store.remove(gone)])

    async def come_to_rest(self) -> None:
        for _ in range(12):
            await asyncio.sleep(NAMESPACE_RETRY / 4)
            await self.plan()

    def owners(self) -> list[str]:
        """UIDs of the owners of the Jobs that exist."""
        return [job["metadata"]["ownerReferences"][0]["uid"] for job in self.api.objects("jobs").values()]


HAPPENS = [
    "create", "create", "plan", "plan", "plan", "delete", "replace", "job_fails_and_goes", "old_job_is_seen_to_go",
    "namespace_ends", "quota_is_used_up", "all_is_allowed", "name_is_taken", "name_is_free", "time_passes",
]  # fmt: skip


@pytest.mark.no_cover
@settings(max_examples=150, deadline=None)
@example(["create", "namespace_ends", "plan", "delete", "all_is_allowed", "create", "plan"])
@example(["create", "plan", "delete", "plan", "old_job_is_seen_to_go", "plan"])
@example(["create", "plan", "job_fails_and_goes", "delete", "create", "plan", "plan"])
@example(["create", "quota_is_used_up", *["plan", "time_passes"] * 4, "replace", "plan"])
@given(st.lists(st.sampled_from(HAPPENS), max_size=40))
def test_what_is_remembered_ends(happens: list[str]) -> None:
    async def story() -> None:
        lives = Lives()
        following = asyncio.create_task(lives.reconciler.leftover_pods.run())
        for event in ["create", *happens]:
            await getattr(lives, event)()
            assert len(lives.memories) <= 1
        await a_set_of_its_own(lives)
        await nothing_is_left(lives)
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following

    virtual.run(story)


async def a_set_of_its_own(lives: Lives) -> None:
    """Once nothing stands in its way any more, the set that lives gets its Jobs, whatever others went through."""
    await lives.all_is_allowed()
    await lives.name_is_free()
    while lives.old_jobs:
        await lives.old_job_is_seen_to_go()
    await lives.create()
    lives.queue.add(REQUEST)
    await lives.come_to_rest()
    assert lives.owners() == [lives.uid] * len(JOBS)
    memory = lives.memories.get(REQUEST, lives.uid)
    assert (memory.departed, memory.foreign_owners.value) == ({}, {})


async def nothing_is_left(lives: Lives) -> None:
    """Its last Jobs may be seen to go before it, or after it."""
    await lives.delete()
    while lives.old_jobs:
        await lives.old_job_is_seen_to_go()
    await lives.plan()
    await asyncio.sleep(0)
    assert len(lives.memories) == 0
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("old-pods-of")]


@pytest.mark.looptime
async def test_a_new_set_does_not_wait_for_the_failures_of_an_old_one() -> None:
    lives = Lives()
    await lives.create()
    for _ in range(20):
        lives.queue.add_rate_limited(REQUEST)
    await lives.delete()
    assert lives.queue.failures(REQUEST) == 0
