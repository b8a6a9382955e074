"""The defects of the Go JobSet about caches, refusals, events and objects of others: each is shown not to be here."""

import re

import msgspec
import pytest

from api import keys
from api.batch import Service
from controllers.jobset.execute import FailedWrites
from controllers.jobset.memory import ExpiringValue
from controllers.planning.actions import CreateClaim, CreateJob, CreateService
from kube.events import NOTE_LIMIT
from tests.support.model.blind import Blind, refusing
from tests.support.model.lives import ONE_BY_ONE, of_type, started
from tests.support.model.memory_api import MemoryApi
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob


class TestDefect11:
    """No read-your-writes, and objects of others in the way."""

    async def test_defect_11_nothing_is_written_again_because_a_watch_is_late(self):
        blind = Blind(MemoryApi(), jobset(rjob("workers", 30)))
        await blind.reconcile()
        writes = blind.writes()
        assert writes.count(("create", "jobs")) == 30
        assert writes.count(("create", "services")) == 1
        for _ in range(3):
            await blind.reconcile()
        assert blind.writes() == writes
        assert blind.reported.events == []

    async def test_defect_11_a_job_that_exists_and_is_ours_is_no_error(self):
        api = MemoryApi()
        js = jobset(rjob("workers", 3))
        blind = Blind(api, js)
        for name in ("js-workers-0", "js-workers-2"):
            action = next(a for a in World(js).plan().actions if isinstance(a, CreateJob) and a.name == name)
            body = action.build_body()
            api.put("jobs", name, **{k: v for k, v in body.items() if k != "metadata"}, metadata=body["metadata"])
        assert await blind.reconcile() == 0.5, "the first counts wait for those that change with them"
        assert blind.reported.events == []
        assert len(blind.jobs.list("ns")) == 3

    async def test_defect_11_a_foreign_job_is_named_with_its_owner_and_holds_up_nothing_else(self):
        api = MemoryApi()
        blind = Blind(api, jobset(rjob("workers", 3)))
        owner = {"apiVersion": "v1", "kind": "Robot", "name": "marvin", "uid": "42", "controller": True}
        api.put("jobs", "js-workers-1", spec={}, metadata={"ownerReferences": [owner]})
        assert await blind.reconcile() == 0, "found out; the next plan knows of it"
        assert await blind.reconcile() == 10, "it is looked at again, in good time and without an error"
        [(kind, reason, note)] = blind.reported.events
        assert (kind, reason) == ("Warning", "JobCreationFailed")
        assert "js-workers-1" in note
        assert "Robot marvin" in note
        assert {name for _, name in api.objects("jobs")} == {f"js-workers-{n}" for n in range(3)}
        asked = len(blind.writes())
        await blind.reconcile()
        assert len(blind.writes()) == asked, "it is not asked for again before that"
        api.drop("jobs", "js-workers-1")
        blind.memory.foreign_owners = ExpiringValue({}, 0.0)
        assert await blind.reconcile() is None
        assert ("ns", "js-workers-1") in api.objects("jobs")


def test_defect_12_a_claim_that_exists_is_not_asked_for_again():
    templates = [{"metadata": {"name": name}, "spec": {}} for name in ("data", "model")]
    world = World(jobset(rjob("workers", 3), volumeClaimPolicies=[{"templates": templates}]))
    assert len(of_type(world.step(), CreateClaim)) == 2
    world.run()
    world.settle()
    world.run(ready=False)
    world.settle()
    assert [action for plan in world.plans[1:] for action in plan.actions] == []
    assert world.claims == {"data-js", "model-js"}


class TestDefect14:
    """What events say."""

    async def test_defect_14_a_percent_sign_is_a_percent_sign(self):
        blind = Blind(refusing(lambda _: "quota 100%!d(string=x) %s"), jobset())
        with pytest.raises(FailedWrites):
            await blind.reconcile()
        [(_, _, note)] = blind.reported.events
        assert note == 'job "js-workers-0" creation failed with error: quota 100%!d(string=x) %s'

    async def test_defect_14_and_34_many_failures_fit_into_one_note_and_are_counted(self):
        blind = Blind(refusing(lambda name: f"{name}: {'no' * 100}"), jobset(rjob("workers", 40)))
        with pytest.raises(FailedWrites):
            await blind.reconcile()
        [(_, reason, note)] = blind.reported.events
        assert reason == "JobCreationFailed"
        shown = re.findall(r'job "(js-workers-\d+)" creation failed', note)
        assert note.endswith(f"and {40 - len(shown)} more")
        assert shown[0] == "js-workers-0"
        assert len(note.encode()) <= NOTE_LIMIT


async def test_defect_21_counters_are_published_although_a_later_step_fails():
    blind = Blind(
        refusing(lambda name: "bad template" if "broken" in name else None), jobset(rjob("good"), rjob("broken"))
    )
    with pytest.raises(FailedWrites):
        await blind.reconcile()
    blind.change_job("js-good-0", status={"active": 1, "ready": 1})
    with pytest.raises(FailedWrites):
        await blind.reconcile()
    status = blind.replicated_jobs_status()
    assert (status["good"]["ready"], status["good"]["active"], status["broken"]["ready"]) == (1, 1, 0)


def test_defect_23_a_service_of_another_set_is_reported_and_replaced_when_it_goes():
    network = {"enableDNSHostnames": True, "subdomain": "shared"}
    world = World(jobset(network=network))
    owner = {"apiVersion": keys.API_VERSION, "kind": keys.KIND, "name": "first", "uid": "1", "controller": True}
    meta = {"name": "shared", "namespace": "ns", "uid": "s", "ownerReferences": [owner]}
    selector = {keys.JOBSET_NAME: "first"}
    world.service = msgspec.convert({"metadata": meta, "spec": {"selector": selector}}, Service)
    world.settle()
    assert "belongs to JobSet first" in world.warnings[0].note
    world.service = None
    [creation] = of_type(world.step(), CreateService)
    assert creation.body["spec"]["selector"] == {keys.JOBSET_NAME: "js"}


@pytest.mark.parametrize("label", [keys.RESTART_ATTEMPT, keys.JOB_INDEX, keys.REPLICATED_JOB_NAME])
@pytest.mark.parametrize("value", ["x", "", "1_0", " 0", "٣", "9" * 40, None])
@pytest.mark.parametrize("gates", [{}, {"RestartJob": True}], ids=["plain", "RestartJob"])
def test_defect_29_one_job_with_unreadable_labels_stops_nothing(label, value, gates):
    world = World(jobset(rjob("workers", 3), failurePolicy={"maxRestarts": 1}), **gates)
    world.settle()
    labels = world.jobs["js-workers-1"]["metadata"]["labels"]
    labels.pop(label) if value is None else labels.update({label: value})
    world.run("js-workers-0", "js-workers-2")
    world.settle()
    assert world.counts()["ready"] == 2
    assert {w.reason for w in world.warnings} == {"StrayJob"}
    assert "'js-workers-1'" in world.warnings[-1].note
    del world.jobs["js-workers-1"]
    world.settle()
    assert len(world.live()) == 3
    assert world.plans[-1].warnings == ()


def test_defect_29_an_unreadable_counter_of_single_restarts_is_as_good_as_none():
    world = World(jobset(rjob("workers", 2), failurePolicy=ONE_BY_ONE), RestartJob=True)
    world.settle()
    world.jobs["js-workers-1"]["metadata"]["labels"][keys.JOB_RESTART_ATTEMPT] = "x"
    world.fail("js-workers-0")
    world.replace_jobs()
    assert world.live() == ["js-workers-0", "js-workers-1"]


@pytest.mark.parametrize("outcome", ["Complete", "Failed"])
def test_defect_30_a_stray_job_is_reported_and_deleted_when_the_set_has_ended(outcome):
    world = started(rjob("workers"))
    stray = msgspec.json.decode(msgspec.json.encode(world.jobs["js-workers-0"]))
    stray["metadata"].update(name="js-workers-7", uid="stray")
    stray["metadata"]["labels"][keys.JOB_INDEX] = "7"
    world.jobs["js-workers-7"] = stray
    world.settle()
    assert world.counts()["active"] == 1, "it is not counted"
    assert [w.reason for w in world.warnings] == ["StrayJob"]
    assert "'js-workers-7'" in world.warnings[0].note
    assert "js-workers-7" in world.live()
    world.finish("js-workers-0", outcome, "BackoffLimitExceeded")
    world.settle()
    assert world.live() == ["js-workers-0"]
