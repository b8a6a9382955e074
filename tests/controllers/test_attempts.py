"""What the status remembers of attempts, and for how long: completed Jobs, numbers of runs, how they ended."""

from __future__ import annotations

import msgspec
import pytest

from api import keys
from api.pod import DetailedPod as Pod
from controllers.jobset.failed_pods import summary
from controllers.planning.actions import CreateJob, DeleteJob, FailedPodQuery, PatchJob
from controllers.planning.decisive_pod import FailedContainer, first_failed
from controllers.planning.observed import Ended, FailedPod
from controllers.planning.plan import plan
from tests.support.model.lives import ONE_BY_ONE, counts_of, of_type, restart, resume, started, suspend
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob


class TestCompletedJobs:
    """What completed stays completed for the attempt, and not longer."""

    def test_they_are_remembered_as_indexes_in_the_status(self):
        world = started(rjob("workers", 6))
        for index in (0, 2, 3, 4):
            world.finish(f"js-workers-{index}")
        world.settle()
        assert counts_of(world).completed_indexes == "0,2-4"

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
        assert counts_of(world).completed_indexes == ""
        assert world.counts()["succeeded"] == 0

    @pytest.mark.parametrize("action", ["RestartJobSet", "RestartReplicatedJob"])
    def test_an_old_status_does_not_take_a_job_that_is_newer_for_one_that_has_completed(self, action):
        policy = {"maxRestarts": 9, "rules": [{"name": "r", "action": action}]}
        world = started(rjob("workers", 2), gates={"RestartJob": True}, failurePolicy=policy)
        world.finish("js-workers-1")
        world.settle()
        old = world.js
        restart(world, "js-workers-0")
        world.js = old
        assert counts_of(world).completed_indexes == "1"
        assert of_type(world.plan(), DeleteJob) == []

    def test_a_suspension_keeps_them(self):
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
        assert world.plan().status is None, "as long as the Job itself shows it"
        world.remove("js-workers-7")
        assert of_type(world.plan(), CreateJob) == []
        assert world.step().status is not None

    def test_a_job_that_runs_again_after_it_completed_is_deleted(self):
        """Another process saw neither its end nor the completed Job itself; this one has seen it go."""
        world = started(rjob("workers", 2))
        running = dict(world.jobs["js-workers-1"])
        world.finish("js-workers-1")
        world.remove("js-workers-1")
        world.jobs["js-workers-1"] = running | {"metadata": running["metadata"] | {"uid": "of-another-process"}}
        assert [action.name for action in of_type(world.plan(), DeleteJob)] == ["js-workers-1"]
        world.settle()
        assert world.live() == ["js-workers-0"]
        assert counts_of(world).completed_indexes == "1"

    def test_a_dependency_on_completion_holds_after_the_job_is_gone(self):
        world = World(jobset(rjob("data"), rjob("train", dependsOn=[{"name": "data", "status": "Complete"}])))
        world.settle()
        world.finish("js-data-0")
        world.remove("js-data-0")
        world.settle()
        assert world.live() == ["js-train-0"]

    def test_deleted_jobs_of_an_earlier_attempt_do_not_count(self):
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

    def test_a_deleted_failed_job_is_not_judged_again_after_its_single_restart(self):
        world = started(rjob("workers", 2), gates={"RestartJob": True}, failurePolicy=ONE_BY_ONE)
        world.fail("js-workers-1")
        world.remove("js-workers-1")
        world.settle()
        assert counts_of(world).job_restarts == (0, 1)
        assert world.jobs["js-workers-1"]["metadata"]["labels"][keys.JOB_RESTART_ATTEMPT] == "1"
        assert len(world.live()) == 2


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

    def test_it_is_stored_before_any_job_is_resumed_and_not_counted_again_after_a_crash(self):
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
        assert world.status.last_restart.duration_seconds == 37, "a pod that is unready later is no restart"

    def test_an_attempt_says_which_job_pod_node_and_code_it_ended_with(self):
        world = started(rjob("workers", 2), failurePolicy={"maxRestarts": 1})
        world.failed_pods["js-workers-1"] = (FailedPod("js-workers-1-0-abcde", "node-7", (Ended("main", 137),)),)
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
            "container": "main",
            "exitCode": 137,
        }, "attempt 0 is the default"
        world.fail("js-workers-0")
        world.settle()
        assert [(e.attempt, e.reason) for e in world.status.attempt_history] == [
            (0, "DefaultFailurePolicy"),
            (1, "ReachedMaxRestarts"),
        ]

    def test_without_a_failed_pod_the_entry_names_none(self):
        world = started(rjob("workers"), failurePolicy={"maxRestarts": 1})
        restart(world, "js-workers-0")
        assert msgspec.to_builtins(world.status.attempt_history[0]).keys() == {"time", "reason", "message", "failedJob"}

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

    def test_only_a_restart_of_the_set_asks_for_the_pods_of_the_deciding_job(self):
        world = started(rjob("workers", 3), gates={"RestartJob": True}, failurePolicy=ONE_BY_ONE)
        world.fail("js-workers-2")
        world.fail("js-workers-1")
        observed = world.observe()
        assert plan(observed, world.gates).pod_query is None, "single restarts leave no trace in the history"
        world.step()
        world.collect()
        world.settle()
        world.collect()
        world.settle()
        world.fail("js-workers-0")
        pod_query = plan(world.observe(), world.gates).pod_query
        assert pod_query == FailedPodQuery((("js-workers-0", world.jobs["js-workers-0"]["metadata"]["uid"]),))

    def test_the_pod_that_failed_first_is_the_one_that_is_remembered(self):
        def pod(name: str, *ends: tuple[int, str], kind: str = "containerStatuses") -> FailedPod:
            states = [{"name": "c", "state": {"terminated": {"exitCode": c, "finishedAt": at}}} for c, at in ends]
            meta = {"name": name, "namespace": "ns"}
            raw = {"metadata": meta, "spec": {"nodeName": f"n-{name}"}, "status": {kind: states}}
            return summary(msgspec.convert(raw, Pod))

        late, early = "2026-01-01T00:00:09Z", "2026-01-01T00:00:01Z"
        pods = (
            pod("a", (1, late)),
            pod("b", (0, early), (7, late)),
            pod("c", (3, early), kind="initContainerStatuses"),
        )
        assert first_failed(pods) == FailedContainer("c", "n-c", "c", 3)
        assert first_failed(pods[:2]) == FailedContainer("a", "n-a", "c", 1), "equal times go to the lower name"
        assert first_failed((pod("d", (0, early)),)) == FailedContainer()
