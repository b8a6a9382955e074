"""What the status remembers of attempts, and for how long: completed Jobs, numbers of runs, how they ended."""

import msgspec
import pytest

from api import keys
from api.pod import DetailedPod as Pod
from controllers.jobset.failed_pods import failed_pod
from controllers.planning.actions import CreateJob, PatchJob
from controllers.planning.decisive_pod import FailedContainer, first_failed_container
from controllers.planning.observed import FailedPod
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

    def test_what_departed_is_written_at_once_however_recent_the_last_write_was(self):
        world = started(rjob("workers", 300))
        world.since_status_write = 0.0
        world.finish("js-workers-7")
        assert world.plan().status is None, "as long as the Job itself shows it"
        world.remove("js-workers-7")
        assert of_type(world.plan(), CreateJob) == []
        assert world.step().status is not None


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


class TestHistory:
    """How the last attempts ended."""

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

    def test_the_pod_that_failed_first_is_the_one_that_is_remembered(self):
        def pod(name: str, *ends: tuple[int, str], kind: str = "containerStatuses") -> FailedPod:
            states = [{"name": "c", "state": {"terminated": {"exitCode": c, "finishedAt": at}}} for c, at in ends]
            meta = {"name": name, "namespace": "ns"}
            raw = {"metadata": meta, "spec": {"nodeName": f"n-{name}"}, "status": {kind: states}}
            return failed_pod(msgspec.convert(raw, Pod))

        late, early = "2026-01-01T00:00:09Z", "2026-01-01T00:00:01Z"
        pods = (
            pod("a", (1, late)),
            pod("b", (0, early), (7, late)),
            pod("c", (3, early), kind="initContainerStatuses"),
        )
        assert first_failed_container(pods) == FailedContainer("c", "n-c", "c", 3)
        assert first_failed_container(pods[:2]) == FailedContainer("a", "n-a", "c", 1), (
            "equal times go to the lower name"
        )
        assert first_failed_container((pod("d", (0, early)),)) == FailedContainer()
