"""Policies in combination: what is remembered, what is forgotten, and by which moment (behaviour section 5)."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest

from api import keys
from api.batch import Service
from api.pod import Pod
from controllers.jobset.actions import (
    CreateClaim,
    CreateJob,
    CreateService,
    DeleteJob,
    Evidence,
    PatchJob,
    Question,
)
from controllers.jobset.evidence import first_failed
from controllers.jobset.plan import FOREIGN_RETRY, plan
from tests.support.blind import Blind
from tests.support.memory_api import MemoryApi
from tests.support.world import World, jobset, rjob

IN_ORDER = {"startupPolicyOrder": "InOrder"}
CLAIM = {"metadata": {"name": "data"}, "spec": {}}


def of_type(plan, kind):
    return [action for action in plan.actions if isinstance(action, kind)]


def started(*rjobs, gates: dict[str, bool] | None = None, **spec: Any) -> World:
    """A set that has come all the way up."""
    world = World(jobset(*rjobs, **spec), **(gates or {}))
    for _ in range(len(rjobs) + 1):
        world.settle()
        world.run()
    world.settle()
    return world


def suspend(world: World) -> None:
    """Suspend, until the Job controller has ended the pods and said so."""
    world.edit(suspend=True)
    world.settle()
    world.halt()
    world.settle()


def resume(world: World, **spec: Any) -> None:
    world.edit(suspend=False, **spec)
    world.settle()


def restart(world: World, name: str, message: str = "boom") -> None:
    """Fail a Job and let the garbage collector make room for the next attempt."""
    world.fail(name, message=message)
    world.settle()
    world.collect()
    world.settle()


def of(world: World, name: str = "workers"):
    return next(s for s in world.status.replicated_jobs_status if s.name == name)


class TestCompletedJobs:
    """What completed stays completed for the attempt, and not longer."""

    def test_they_are_remembered_as_indexes_in_the_status(self):
        world = started(rjob("workers", 6))
        for index in (0, 2, 3, 4):
            world.finish(f"js-workers-{index}")
        world.settle()
        assert of(world).completed_indexes == "0,2-4"

    @pytest.mark.parametrize("seen", [True, False], ids=["stored-before", "gone-at-once"])
    def test_a_restart_forgets_them(self, seen):
        world = started(rjob("workers", 3), failurePolicy={"maxRestarts": 1})
        world.finish("js-workers-1")
        if seen:
            world.settle()
        world.remove("js-workers-1")
        world.settle()
        restart(world, "js-workers-0")
        assert world.live() == ["js-workers-0", "js-workers-1", "js-workers-2"]
        assert of(world).completed_indexes == ""
        assert world.counts()["succeeded"] == 0

    def test_a_suspension_does_not(self):
        world = started(rjob("workers", 2))
        world.finish("js-workers-0")
        world.settle()
        world.remove("js-workers-0")
        suspend(world)
        assert world.counts() == {"ready": 0, "succeeded": 1, "failed": 0, "active": 0, "suspended": 1}
        resume(world)
        assert world.live() == ["js-workers-1"]

    def test_what_departed_is_written_at_once_however_recent_the_last_write_was(self):
        world = started(rjob("workers", 300))
        world.since_status_write = 0.0
        world.finish("js-workers-7")
        assert world.plan().status is None, "as long as the Job itself can tell"
        world.remove("js-workers-7")
        assert of_type(world.plan(), CreateJob) == []
        assert world.step().status is not None

    def test_a_dependency_on_completion_holds_after_the_job_is_gone(self):
        world = World(jobset(rjob("data"), rjob("train", dependsOn=[{"name": "data", "status": "Complete"}])))
        world.settle()
        world.finish("js-data-0")
        world.remove("js-data-0")
        world.settle()
        assert world.live() == ["js-train-0"]

    def test_departed_jobs_of_an_earlier_attempt_tell_nothing(self):
        world = started(rjob("workers", 2), failurePolicy={"maxRestarts": 3})
        restart(world, "js-workers-0")
        old = msgspec.json.decode(msgspec.json.encode(world.jobs["js-workers-1"]))
        old["metadata"]["labels"][keys.RESTART_ATTEMPT] = "0"
        for kind in ("Complete", "Failed"):
            old["status"] = {"conditions": [{"type": kind, "status": "True"}]}
            world.departed[kind] = old
        before = world.status
        world.settle()
        assert world.status == before

    def test_a_single_restart_does_not_bring_the_failure_back_when_the_failed_job_is_gone(self):
        world = started(rjob("workers", 2), gates={"RestartJob": True}, failurePolicy=ONE_BY_ONE)
        world.fail("js-workers-1")
        world.remove("js-workers-1")
        world.settle()
        assert of(world).job_restarts == (0, 1)
        assert world.jobs["js-workers-1"]["metadata"]["labels"][keys.JOB_RESTART_ATTEMPT] == "1"
        assert len(world.live()) == 2


ONE_BY_ONE = {"maxRestarts": 2, "rules": [{"name": "one", "action": "RestartJob"}]}


class TestOrder:
    """Once reached, reached for the attempt."""

    AFTER_READY = [{"name": "a", "status": "Ready"}]

    @pytest.fixture(params=["InOrder", "dependsOn"])
    def rjobs_and_policy(self, request):
        if request.param == "InOrder":
            return (rjob("a"), rjob("b")), {"startupPolicy": IN_ORDER}
        return (rjob("a"), rjob("b", dependsOn=self.AFTER_READY)), {}

    def test_it_is_enforced_anew_after_a_restart(self, rjobs_and_policy):
        rjobs, policy = rjobs_and_policy
        world = started(*rjobs, failurePolicy={"maxRestarts": 1}, **policy)
        restart(world, "js-b-0")
        assert world.live() == ["js-a-0"]
        world.run("js-a-0")
        world.settle()
        assert world.live() == ["js-a-0", "js-b-0"]

    def test_it_is_enforced_anew_after_a_suspension(self, rjobs_and_policy):
        rjobs, policy = rjobs_and_policy
        world = started(*rjobs, **policy)
        suspend(world)
        resume(world)
        assert [name for name, job in world.jobs.items() if job["spec"]["suspend"]] == ["js-b-0"]
        world.run("js-a-0")
        world.settle()
        assert not world.jobs["js-b-0"]["spec"]["suspend"]

    def test_pods_that_are_about_to_go_do_not_count_as_ready(self, rjobs_and_policy):
        rjobs, policy = rjobs_and_policy
        world = started(*rjobs, **policy)
        world.edit(suspend=True)
        world.settle()
        assert world.jobs["js-a-0"]["status"]["ready"] == 1, "the Job controller has not come to it yet"
        plan = world.plan()
        world.edit(suspend=False)
        plan = world.plan()
        resumed = [patch.name for patch in of_type(plan, PatchJob) if patch.patch["spec"] == {"suspend": False}]
        assert resumed == ["js-a-0"]

    def test_a_replicated_job_without_replicas_holds_nobody_up(self):
        world = World(jobset(rjob("a", 0), rjob("b"), startupPolicy=IN_ORDER))
        world.settle()
        assert world.live() == ["js-b-0"]

    def test_a_blip_before_the_next_stage_exists_blocks_it_not(self):
        world = World(jobset(rjob("a"), rjob("b"), rjob("c"), startupPolicy=IN_ORDER))
        world.settle()
        world.run("js-a-0")
        world.settle()
        del world.jobs["js-b-0"]
        world.run("js-a-0", ready=False)
        world.settle()
        assert world.live() == ["js-a-0", "js-b-0"]
        world.run("js-b-0")
        world.settle()
        assert "js-c-0" in world.live()

    def test_what_an_earlier_version_started_counts_as_started(self):
        world = started(rjob("a"), rjob("b"), rjob("c"), startupPolicy=IN_ORDER)
        forgotten = [msgspec.structs.replace(s, started=False) for s in world.status.replicated_jobs_status]
        status = msgspec.structs.replace(world.status, replicated_jobs_status=tuple(forgotten))
        world.js = msgspec.structs.replace(world.js, status=status)
        world.run("js-a-0", ready=False)
        before = world.status.conditions
        world.settle()
        assert world.status.conditions == before

    def test_five_dependencies_are_all_waited_for(self):
        names = ["d0", "d1", "d2", "d3", "d4"]
        depends = [{"name": name, "status": "Complete" if name < "d3" else "Ready"} for name in names]
        world = World(jobset(*map(rjob, names), rjob("z", dependsOn=depends)))
        world.settle()
        for number, name in enumerate(names):
            assert "js-z-0" not in world.live()
            world.finish(f"js-{name}-0") if number < 3 else world.run(f"js-{name}-0")
            world.settle()
        assert "js-z-0" in world.live()


class TestExecutionAttempts:
    """KEP-1282: one number for each run."""

    def test_the_first_run_is_number_0(self):
        world = World(jobset())
        world.settle()
        assert world.status.execution_attempts == 0

    def test_a_set_that_is_created_suspended_has_none_until_it_runs(self):
        world = World(jobset(suspend=True))
        world.settle()
        assert world.status.execution_attempts is None
        resume(world)
        assert world.status.execution_attempts == 0

    def test_each_resume_and_each_restart_counts_once(self):
        world = started(rjob("workers", 2), failurePolicy={"maxRestarts": 9})
        for expected in range(1, 7):
            if expected % 2:
                suspend(world)
                assert world.status.execution_attempts == expected - 1, "a suspension is no run"
                resume(world)
            else:
                restart(world, "js-workers-0")
            world.run()
            world.settle()
            assert world.status.execution_attempts == expected

    def test_a_single_restart_does_not_count(self):
        world = started(rjob("workers", 2), gates={"RestartJob": True}, failurePolicy=ONE_BY_ONE)
        restart(world, "js-workers-0")
        assert world.status.execution_attempts == 0

    def test_a_set_that_ran_before_anybody_counted_starts_at_its_restarts(self):
        world = started(rjob("workers"), failurePolicy={"maxRestarts": 9})
        for _ in range(2):
            restart(world, "js-workers-0")
        status = msgspec.structs.replace(world.status, execution_attempts=None)
        world.js = msgspec.structs.replace(world.js, status=status)
        world.settle()
        assert world.status.execution_attempts == 2

    @pytest.mark.parametrize("gate", [True, False])
    def test_jobs_and_pods_carry_it_with_the_gate_only(self, gate):
        world = started(rjob("workers"), gates={"ExecutionAttemptsTracking": gate}, failurePolicy={"maxRestarts": 9})
        for attempt in range(4):
            job = world.jobs["js-workers-0"]
            for meta in (job["metadata"], job["spec"]["template"]["metadata"]):
                assert meta["annotations"].get(keys.EXECUTION_ATTEMPT) == (str(attempt) if gate else None)
                assert keys.EXECUTION_ATTEMPT not in meta["labels"]
            if attempt % 2:
                restart(world, "js-workers-0")
            else:
                suspend(world)
                resume(world)
            world.run()
            world.settle()

    def test_it_is_stored_before_any_job_is_resumed_and_a_crash_in_between_does_not_count_again(self):
        world = started(rjob("workers", 3), gates={"ExecutionAttemptsTracking": True})
        suspend(world)
        world.edit(suspend=False)
        plan = world.plan()
        assert plan.status_first
        assert plan.status.execution_attempts == 1
        world._keep(plan)
        world._do(of_type(plan, PatchJob)[1])
        world.settle()
        assert world.status.execution_attempts == 1
        stamps = {job["metadata"]["annotations"][keys.EXECUTION_ATTEMPT] for job in world.jobs.values()}
        assert stamps == {"1"}
        assert not any(job["spec"]["suspend"] for job in world.jobs.values())

    def test_the_status_of_other_plans_follows_their_actions(self):
        world = World(jobset(failurePolicy={"maxRestarts": 1}))
        world.settle()
        world.fail("js-workers-0")
        world.settle()
        assert not any(plan.status_first for plan in world.plans)


class TestHistory:
    """How the last attempts ended."""

    def test_the_last_restart_has_its_reason_and_once_all_are_ready_its_duration(self):
        rules = [{"name": "again", "action": "RestartJobSet"}]
        world = started(rjob("workers", 2), failurePolicy={"maxRestarts": 9, "rules": rules})
        assert world.status.last_restart is None
        world.seconds = 100
        world.fail("js-workers-0")
        world.settle()
        began = world.now
        assert world.status.last_restart.reason == "FailurePolicy_again"
        assert world.status.last_restart.start_time == began
        world.seconds = 137
        world.collect()
        world.settle()
        assert world.status.last_restart.duration_seconds is None
        world.run()
        world.settle()
        assert world.status.last_restart.duration_seconds == 37
        world.seconds = 500
        world.run(ready=False)
        world.settle()
        world.run()
        world.settle()
        assert world.status.last_restart.duration_seconds == 37, "a later blip is no restart"

    def test_an_attempt_says_which_job_pod_node_and_code_it_ended_with(self):
        world = started(rjob("workers", 2), failurePolicy={"maxRestarts": 1})
        world.evidence = Evidence(pod="js-workers-1-0-abcde", node="node-7", exit_code=137)
        world.seconds = 60
        restart(world, "js-workers-1", message="pod died")
        [entry] = world.status.attempt_history
        assert msgspec.to_builtins(entry) == {
            "time": "2026-01-01T00:01:00Z",
            "reason": "DefaultFailurePolicy",
            "message": "BackoffLimitExceeded: pod died",
            "failedJob": "js-workers-1",
            "pod": "js-workers-1-0-abcde",
            "node": "node-7",
            "exitCode": 137,
        }, "attempt 0 is the default"
        world.fail("js-workers-0")
        world.settle()
        assert [(e.attempt, e.reason) for e in world.status.attempt_history] == [
            (0, "DefaultFailurePolicy"),
            (1, "ReachedMaxRestarts"),
        ]

    def test_an_exit_code_of_0_and_no_exit_code_are_told_apart(self):
        entry = [Evidence(exit_code=code) for code in (0, None)]
        found = []
        for evidence in entry:
            world = started(rjob("workers"), failurePolicy={"maxRestarts": 1})
            world.evidence = evidence
            restart(world, "js-workers-0")
            found.append(msgspec.to_builtins(world.status.attempt_history[0]).get("exitCode"))
        assert found == [0, None]

    def test_it_holds_the_last_ten(self):
        world = started(rjob("workers"), failurePolicy={"maxRestarts": 99})
        for _ in range(13):
            restart(world, "js-workers-0")
        assert [entry.attempt for entry in world.status.attempt_history] == list(range(3, 13))

    @pytest.mark.parametrize("letter", ["x", "ä", "漢", "🚀"])
    def test_a_long_message_is_cut_between_characters(self, letter):
        world = started(rjob("workers"), failurePolicy={"maxRestarts": 9})
        restart(world, "js-workers-0", message=letter * 5000)
        message = world.status.attempt_history[0].message
        assert 1020 < len(message.encode()) <= 1024
        assert message == ("BackoffLimitExceeded: " + letter * 5000)[: len(message)]

    def test_the_question_is_about_the_job_that_decided_and_is_asked_only_about_the_whole_set(self):
        world = started(rjob("workers", 3), gates={"RestartJob": True}, failurePolicy=ONE_BY_ONE)
        world.fail("js-workers-2")
        world.fail("js-workers-1")
        observed = world.observe()
        assert plan(observed, world.gates).question is None, "single restarts leave no trace in the history"
        world.step()
        world.collect()
        world.settle()
        world.collect()
        world.settle()
        world.fail("js-workers-0")
        question = plan(world.observe(), world.gates).question
        assert question == Question("js-workers-0", world.jobs["js-workers-0"]["metadata"]["uid"])

    def test_the_pod_that_failed_first_is_the_evidence(self):
        def pod(name: str, *ends: tuple[int, str], kind: str = "containerStatuses") -> Pod:
            states = [{"name": "c", "state": {"terminated": {"exitCode": c, "finishedAt": at}}} for c, at in ends]
            meta = {"name": name, "namespace": "ns"}
            return msgspec.convert({"metadata": meta, "spec": {"nodeName": f"n-{name}"}, "status": {kind: states}}, Pod)

        late, early = "2026-01-01T00:00:09Z", "2026-01-01T00:00:01Z"
        pods = (
            pod("a", (1, late)),
            pod("b", (0, early), (7, late)),
            pod("c", (3, early), kind="initContainerStatuses"),
        )
        assert first_failed(pods) == Evidence("c", "n-c", 3)
        assert first_failed(pods[:2]) == Evidence("a", "n-a", 1), "equal times go to the lower name"
        assert first_failed((pod("d", (0, early)),)) == Evidence()


class TestSuspension:
    """Nothing runs, nothing drifts."""

    def test_with_create_jobs_on_resume_nothing_is_created_for_a_queued_set(self):
        js = jobset(rjob("workers", 3), suspend=True, volumeClaimPolicies=[{"templates": [CLAIM]}])
        world = World(js)
        world.create_suspended = False
        world.settle()
        assert [action for plan in world.plans for action in plan.actions] == []
        assert world.condition("Suspended")[0] == "True"
        assert world.counts() == dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0)
        resume(world)
        assert len(world.live()) == 3
        assert not any(job["spec"]["suspend"] for job in world.jobs.values())
        kinds = {type(action) for plan in world.plans for action in plan.actions}
        assert kinds == {CreateJob, CreateService, CreateClaim}, "no Job is created and then patched"

    def test_with_create_jobs_on_resume_running_sets_are_suspended_as_ever_and_not_filled_up(self):
        world = started(rjob("workers", 3))
        world.create_suspended = False
        del world.jobs["js-workers-1"]
        suspend(world)
        assert world.live() == ["js-workers-0", "js-workers-2"]
        assert world.counts()["suspended"] == 2
        resume(world)
        assert len(world.live()) == 3

    def test_a_thousand_flips_with_changing_admissions_leave_no_drift(self):
        world = World(jobset(rjob("workers", 2), suspend=True), ExecutionAttemptsTracking=True)
        world.settle()
        before = msgspec.json.encode(world.jobs["js-workers-0"]["spec"]["template"]["spec"])
        for flip in range(1000):
            pod = {"nodeSelector": {f"flavor-{flip % 7}": "x"}, "schedulingGates": [{"name": f"g{flip % 3}"}]}
            resume(world, replicated_jobs=jobset(rjob("workers", 2, pod=pod)).spec.replicated_jobs)
            world.run()
            spec = world.jobs["js-workers-1"]["spec"]["template"]["spec"]
            assert {key: spec[key] for key in pod} == pod
            world.edit(suspend=True, replicated_jobs=jobset(rjob("workers", 2)).spec.replicated_jobs)
            world.settle()
            world.halt()
        resume(world)
        world.plans.clear()
        world.events.clear()
        assert world.status.execution_attempts == 1000
        spec = world.jobs["js-workers-0"]["spec"]["template"]["spec"]
        assert msgspec.json.encode({k: v for k, v in spec.items() if v}) == before
        assert len(world.status.conditions) == 1
        assert len(world.live()) == 2

    def test_suspended_again_in_mid_resume_leaves_none_running(self):
        world = started(rjob("workers", 5))
        suspend(world)
        world.edit(suspend=False)
        plan = world.plan()
        world._keep(plan)
        for patch in of_type(plan, PatchJob)[:3]:
            world._do(patch)
        suspend(world)
        assert all(job["spec"]["suspend"] for job in world.jobs.values())
        assert world.condition("Suspended")[0] == "True"
        resume(world)
        assert not any(job["spec"]["suspend"] for job in world.jobs.values())
        assert world.status.execution_attempts == 2, "both resumes were runs"

    def test_jobs_that_finished_or_are_being_deleted_are_left_alone(self):
        world = started(rjob("workers", 4), failurePolicy={"maxRestarts": 9})
        world.finish("js-workers-0")
        world.jobs["js-workers-1"]["metadata"]["deletionTimestamp"] = world.now
        world.edit(suspend=True)
        assert [patch.name for patch in of_type(world.step(), PatchJob)] == ["js-workers-2", "js-workers-3"]


class TestResources:
    """KEP-1150: amounts that changed while suspended reach the Jobs on resume."""

    GATE = {"MutablePodResourcesForSuspendedJobSets": True}

    @staticmethod
    def sized(cpu: str, *, init: str = "1", gates: tuple[str, ...] = ()) -> dict[str, Any]:
        main = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
        side = {"name": "side", "image": "busybox"}
        setup = {"name": "setup", "image": "busybox", "resources": {"limits": {"cpu": init}}}
        held = {"schedulingGates": [{"name": name} for name in gates]} if gates else {}
        return rjob("workers", 2, pod={"containers": [main, side], "initContainers": [setup], **held})

    def test_they_follow_by_the_name_of_the_container(self):
        world = World(jobset(self.sized("1"), suspend=True), **self.GATE)
        world.settle()
        containers = world.jobs["js-workers-0"]["spec"]["template"]["spec"]["containers"]
        containers.insert(0, {"name": "injected", "image": "mesh", "resources": {"requests": {"cpu": "9"}}})
        wanted = jobset(self.sized("2", init="3", gates=("a",))).spec.replicated_jobs
        resume(world, replicated_jobs=wanted)
        spec = world.jobs["js-workers-0"]["spec"]["template"]["spec"]
        found = {c["name"]: c.get("resources") for c in [*spec["containers"], *spec["initContainers"]]}
        assert found == {
            "injected": {"requests": {"cpu": "9"}},
            "main": {"requests": {"cpu": "2"}},
            "side": {},
            "setup": {"limits": {"cpu": "3"}},
        }
        assert spec["schedulingGates"] == [{"name": "a"}]
        patches = [patch for plan in world.plans for patch in of_type(plan, PatchJob)]
        assert all(patch.resources and patch.template_changed for patch in patches)

    def test_gates_of_an_earlier_admission_go_with_a_strategic_patch_too(self):
        world = World(jobset(self.sized("1", gates=("a", "b")), suspend=True), **self.GATE)
        world.settle()
        resume(world, replicated_jobs=jobset(self.sized("1", gates=("c",))).spec.replicated_jobs)
        assert world.jobs["js-workers-0"]["spec"]["template"]["spec"]["schedulingGates"] == [{"name": "c"}]

    def test_without_the_gate_they_stay(self):
        world = World(jobset(self.sized("1"), suspend=True))
        world.settle()
        resume(world, replicated_jobs=jobset(self.sized("2")).spec.replicated_jobs)
        main = world.jobs["js-workers-0"]["spec"]["template"]["spec"]["containers"][0]
        assert main["resources"] == {"requests": {"cpu": "1"}}
        assert not any(patch.resources for plan in world.plans for patch in of_type(plan, PatchJob))


class TestElastic:
    """Gate ElasticJobSet: running sets follow their size."""

    GATE = {"ElasticJobSet": True}

    @staticmethod
    def resized(*rjobs: dict[str, Any]) -> Any:
        return jobset(*rjobs).spec.replicated_jobs

    def test_parallelism_and_completions_of_running_jobs_follow(self):
        world = started(rjob("workers", 2, parallelism=2, completions=2), gates=self.GATE)
        world.edit(replicated_jobs=self.resized(rjob("workers", 2, parallelism=5, completions=5)))
        world.settle()
        sizes = {(j["spec"]["parallelism"], j["spec"]["completions"]) for j in world.jobs.values()}
        assert sizes == {(5, 5)}

    def test_a_template_that_drops_its_size_means_one_pod(self):
        world = started(rjob("workers", 1, parallelism=3, completions=3), gates=self.GATE)
        world.edit(replicated_jobs=self.resized(rjob("workers", 1)))
        world.settle()
        assert world.jobs["js-workers-0"]["spec"]["completions"] == 1

    @pytest.mark.parametrize("size", [{"parallelism": 2, "completions": 4}, {"parallelism": 2}])
    def test_jobs_whose_sizes_differ_are_left_alone(self, size):
        world = started(rjob("workers", 1, parallelism=1, completions=1), gates=self.GATE)
        world.edit(replicated_jobs=self.resized(rjob("workers", 1, **size)))
        assert of_type(world.step(), PatchJob) == []

    def test_more_replicas_are_created_and_labels_that_state_totals_follow(self):
        world = started(rjob("a", 1), rjob("workers", 2), rjob("z", 1), gates=self.GATE)
        world.edit(replicated_jobs=self.resized(rjob("a", 1), rjob("workers", 4), rjob("z", 1)))
        world.settle()
        assert [n for n in world.live() if "workers" in n] == [f"js-workers-{i}" for i in range(4)]
        for index, job in enumerate(
            world.jobs[name] for name in ("js-a-0", *(f"js-workers-{i}" for i in range(4)), "js-z-0")
        ):
            for where in ("labels", "annotations"):
                found = job["metadata"][where]
                assert found[keys.GLOBAL_REPLICAS] == "6"
                assert found[keys.JOB_GLOBAL_INDEX] == str(index)
                assert found[keys.GROUP_REPLICAS] == "6"
                assert found[keys.JOB_GROUP_INDEX] == str(index)
        assert world.jobs["js-workers-0"]["metadata"]["labels"][keys.REPLICATED_JOB_REPLICAS] == "4"
        template = world.jobs["js-z-0"]["spec"]["template"]["metadata"]["labels"]
        assert template[keys.GLOBAL_REPLICAS] == "4", "pods keep what was true when they were created"

    def test_fewer_replicas_delete_the_highest_first(self):
        world = started(rjob("workers", 5), gates=self.GATE)
        world.edit(replicated_jobs=self.resized(rjob("workers", 2)))
        plan = world.step()
        assert [action.name for action in of_type(plan, DeleteJob)] == ["js-workers-4", "js-workers-3", "js-workers-2"]
        world.settle()
        assert world.live() == ["js-workers-0", "js-workers-1"]
        assert world.counts()["ready"] == 2
        world.collect()
        world.edit(replicated_jobs=self.resized(rjob("workers", 3)))
        world.settle()
        assert world.live() == ["js-workers-0", "js-workers-1", "js-workers-2"]

    def test_up_again_while_the_old_one_is_in_deletion_waits_for_its_name(self):
        world = started(rjob("workers", 2), gates=self.GATE)
        world.edit(replicated_jobs=self.resized(rjob("workers", 1)))
        world.settle()
        world.edit(replicated_jobs=self.resized(rjob("workers", 2)))
        world.settle()
        assert world.live() == ["js-workers-0"]
        world.collect()
        world.settle()
        assert world.live() == ["js-workers-0", "js-workers-1"]

    def test_when_the_last_unfinished_jobs_are_taken_away_the_set_is_done(self):
        world = started(rjob("workers", 3), gates=self.GATE)
        world.finish("js-workers-0")
        world.settle()
        world.edit(replicated_jobs=self.resized(rjob("workers", 1)))
        world.settle()
        assert world.status.terminal_state == "Completed"

    def test_a_failure_of_a_job_that_is_taken_away_does_not_count(self):
        world = started(rjob("workers", 2), gates=self.GATE)
        world.fail("js-workers-1")
        world.edit(replicated_jobs=self.resized(rjob("workers", 1)))
        world.settle()
        assert world.status.terminal_state == ""
        assert world.live() == ["js-workers-0"]

    def test_the_next_attempt_has_the_new_size(self):
        world = started(rjob("workers", 2), gates=self.GATE, failurePolicy={"maxRestarts": 1})
        world.edit(replicated_jobs=self.resized(rjob("workers", 3)))
        world.settle()
        restart(world, "js-workers-0")
        assert len(world.live()) == 3
        labels = {j["spec"]["template"]["metadata"]["labels"][keys.GLOBAL_REPLICAS] for j in world.jobs.values()}
        assert labels == {"3"}

    def test_single_restarts_are_counted_for_the_new_jobs_too(self):
        gates = {**self.GATE, "RestartJob": True}
        world = started(rjob("workers", 1), gates=gates, failurePolicy={**ONE_BY_ONE, "maxRestarts": 9})
        restart(world, "js-workers-0")
        world.edit(replicated_jobs=self.resized(rjob("workers", 3)))
        world.settle()
        restart(world, "js-workers-2")
        assert of(world).job_restarts == (1, 0, 1)
        world.edit(replicated_jobs=self.resized(rjob("workers", 1)))
        world.settle()
        world.collect()
        restart(world, "js-workers-0")
        assert of(world).job_restarts[0] == 2

    def test_without_the_gate_nothing_follows_and_it_is_said(self):
        world = started(rjob("workers", 2))
        world.edit(replicated_jobs=self.resized(rjob("workers", 1, parallelism=3, completions=3)))
        assert world.step().actions == ()
        assert world.warnings[-1].reason == "StrayJob"


class TestForeign:
    """Objects of others that bear a name of ours."""

    def test_jobs_are_named_with_their_owners_and_waited_for(self):
        world = World(jobset(rjob("workers", 9)))
        world.foreign = {f"js-workers-{n}": "CronJob nightly" for n in range(7)}
        plan = world.step()
        assert [action.name for action in of_type(plan, CreateJob)] == ["js-workers-7", "js-workers-8"]
        assert plan.requeue_after == FOREIGN_RETRY
        [warning] = plan.warnings
        assert (warning.type, warning.reason) == ("Warning", "JobCreationFailed")
        assert warning.note.startswith('job "js-workers-0" belongs to CronJob nightly, job "js-workers-1"')
        assert "and 2 more: delete or rename it, or rename the JobSet" in warning.note
        assert plan.status is not None, "the rest of the set goes on and is counted"
        world.foreign = {}
        world.settle()
        assert len(world.live()) == 9
        assert world.plans[-1].requeue_after is None

    def test_jobs_of_an_earlier_set_of_our_name_are_waited_for_in_silence(self):
        world = World(jobset(rjob("workers", 2)))
        world.foreign = {"js-workers-0": "JobSet js"}
        plan = world.step()
        assert plan.warnings == ()
        assert plan.requeue_after == FOREIGN_RETRY
        assert world.live() == ["js-workers-1"]

    @pytest.mark.parametrize(
        ("owner", "selector", "warned"),
        [
            (None, {keys.JOBSET_NAME: "js"}, False),
            (None, {"app": "web"}, True),
            (None, {}, True),
            (None, {keys.JOBSET_NAME: "js", "app": "web"}, True),
            (("JobSet", "js"), {keys.JOBSET_NAME: "js"}, False),
            (("JobSet", "other"), {keys.JOBSET_NAME: "other"}, True),
            (("Robot", "js"), {keys.JOBSET_NAME: "js"}, True),
        ],
    )
    def test_a_service_serves_if_it_is_made_by_hand_for_us_or_on_its_way_out(self, owner, selector, warned):
        world = World(jobset())
        meta: dict[str, Any] = {"name": "js", "namespace": "ns", "uid": "s"}
        if owner:
            ref = {"apiVersion": keys.API_VERSION, "kind": owner[0], "name": owner[1], "uid": "u", "controller": True}
            meta["ownerReferences"] = [ref]
        world.service = msgspec.convert({"metadata": meta, "spec": {"selector": selector}}, Service)
        world.settle()
        assert {w.reason for w in world.warnings} == ({"HeadlessServiceCreationFailed"} if warned else set())
        if warned:
            whose = " ".join(owner) if owner else "nobody"
            assert f"Service js exists already and belongs to {whose}:" in world.warnings[0].note
            assert "spec.network.subdomain" in world.warnings[0].note
        assert world.live() == ["js-workers-0"], "the Jobs run all the same"

    def test_strays_are_listed_and_counted(self):
        world = started(rjob("workers", 1))
        for number in range(8):
            stray = msgspec.json.decode(msgspec.json.encode(world.jobs["js-workers-0"]))
            stray["metadata"].update(name=f"stray-{number}", uid=f"s-{number}")
            world.jobs[f"stray-{number}"] = stray
        [warning] = world.step().warnings
        assert warning.reason == "StrayJob"
        assert warning.note.startswith("job 'stray-0', job 'stray-1'")
        assert "job 'stray-4' and 3 more: " in warning.note
        world.finish("js-workers-0")
        world.finish("stray-3")
        world.settle()
        assert world.live() == ["js-workers-0", "stray-3"], "what has finished is kept, as of ours"

    async def test_a_warning_is_recorded_once_for_as_long_as_it_says_the_same(self):
        blind = Blind(MemoryApi(), jobset(rjob("workers", 2), rjob("b", 1)))
        await blind.reconcile()
        for index, told in (("x", 1), ("x", 1), ("0", 1), ("x", 2)):
            blind.change_job("js-workers-0", metadata={"labels": {keys.JOB_INDEX: index}})
            for _ in range(2):
                await blind.reconcile()
            assert [reason for _, reason, _ in blind.told.events] == ["StrayJob"] * told


class TestFailures:
    """Several at once, and rules that cannot be followed."""

    def test_each_of_several_failures_in_one_round_counts(self):
        rules = [
            {"name": "free", "action": "RestartJobAndIgnoreMaxRestarts", "targetReplicatedJobs": ["a"]},
            {"name": "paid", "action": "RestartJob"},
        ]
        policy = {"maxRestarts": 2, "rules": rules}
        world = started(rjob("a", 2), rjob("b", 2), gates={"RestartJob": True}, failurePolicy=policy)
        for name in world.live():
            world.fail(name)
        plan = world.step()
        assert plan.status.terminal_state == ""
        assert (of(world, "a").job_restarts, of(world, "a").job_restarts_count_towards_max) == ((1, 1), ())
        assert (of(world, "b").job_restarts, of(world, "b").job_restarts_count_towards_max) == ((1, 1), (1, 1))
        assert [event.reason for event in plan.events] == [
            "RestartJobAndIgnoreMaxRestartsFailurePolicyAction",
            "RestartJobAndIgnoreMaxRestartsFailurePolicyAction",
            "RestartJobFailurePolicyAction",
            "RestartJobFailurePolicyAction",
        ]

    def test_one_restart_of_the_set_settles_all_failures_with_one_count(self):
        world = started(rjob("workers", 4), failurePolicy={"maxRestarts": 1})
        for name in world.live():
            world.fail(name)
        world.settle()
        assert (world.status.restarts, world.status.terminal_state) == (1, "")

    def test_single_restarts_before_the_one_of_the_set_keep_their_count(self):
        rules = [
            {"name": "one", "action": "RestartJob", "targetReplicatedJobs": ["a"]},
            {"name": "all", "action": "RestartJobSet"},
        ]
        policy = {"maxRestarts": 3, "rules": rules}
        world = started(rjob("a"), rjob("b"), gates={"RestartJob": True}, failurePolicy=policy)
        world.fail("js-a-0")
        world.fail("js-b-0")
        world.settle()
        assert (world.status.restarts, of(world, "a").job_restarts) == (1, (1,))
        world.collect()
        world.settle()
        assert world.jobs["js-a-0"]["metadata"]["labels"][keys.JOB_RESTART_ATTEMPT] == "1"

    def test_failures_come_before_success(self):
        world = started(rjob("a"), rjob("b"), successPolicy={"operator": "Any"})
        world.finish("js-a-0")
        world.fail("js-b-0")
        world.settle()
        assert world.status.terminal_state == "Failed"

    def test_a_rule_that_needs_a_gate_is_said_and_waits_without_a_loop(self):
        world = started(rjob("workers", 2), failurePolicy=ONE_BY_ONE)
        world.fail("js-workers-1")
        plans = [world.step() for _ in range(3)]
        assert [plan.actions for plan in plans] == [(), (), ()]
        assert [plan.requeue_after for plan in plans] == [None] * 3
        assert [plan.status is None for plan in plans] == [False, True, True]
        assert {(w.reason, w.note.split(":")[0]) for plan in plans for w in plan.warnings} == {
            (
                "FeatureGateDisabled",
                "Job js-workers-1 failed and a rule asks for RestartJob, which needs the feature gate RestartJob",
            )
        }
        assert world.counts()["failed"] == 1

    def test_the_budget_with_and_without_single_restarts(self):
        world = started(rjob("workers", 2), gates={"RestartJob": True}, failurePolicy={**ONE_BY_ONE, "maxRestarts": 1})
        restart(world, "js-workers-0")
        assert world.status.terminal_state == ""
        world.fail("js-workers-1")
        world.settle()
        assert world.condition("Failed")[1] == "ReachedMaxRestarts"

    def test_reasons_of_future_versions_can_be_named(self):
        rules = [{"name": "x", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy_oom"]}]
        world = started(rjob("workers"), failurePolicy={"maxRestarts": 9, "rules": rules})
        world.fail("js-workers-0", reason="PodFailurePolicy_oom")
        world.settle()
        assert world.status.terminal_state == "Failed"


class TestWithoutReplicas:
    def test_zero_replicas_beside_others_take_part_with_zeros(self):
        world = started(rjob("none", 0), rjob("workers", 1))
        assert world.counts("none") == dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0)
        world.finish("js-workers-0")
        world.settle()
        assert world.status.terminal_state == "Completed"

    def test_a_suspended_set_without_jobs_waits_for_its_admission(self):
        world = World(jobset(rjob("none", 0), suspend=True))
        world.settle()
        assert world.status.terminal_state == ""
        assert world.condition("Suspended")[0] == "True"


def test_a_plan_is_made_of_its_observation_alone():
    world = started(rjob("workers", 3), failurePolicy={"maxRestarts": 1})
    world.fail("js-workers-1")
    observed = dataclasses.replace(world.observe(), evidence=Evidence())
    one, other = (plan(observed, world.gates) for _ in range(2))
    assert (one.status, one.events, one.actions) == (other.status, other.events, other.actions)
