"""The defects of the Go JobSet in what a reconcile loop decides: each is shown not to be here.

docs/reference/defects.md lists all of them, with those that are tested elsewhere or cannot occur.
"""

import itertools
from typing import Any

import msgspec
import pytest

from controllers.planning.actions import DeleteJob, DeleteJobSet, PatchJob
from kube.store import ChangeKind
from tests.support.model.blind import Blind
from tests.support.model.lives import of_type, started
from tests.support.model.memory_api import MemoryApi
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob

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


def test_defect_13_elastic_sets_that_leave_the_size_out_are_not_patched():
    world = World(jobset(rjob("workers", 3)), ElasticJobSet=True)
    world.settle()
    for job in world.jobs.values():
        job["spec"].update(parallelism=1, completions=1)
    world.run()
    assert of_type(world.step(), PatchJob) == []
    world.settle()


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

    def test_defect_17_a_completed_job_that_goes_before_it_is_recorded_is_not_run_again(self):
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

    async def test_defect_17_deleted_finished_jobs_are_reported_to_the_loop(self):
        blind = Blind(MemoryApi(), jobset(rjob("workers", 2)))
        await blind.reconcile()
        job = blind.jobs.get("ns", "js-workers-1")
        done = msgspec.convert({"conditions": [{"type": "Complete", "status": "True"}]}, type(job.status))
        finished = msgspec.structs.replace(job, status=done)
        await blind.reconcile()
        blind.reconciler.memories.on_job_event(ChangeKind.DELETED, finished, None)
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
    def test_defect_18_a_pod_that_is_unready_for_a_moment_blocks_nothing(self, rjobs, policy):
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

    def test_defect_18_a_condition_that_changes_has_a_new_transition_time(self):
        world = World(jobset(rjob("a"), rjob("b"), startupPolicy=IN_ORDER))
        world.settle()
        world.seconds = 100
        world.run("js-a-0")
        world.settle()
        world.run("js-b-0")
        world.settle()
        times = {c.type: c.last_transition_time for c in world.status.conditions}
        assert times == {"StartupPolicyInProgress": world.now, "StartupPolicyCompleted": world.now}


def test_defect_19_suspended_ends_with_the_resume_and_not_with_the_last_stage():
    world = World(jobset(rjob("a"), rjob("b"), startupPolicy=IN_ORDER, suspend=True))
    world.settle()
    world.edit(suspend=False)
    world.settle()
    assert world.jobs["js-b-0"]["spec"]["suspend"], "the second stage waits still"
    assert world.condition("Suspended") == ("False", "ResumeJobs", "jobset is resumed")


@pytest.mark.parametrize("status", ["Ready", "Complete"])
def test_defect_32_a_replicated_job_that_waits_for_itself_starts(status):
    world = World(jobset(rjob("a"), rjob("b", dependsOn=[{"name": "b", "status": status}])))
    world.settle()
    assert world.live() == ["js-a-0", "js-b-0"]


def test_defect_36_success_without_a_policy_completes_the_set_and_leaves_no_job():
    world = started(rjob("workers", 2))
    world.edit(success_policy=None)
    world.finish("js-workers-0")
    world.settle()
    assert world.status.terminal_state == ""
    world.finish("js-workers-1")
    assert of_type(world.step(), DeleteJob) == []
    assert world.status.terminal_state == "Completed"
