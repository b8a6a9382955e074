"""What the reconciler and its watches do around the plan, over an API server in memory."""

import asyncio
from functools import partial

import msgspec
import pytest

from api import keys
from api.batch import Claim
from api.features import FeatureGates
from controllers.jobset.controller import NAMESPACE_RETRY, Options
from controllers.jobset.execute import FailedWrites
from controllers.jobset.watches import Watches
from controllers.planning.actions import PatchJob
from controllers.planning.limits import DEFAULT_LIMITS, Limits
from kube.client import Client
from kube.controller import Request, is_terminal
from kube.store import ChangeKind
from kube.workqueue import WorkQueue
from tests.support.model.blind import Blind
from tests.support.model.lives import ONE_BY_ONE, of_type, started
from tests.support.model.memory_api import MemoryApi, refuse, serve
from tests.support.objects.stored_sets import jobset, rjob
from tests.support.work import steps

RUNNING = {"active": 1, "ready": 1, "startTime": "2026-01-01T00:00:00Z"}


def ended(kind: str) -> dict:
    return {
        "conditions": [{"type": kind, "status": "True", "reason": "x", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    }


def depart(blind: Blind, name: str) -> None:
    """A finished Job is deleted, and the watch shows it."""
    job = blind.jobs.get("ns", name)
    blind.reconciler.memories.on_job_event(ChangeKind.DELETED, job, None)
    blind.jobs.overlay_deleted("ns", name, job.metadata.uid)


class TestDepartures:
    async def test_many_of_them_are_one_pass_over_the_set(self):
        """Quadratic work took 6.8 s for half of 4,000; one pass takes milliseconds."""
        work = []
        for number in (100, 400):
            blind = await self.with_departed(number)
            observe = partial(blind.reconciler._observe, blind.jobsets.get("ns", "js"), blind.memory)
            assert len(observe().departed) == number // 2
            work.append(steps(observe))
            await blind.reconcile()
            assert blind.replicated_jobs_status()["workers"]["completedIndexes"] == f"0-{number // 2 - 1}"
        assert work[1] <= 4.2 * work[0]

    @staticmethod
    async def with_departed(number: int) -> Blind:
        """A set of so many Jobs; half of them have completed and are gone."""
        blind = Blind(MemoryApi(), jobset(rjob("workers", number)), Options(limits=Limits(queued_jobs=number)))
        await blind.reconcile()
        for done in range(number // 2):
            blind.change_job(f"js-workers-{done}", status=ended("Complete"))
            depart(blind, f"js-workers-{done}")
        return blind

    async def test_a_set_that_has_ended_forgets_them(self):
        blind = Blind(MemoryApi(), jobset(rjob("workers", 3)))
        await blind.reconcile()
        for number in range(3):
            blind.change_job(f"js-workers-{number}", status=ended("Failed"))
        await blind.reconcile()
        for number in range(3):
            depart(blind, f"js-workers-{number}")
        await blind.reconcile()
        assert blind.memory.departed == {}


async def test_claims_of_other_sets_cost_a_reconcile_nothing():
    policy = {"templates": [{"metadata": {"name": name}, "spec": {}} for name in ("data", "model")]}
    blind = Blind(MemoryApi(), jobset(rjob("workers", 1), volumeClaimPolicies=[policy]))
    js, claims = blind.jobsets.get("ns", "js"), blind.reconciler._caches.claims
    for name in ("data-js", "other-js"):
        claims.apply(msgspec.convert({"metadata": {"name": name, "namespace": "ns"}}, Claim))
    assert blind.reconciler._observe(js, blind.memory).claims == {"data-js"}
    alone = steps(lambda: blind.reconciler._observe(js, blind.memory))
    for number in range(1000):
        claims.apply(msgspec.convert({"metadata": {"name": f"c{number}", "namespace": "ns"}}, Claim))
    assert steps(lambda: blind.reconciler._observe(js, blind.memory)) == alone


class TestSuspension:
    def test_a_set_that_waits_for_a_gate_can_be_suspended(self):
        world = started(rjob("workers", 2), failurePolicy=ONE_BY_ONE)
        world.fail("js-workers-1")
        world.settle()
        world.edit(suspend=True)
        assert [patch.name for patch in of_type(world.step(), PatchJob)] == ["js-workers-0"]


async def test_a_retained_claim_that_goes_queues_its_set():
    """It has no owner that would, only a label."""
    watches, queue = Watches(Client(MemoryApi()), FeatureGates()), WorkQueue[Request]()
    watches.feed(queue)
    meta = {"name": "model-js", "namespace": "ns", "uid": "c", "labels": {keys.JOBSET_NAME: "js"}}
    claim = msgspec.convert({"metadata": meta}, Claim)
    for handler in watches.claims._handlers:
        handler(ChangeKind.DELETED, claim, None)
    assert len(queue) == 1


async def test_a_job_that_a_webhook_denies_without_a_code_is_tried_again():
    """The API server makes 400 of such a denial; the policy behind it may change."""
    denied = 'admission webhook "v.example.com" denied the request: not now'
    api = MemoryApi(answering=refuse(400, denied, verb="create", path="/jobs"))
    with pytest.raises(FailedWrites) as failed:
        await Blind(api, jobset()).reconcile()
    assert not is_terminal(failed.value)


TERMINATING = refuse(403, verb="create", path="/jobs", details={"causes": [{"reason": "NamespaceTerminating"}]})


@pytest.mark.looptime
async def test_a_namespace_that_exists_again_gets_its_jobs():
    """One of the same name may come back, with a JobSet of the same name."""
    api = MemoryApi(answering=TERMINATING)
    blind = Blind(api, jobset(rjob("workers", 2)))
    with pytest.raises(FailedWrites):
        await blind.reconcile()
    api.answering = serve
    assert await blind.reconcile() == NAMESPACE_RETRY
    assert api.objects("jobs") == {}
    await asyncio.sleep(NAMESPACE_RETRY)
    await blind.reconcile()
    assert len(api.objects("jobs")) == 2


async def test_in_a_namespace_that_ends_nothing_is_created_twice():
    """Every Job that goes with it brings its set up: hundreds of refusals for a set of 40."""
    api = MemoryApi()
    blind = Blind(api, jobset(rjob("workers", 4)))
    await blind.reconcile()
    api.answering = TERMINATING
    blind.reconciler._caches.jobs.overlay_deleted(
        "ns", "js-workers-0", blind.jobs.get("ns", "js-workers-0").metadata.uid
    )
    with pytest.raises(FailedWrites) as failed:
        await blind.reconcile()
    assert is_terminal(failed.value)
    sent = len(api.requests)
    for number in range(1, 4):
        blind.jobs.overlay_deleted(
            "ns", f"js-workers-{number}", blind.jobs.get("ns", f"js-workers-{number}").metadata.uid
        )
        await blind.reconcile()
    assert len(api.requests) == sent


class TestUnreadableJobs:
    """A Job that another program has written so that this one cannot read it."""

    async def test_it_is_not_created_again_and_one_warning_names_it(self):
        blind = Blind(MemoryApi(), jobset(rjob("workers", 2)))
        blind.jobs.unreadable["ns", "js-workers-0"] = "Expected `integer`, got `string` - at `$.status.active`"
        blind.jobs.unreadable["ns", "js-workers-2"] = "not one of the set"
        for _ in range(3):
            await blind.reconcile()
        assert [name for _, name in blind.api.objects("jobs")] == ["js-workers-1"]
        [(kind, _, note)] = [event for event in blind.reported.events if event[1] == "UnreadableJob"]
        assert kind == "Warning"
        assert note.startswith("job 'js-workers-0' exists and cannot be read: Expected `integer`, got `string`")
        assert "js-workers-2" not in note

    async def test_it_is_created_when_it_is_gone(self):
        blind = Blind(MemoryApi(), jobset(rjob("workers", 1)))
        blind.jobs.unreadable["ns", "js-workers-0"] = "why"
        await blind.reconcile()
        blind.memory.counts_differ_since = -1.0  # the first counts have waited long enough
        assert await blind.reconcile() == DEFAULT_LIMITS.name_conflict_retry_seconds, "nothing tells when it is gone"
        del blind.jobs.unreadable["ns", "js-workers-0"]
        await blind.reconcile()
        assert ("ns", "js-workers-0") in blind.api.objects("jobs")

    async def test_before_the_watch_shows_it_the_refusal_says_what_is_wrong(self):
        api = MemoryApi()
        blind = Blind(api, jobset(rjob("workers", 2)))
        api.put("jobs", "js-workers-0", status={"active": "many"})
        with pytest.raises(FailedWrites, match="1 of 3 writes failed"):
            await blind.reconcile()
        [note] = [note for _, reason, note in blind.reported.events if reason == keys.JOB_CREATION_FAILED]
        assert "js-workers-0" in note
        assert "the API server's answer cannot be read: Expected `integer`, got `string` - at `$.status.active`" in note
        assert ("ns", "js-workers-1") in api.objects("jobs"), "the others go on"
