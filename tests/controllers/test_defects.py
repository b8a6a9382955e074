"""The defects of the Go JobSet that a reconcile loop could have: each is shown not to be here.

docs/reference/defects.md lists all of them, with those that are tested elsewhere or cannot occur.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api import keys
from api.batch import Service
from controllers.jobset.execute import PartialFailure
from controllers.planning.actions import CreateClaim, CreateJob, CreateService, DeleteJob, DeleteJobSet, PatchJob
from kube.events import NOTE_LIMIT
from kube.store import ChangeKind
from tests.support.blind import Blind, refusing
from tests.support.lives import ONE_BY_ONE, of_type, started
from tests.support.memory_api import MemoryApi
from tests.support.world import World, jobset, rjob

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "defects.md"
IN_ORDER = {"startupPolicyOrder": "InOrder"}


def pod_spec(world: World, job: str = "js-workers-0") -> dict[str, Any]:
    return world.jobs[job]["spec"]["template"]["spec"]


class TestDefect03:
    """Resume merged where it has to rebuild."""

    TOLERATIONS = [{"key": "spot", "operator": "Exists", "tolerationSeconds": seconds} for seconds in (300, 60)]

    def test_defect_03_resume_removes_what_an_earlier_admission_set(self):
        world = World(jobset(rjob(), suspend=True))
        world.settle()
        job = world.jobs["js-workers-0"]
        before = msgspec.json.decode(msgspec.json.encode(job["spec"]["template"]))
        extra = {"labels": {"queue": "a"}, "annotations": {"flavor": "spot"}}
        pod = {
            "nodeSelector": {"a": "1", "b": "2"},
            "tolerations": self.TOLERATIONS,
            "schedulingGates": [{"name": "g"}],
        }
        admitted = rjob(pod=pod)
        admitted["template"]["spec"]["template"]["metadata"] = extra
        world.edit(suspend=False, replicated_jobs=jobset(admitted).spec.replicated_jobs)
        world.settle()
        template = world.jobs["js-workers-0"]["spec"]["template"]
        assert template["metadata"]["labels"]["queue"] == "a"
        assert template["metadata"]["annotations"]["flavor"] == "spot"
        assert {key: template["spec"][key] for key in pod} == pod
        world.run()
        world.edit(suspend=True, replicated_jobs=jobset(rjob()).spec.replicated_jobs)
        world.settle()
        world.halt()
        world.edit(suspend=False)
        world.settle()
        after = world.jobs["js-workers-0"]["spec"]["template"]
        assert after["metadata"] == before["metadata"]
        assert {key: after["spec"].get(key) or None for key in pod} == dict.fromkeys(pod)

    def test_defect_03_equal_tolerations_are_neither_doubled_nor_written_again(self):
        world = World(jobset(rjob(pod={"tolerations": self.TOLERATIONS}), suspend=True))
        for _ in range(5):
            world.settle()
            world.halt()
            world.edit(suspend=False)
            [patch] = of_type(world.step(), PatchJob)
            assert "template" not in patch.patch["spec"], "nothing differs, so nothing is written"
            world.settle()
            world.run()
            assert pod_spec(world)["tolerations"] == self.TOLERATIONS
            world.edit(suspend=True)


@pytest.mark.parametrize(
    "nothing", ["success_policy", "failure_policy", "startup_policy", "network", "coordinator", "suspend"]
)
@pytest.mark.parametrize("kind", ["Complete", "Failed"])
def test_defect_05_and_36_a_policy_that_was_removed_crashes_nothing(nothing, kind):
    world = started(rjob("workers", 2), failurePolicy={"maxRestarts": 0})
    world.edit(**{nothing: None})
    for name in ("js-workers-0", "js-workers-1"):
        world.finish(name, kind, "BackoffLimitExceeded")
    world.settle()
    assert world.status.terminal_state == {"Complete": "Completed", "Failed": "Failed"}[kind]


def test_defect_08_a_set_without_jobs_completes():
    world = World(jobset(rjob("a", 0), rjob("b", 0)))
    world.settle()
    assert world.condition("Completed") == ("True", "AllJobsCompleted", "jobset completed successfully")
    assert world.jobs == {}


@pytest.mark.parametrize("ttl", [0, 1, 60])
def test_defect_09_a_finished_set_is_deleted_or_looked_at_again_never_neither(ttl):
    world = started(rjob(), ttlSecondsAfterFinished=ttl)
    world.finish("js-workers-0")
    world.seconds += 7
    assert world.step().status is not None
    end = world.seconds
    for world.seconds in range(end, end + ttl + 2):
        plan = world.plan()
        due = bool(of_type(plan, DeleteJobSet))
        assert due == (world.seconds - end >= ttl)
        assert due or world.seconds + plan.requeue_after == end + ttl, "it is looked at when it is due, not before"


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
        assert blind.told.events == []

    async def test_defect_11_a_job_that_exists_and_is_ours_is_no_error(self):
        api = MemoryApi()
        js = jobset(rjob("workers", 3))
        blind = Blind(api, js)
        for name in ("js-workers-0", "js-workers-2"):
            body = next(a.body for a in World(js).plan().actions if isinstance(a, CreateJob) and a.name == name)
            api.put("jobs", name, **{k: v for k, v in body.items() if k != "metadata"}, metadata=body["metadata"])
        assert await blind.reconcile() is None
        assert blind.told.events == []
        assert len(blind.jobs.list("ns")) == 3

    async def test_defect_11_a_foreign_job_is_named_with_its_owner_and_holds_up_nothing_else(self):
        api = MemoryApi()
        blind = Blind(api, jobset(rjob("workers", 3)))
        owner = {"apiVersion": "v1", "kind": "Robot", "name": "marvin", "uid": "42", "controller": True}
        api.put("jobs", "js-workers-1", spec={}, metadata={"ownerReferences": [owner]})
        assert await blind.reconcile() == 0, "found out; the next plan knows of it"
        assert await blind.reconcile() == 10, "it is looked at again, in good time and without an error"
        [(kind, reason, note)] = blind.told.events
        assert (kind, reason) == ("Warning", "JobCreationFailed")
        assert "js-workers-1" in note
        assert "Robot marvin" in note
        assert {name for _, name in api.objects("jobs")} == {f"js-workers-{n}" for n in range(3)}
        asked = len(blind.writes())
        await blind.reconcile()
        assert len(blind.writes()) == asked, "it is not asked for again before that"
        api.drop("jobs", "js-workers-1")
        blind.memory.foreign_until = 0.0
        assert await blind.reconcile() is None
        assert ("ns", "js-workers-1") in api.objects("jobs")

    def test_defect_11_a_foreign_service_is_not_taken_for_ours(self):
        world = World(jobset())
        other = {"apiVersion": "v1", "kind": "Robot", "name": "marvin", "uid": "42", "controller": True}
        meta = {"name": "js", "namespace": "ns", "uid": "s"}
        world.service = msgspec.convert({"metadata": {**meta, "ownerReferences": [other]}}, Service)
        world.settle()
        [warning] = {(w.type, w.reason) for w in world.warnings}
        assert warning == ("Warning", "HeadlessServiceCreationFailed")
        assert "Robot marvin" in world.warnings[0].note
        assert world.live() == ["js-workers-0"]
        world.service = None
        assert of_type(world.step(), CreateService)


def test_defect_12_a_claim_that_exists_is_not_asked_for_again():
    templates = [{"metadata": {"name": name}, "spec": {}} for name in ("data", "model")]
    world = World(jobset(rjob("workers", 3), volumeClaimPolicies=[{"templates": templates}]))
    assert len(of_type(world.step(), CreateClaim)) == 2
    world.run()
    world.settle()
    world.run(ready=False)
    world.settle()
    assert [action for plan in world.plans[1:] for action in plan.actions] == []


def test_defect_13_elastic_sets_that_leave_the_size_out_are_not_patched():
    world = World(jobset(rjob("workers", 3)), ElasticJobSet=True)
    world.settle()
    for job in world.jobs.values():
        job["spec"].update(parallelism=1, completions=1)
    world.run()
    assert of_type(world.step(), PatchJob) == []
    world.settle()


class TestDefect14:
    """What events say."""

    async def test_defect_14_a_percent_sign_is_a_percent_sign(self):
        blind = Blind(refusing(lambda _: "quota 100%!d(string=x) %s"), jobset())
        with pytest.raises(PartialFailure):
            await blind.reconcile()
        [(_, _, note)] = blind.told.events
        assert note == 'job "js-workers-0" creation failed with error: quota 100%!d(string=x) %s'

    async def test_defect_14_and_34_many_failures_fit_into_one_note_and_are_counted(self):
        blind = Blind(refusing(lambda name: f"{name}: {'no' * 100}"), jobset(rjob("workers", 40)))
        with pytest.raises(PartialFailure):
            await blind.reconcile()
        [(_, reason, note)] = blind.told.events
        assert reason == "JobCreationFailed"
        shown = re.findall(r'job "(js-workers-\d+)" creation failed', note)
        assert note.endswith(f"and {40 - len(shown)} more")
        assert shown[0] == "js-workers-0"
        assert len(note.encode()) <= NOTE_LIMIT

    async def test_defect_34_the_status_is_there_although_jobs_are_refused(self):
        blind = Blind(refusing(lambda name: "no"), jobset(rjob("workers", 10)))
        with pytest.raises(PartialFailure):
            await blind.reconcile()
        assert set(blind.replicated_jobs_status()) == {"workers"}


def test_defect_16_ties_do_not_depend_on_the_order_of_the_cache():
    rules = [
        {"name": "first", "action": "FailJobSet", "targetReplicatedJobs": ["b"]},
        {"name": "second", "action": "RestartJobSet"},
    ]
    found = set()
    for order in itertools.permutations(["js-a-0", "js-b-0", "js-b-1", "js-b-2"]):
        world = started(rjob("a"), rjob("b", 3), failurePolicy={"maxRestarts": 1, "rules": rules})
        for name in order[:3]:
            world.fail(name)
        world.jobs = {name: world.jobs[name] for name in order}
        failed = [name for name in sorted(order[:3]) if name.startswith("js-b")]
        world.step()
        found.add((failed[0], world.condition("Failed")))
    message = "applying FailJobSet failure policy action (first failed job: {})"
    assert found == {
        (name, ("True", "FailJobSetFailurePolicyAction", message.format(name))) for name in ("js-b-0", "js-b-1")
    }


class TestDefect17:
    """Success was only remembered through the live Job."""

    def test_defect_17_a_completed_job_that_is_deleted_is_not_run_again(self):
        world = started(rjob("workers", 3))
        world.finish("js-workers-1")
        world.settle()
        del world.jobs["js-workers-1"]
        world.settle()
        assert world.live() == ["js-workers-0", "js-workers-2"]
        assert world.counts()["succeeded"] == 1
        for name in world.live():
            world.finish(name)
            world.settle()
            del world.jobs[name]
            world.settle()
        assert world.status.terminal_state == "Completed"

    def test_defect_17_nor_one_that_is_gone_before_its_success_was_stored(self):
        world = started(rjob("workers", 2))
        world.since_status_write = 0.0
        world.finish("js-workers-1")
        world.remove("js-workers-1")
        world.settle()
        assert world.live() == ["js-workers-0"]
        assert world.counts()["succeeded"] == 1
        world.departed.clear()
        world.settle()
        assert world.live() == ["js-workers-0"]

    def test_defect_17_a_failed_job_that_is_gone_has_failed(self):
        world = started(rjob("workers", 2), failurePolicy={"maxRestarts": 0})
        world.fail("js-workers-1")
        world.remove("js-workers-1")
        world.settle()
        assert "(first failed job: js-workers-1)" in world.condition("Failed")[2]

    async def test_defect_17_the_loop_hears_of_finished_jobs_that_are_deleted(self):
        blind = Blind(MemoryApi(), jobset(rjob("workers", 2)))
        await blind.reconcile()
        job = blind.jobs.get("ns", "js-workers-1")
        done = msgspec.convert({"conditions": [{"type": "Complete", "status": "True"}]}, type(job.status))
        finished = msgspec.structs.replace(job, status=done)
        await blind.reconcile()
        blind.reconciler._job_changed(ChangeKind.DELETED, finished, None)
        blind.jobs.overlay_deleted("ns", "js-workers-1", job.metadata.uid)
        writes = blind.writes()
        await blind.reconcile()
        assert set(blind.writes()[len(writes) :]) == {("patch", "jobsets/js/status")}
        status = blind.replicated_jobs_status()["workers"]
        assert (status["succeeded"], status["completedIndexes"]) == (1, "1")


class TestDefect18:
    """A pod that loses readiness took the start back."""

    DEPENDENT = rjob("b", 2, dependsOn=[{"name": "a", "status": "Ready"}])

    @pytest.mark.parametrize(
        ("rjobs", "policy"),
        [((rjob("a"), rjob("b", 2)), IN_ORDER), ((rjob("a"), DEPENDENT), {})],
        ids=["order", "depends"],
    )
    def test_defect_18_a_blip_blocks_nothing(self, rjobs, policy):
        spec = {"startupPolicy": policy} if policy else {}
        world = started(*rjobs, **spec)
        before = world.status.conditions
        world.run("js-a-0", ready=False)
        world.settle()
        assert world.status.conditions == before
        del world.jobs["js-b-0"]
        del world.jobs["js-b-1"]
        world.settle()
        assert world.live() == ["js-a-0", "js-b-0", "js-b-1"], "even with nothing left that shows what was reached"
        assert world.status.conditions == before

    def test_defect_18_a_condition_that_changes_sides_says_when(self):
        world = World(jobset(rjob("a"), rjob("b"), startupPolicy=IN_ORDER))
        world.settle()
        world.seconds = 100
        world.run("js-a-0")
        world.settle()
        world.run("js-b-0")
        world.settle()
        times = {c.type: c.last_transition_time for c in world.status.conditions}
        assert times == {"StartupPolicyInProgress": world.now, "StartupPolicyCompleted": world.now}


def test_defect_19_suspended_ends_with_the_resume_and_not_with_the_start_of_the_last_stage():
    world = World(jobset(rjob("a"), rjob("b"), startupPolicy=IN_ORDER, suspend=True))
    world.settle()
    world.edit(suspend=False)
    world.settle()
    assert world.jobs["js-b-0"]["spec"]["suspend"], "the second stage waits still"
    assert world.condition("Suspended") == ("False", "ResumeJobs", "jobset is resumed")


async def test_defect_21_counters_are_published_although_a_later_step_fails():
    blind = Blind(
        refusing(lambda name: "bad template" if "broken" in name else None), jobset(rjob("good"), rjob("broken"))
    )
    with pytest.raises(PartialFailure):
        await blind.reconcile()
    blind.change_job("js-good-0", status={"active": 1, "ready": 1})
    with pytest.raises(PartialFailure):
        await blind.reconcile()
    status = blind.replicated_jobs_status()
    assert (status["good"]["ready"], status["good"]["active"], status["broken"]["ready"]) == (1, 1, 0)


def test_defect_23_a_service_that_another_set_has_is_told_and_replaced_when_it_goes():
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
    world.settle()
    world.collect()
    world.settle()
    assert world.live() == ["js-workers-0", "js-workers-1"]


@pytest.mark.parametrize("outcome", ["Complete", "Failed"])
def test_defect_30_a_stray_job_is_told_of_and_goes_when_the_set_has_ended(outcome):
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


def test_defect_31_levels_of_placement_do_not_mix():
    on_set = {keys.EXCLUSIVE_TOPOLOGY: "rack"}
    world = World(jobset(rjob(annotations={keys.NODE_SELECTOR_STRATEGY: "true"}), annotations=on_set))
    world.settle()
    template = world.jobs["js-workers-0"]["spec"]["template"]
    assert template["metadata"]["annotations"][keys.EXCLUSIVE_TOPOLOGY] == "rack"
    assert keys.NODE_SELECTOR_STRATEGY not in template["metadata"]["annotations"]
    assert "nodeSelector" not in template["spec"]
    assert "tolerations" not in template["spec"]


@pytest.mark.parametrize("status", ["Ready", "Complete"])
def test_defect_32_a_replicated_job_that_waits_for_itself_starts(status):
    world = World(jobset(rjob("a"), rjob("b", dependsOn=[{"name": "b", "status": status}])))
    world.settle()
    assert world.live() == ["js-a-0", "js-b-0"]


def test_defect_36_a_success_without_a_policy_completes_the_set_and_leaves_no_job_behind():
    world = started(rjob("workers", 2))
    world.edit(success_policy=None)
    world.finish("js-workers-0")
    world.settle()
    assert world.status.terminal_state == ""
    world.finish("js-workers-1")
    assert of_type(world.step(), DeleteJob) == []
    assert world.status.terminal_state == "Completed"


class TestPage:
    """docs/reference/defects.md says which test holds what."""

    TEXT = PAGE.read_text(encoding="utf-8")

    @classmethod
    def section(cls, title: str) -> str:
        return cls.TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]

    @classmethod
    def rows(cls, title: str) -> list[list[str]]:
        lines = [line for line in cls.section(title).splitlines() if line.startswith("|")]
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]

    @pytest.mark.parametrize(("title", "last"), [("Defects", 37), ("Client contracts", 16)])
    def test_no_number_is_missing(self, title, last):
        assert [int(row[0]) for row in self.rows(title)] == list(range(1, last + 1))

    def test_a_row_without_a_test_says_why(self):
        for title in ("Defects", "Client contracts", "Sequences of clients"):
            for row in self.rows(title):
                assert "`" in row[-1] or row[2].startswith("cannot occur: "), row

    def test_every_test_of_the_page_exists(self):
        short = dict(re.findall(r"`(\w+)`\s+(?:stands\s+)?for\s+`(tests/[\w/]+\.py)`", self.TEXT))
        assert len(short) == 10
        named = re.findall(r"`([\w/.]+)::(\w+)`", self.TEXT)
        assert len(named) > 60
        for where, name in named:
            text = (ROOT / short.get(where, where)).read_text(encoding="utf-8")
            assert re.search(rf"^ *(async )?def {name}\(", text, re.MULTILINE), f"{where}::{name}"

    def test_every_test_that_bears_a_number_is_on_the_page(self):
        found = {
            name
            for path in (ROOT / "tests").rglob("test_*.py")
            for name in re.findall(r"def (test_(?:defect|contract)_\d\d_\w+)", path.read_text(encoding="utf-8"))
        }
        assert {name for name in found if f"::{name}`" not in self.TEXT} == set()
        bare = [name for name in found if name.startswith("test_defect")]
        assert len(bare) > 30
