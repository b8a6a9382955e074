"""Leftover Jobs, counts that need no write, and requeues that must not come too late."""

import dataclasses
from typing import Any

import msgspec
import pytest

from api import keys
from api.batch import Service
from api.features import FeatureGates
from api.jobset import JobSet
from controllers.jobset.execute import Caches, Executor
from controllers.jobset.failed_pods import list_failed_pods
from controllers.jobset.watches import Watches
from controllers.planning.actions import CreateJob, DeleteJob, FailedPodQuery, PatchJob, Plan
from kube.client import Client
from kube.controller import Request
from kube.errors import TransportError
from kube.store import ChangeKind, Store
from kube.workqueue import WorkQueue
from tests.support.model.blind import Blind, RecordedEvents
from tests.support.model.lives import counts_of, of_type, started
from tests.support.model.memory_api import MemoryApi
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob


def deleted(plan: Plan) -> list[str]:
    return [action.name for action in of_type(plan, DeleteJob)]


def remembering(world: World, indexes: str) -> None:
    """The status says that these completed."""
    [of] = world.status.replicated_jobs_status
    entry = msgspec.structs.replace(of, completed_indexes=indexes, succeeded=1)
    status = msgspec.structs.replace(world.status, replicated_jobs_status=(entry,))
    world.js = msgspec.structs.replace(world.js, status=status)


class TestLeftoverJobs:
    def test_a_job_that_runs_although_its_index_has_completed_is_deleted(self):
        world = started(rjob("workers", 2))
        remembering(world, "0")
        assert deleted(world.step()) == ["js-workers-0"]
        assert counts_of(world).succeeded == 1

    @pytest.mark.parametrize("label", [keys.RESTART_ATTEMPT, keys.JOB_INDEX])
    def test_nothing_outlives_the_end_whatever_attempt_or_index_it_is_of(self, label):
        world = started(rjob("workers", 3), gates={"ElasticJobSet": True})
        world.fail("js-workers-0")
        world.settle()
        world.collect()
        assert world.status.terminal_state == "Failed"
        late = started(rjob("workers", 9)).jobs["js-workers-8" if label == keys.JOB_INDEX else "js-workers-1"]
        if label == keys.RESTART_ATTEMPT:
            late["metadata"]["labels"][label] = "-1"
        world.jobs[late["metadata"]["name"]] = late
        assert deleted(world.step()) == [late["metadata"]["name"]]

    def test_a_job_of_a_later_attempt_than_the_one_that_is_seen_is_kept(self):
        """The cache of JobSets lags behind the one of Jobs."""
        world = started(rjob("workers", 2))
        world.jobs["js-workers-0"]["metadata"]["labels"][keys.RESTART_ATTEMPT] = "5"
        assert deleted(world.step()) == []


class TestCounts:
    def test_a_failed_job_that_is_gone_is_judged_and_not_counted(self):
        world = started(rjob("workers", 2))
        world.fail("js-workers-0")
        world.remove("js-workers-0")
        world.step()
        assert world.status.terminal_state == "Failed"
        assert counts_of(world).failed == 0, "a new process, which has not seen it go, would say the same"

    def test_a_plan_that_fails_writes_no_counts_that_are_there_already(self):
        world = started(rjob("workers", 2))
        world.edit(suspend=True)
        plan = world.plan()
        assert plan.status is not None
        assert plan.counters is None

    def test_the_end_of_a_set_does_not_wait_for_its_counts(self):
        world = started(rjob("workers", 600), ttlSecondsAfterFinished=1)
        for name in list(world.jobs):
            world.finish(name)
        world.settle()
        world.jobs.clear()
        remembering(world, "0-598")
        world.since_status_write = 0.0
        assert world.plan().requeue_after == 1


def test_a_job_not_known_to_be_suspended_waits_with_another_template():
    world = started(rjob("workers", 1))
    job = world.jobs["js-workers-0"]
    job["spec"]["suspend"] = True
    job["status"].update(active=0, ready=0)
    world.edit(suspend=False)
    world.js = msgspec.structs.replace(world.js, spec=jobset(rjob("workers", 1, pod={"nodeSelector": {"a": "b"}})).spec)
    assert of_type(world.plan(), PatchJob) == []
    job["status"]["conditions"] = [{"type": "Suspended", "status": "True"}]
    [patch] = of_type(world.plan(), PatchJob)
    assert patch.changes_template
    assert patch.patch["metadata"]["uid"] == job["metadata"]["uid"]


async def test_a_job_is_not_both_there_and_gone():
    blind = Blind(MemoryApi(), jobset(rjob("workers", 2)))
    await blind.reconcile()
    failed = {"conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    blind.change_job("js-workers-0", status=failed)
    job = blind.jobs.get("ns", "js-workers-0")
    blind.reconciler.memories.on_job_event(ChangeKind.DELETED, job, None)
    assert blind.reconciler._observe(blind.jobsets.get("ns", "js"), blind.memory).departed == ()


async def test_a_service_that_goes_brings_up_the_sets_that_want_its_name():
    watches, queue = Watches(Client(MemoryApi()), FeatureGates()), WorkQueue[Request]()
    watches.feed(queue)
    js = jobset(network={"enableDNSHostnames": True, "subdomain": "shared"})
    watches.jobsets.store.apply(js)
    owner = {"apiVersion": keys.API_VERSION, "kind": "JobSet", "name": "other", "uid": "u", "controller": True}
    meta = {"name": "shared", "namespace": "ns", "uid": "s", "ownerReferences": [owner]}
    for handler in watches.services._handlers:
        handler(ChangeKind.DELETED, msgspec.convert({"metadata": meta}, Service), None)
    assert await queue.get() == Request("ns", "js")


async def test_a_change_by_the_user_ends_a_plan():
    class Counting:
        """Stores Jobs; after the tenth the user changes the JobSet."""

        created = 0
        patched = 0

        async def create(self, *_: object, **options: Any) -> object:
            self.created += 1
            if self.created == 10:
                caches.jobsets.apply(newer)
            return msgspec.convert(
                {"metadata": {"name": f"j{self.created}", "uid": f"u{self.created}"}}, options["type"]
            )

        async def patch(self, *_: object, **__: object) -> object:
            self.patched += 1
            raise AssertionError("a status of a plan that is over")

    js = jobset(rjob("workers", 500))
    meta = msgspec.structs.replace(js.metadata, generation=2, resource_version="2")
    newer: JobSet = msgspec.structs.replace(js, metadata=meta)
    caches = Caches(Store(), Store(), Store(), Store())
    caches.jobsets.apply(js)
    world = World(js)
    plan = world.plan()
    plan = dataclasses.replace(plan, actions=tuple(of_type(plan, CreateJob)))
    client = Counting()
    await Executor(client, caches, RecordedEvents()).execute(js, plan)
    assert 10 <= client.created < 70, "those under way end, no other is begun"
    assert client.patched == 0


async def test_without_an_answer_in_time_the_history_says_less():
    class NoAnswer:
        async def list(self, *_: object, **__: object) -> object:
            raise TransportError("no answer in 2 s")

    assert await list_failed_pods(NoAnswer(), "ns", FailedPodQuery((("js-workers-0", "u"),)), lambda _, pods: pods) == {
        "u": ()
    }
    with pytest.raises(TransportError):
        await list_failed_pods(
            NoAnswer(), "ns", FailedPodQuery((("js-workers-0", "u"),), needed=True), lambda _, pods: pods
        )
