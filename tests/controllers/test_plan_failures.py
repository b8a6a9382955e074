"""What a plan does about failed Jobs: fail, restart the set, restart single Jobs."""

from api import keys
from api.features import FeatureGates
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob


class TestEvents:
    def test_each_restart_is_an_event_with_its_own_note(self):
        """By reason alone the second restart would be a mere count on the event of the first."""
        world = World(jobset(rjob("workers", 2), failurePolicy={"maxRestarts": 3}))
        for failed in ("js-workers-0", "js-workers-1"):
            world.settle()
            world.fail(failed)
            world.settle()
            world.collect()
        recorded = [event for event in world.events if event.reason == "RestartJobSetFailurePolicyAction"]
        assert [event.note.endswith(f"(first failed job: js-workers-{n})") for n, event in enumerate(recorded)] == [
            True
        ] * 2
        assert all(event.distinct for event in world.events), "with other words it is another event"


class TestFailure:
    def test_the_earliest_failure_decides(self):
        world = World(jobset(rjob("workers", 3)))
        world.settle()
        world.seconds = 10
        world.fail("js-workers-0")
        world.seconds = 5
        world.fail("js-workers-2")
        world.seconds = 20
        world.settle()
        assert "first failed job: js-workers-2" in world.condition("Failed")[2]

    def test_restarting_ends_when_all_jobs_are_ready(self):
        world = World(jobset(failurePolicy={"maxRestarts": 1}))
        world.settle()
        world.fail("js-workers-0")
        world.settle()
        world.collect()
        world.settle()
        world.run()
        world.settle()
        assert world.condition("RestartingJobSet") == ("False", "JobsReady", "all jobs are ready")

    def test_no_restart_beyond_the_maximum(self):
        world = World(jobset(failurePolicy={"maxRestarts": 1}))
        for _ in range(2):
            world.settle()
            world.fail("js-workers-0")
            world.settle()
            world.collect()
        assert world.status.restarts == 1
        assert world.condition("Failed") == (
            "True",
            "ReachedMaxRestarts",
            "jobset failed due to reaching max number of restarts (first failed job: js-workers-0)",
        )
        assert world.condition("RestartingJobSet") == ("False", "JobSetFailed", "jobset failed")

    def test_a_pattern_that_is_no_re2_never_matches_and_harms_nothing(self):
        rules = [{"name": "bad", "action": "FailJobSet", "onJobFailureMessagePatterns": ["(?=x)", "("]}]
        world = World(jobset(failurePolicy={"maxRestarts": 1, "rules": rules}))
        world.settle()
        world.fail("js-workers-0", message="x (")
        world.settle()
        assert world.status.restarts == 1


class TestRestartJob:
    RULES = {"maxRestarts": 2, "rules": [{"name": "one", "action": "RestartJob"}]}

    def test_counters_stay_when_the_gate_is_turned_off_for_a_while(self):
        """When it is on again, Jobs that were created meanwhile are not created again."""
        world = World(jobset(rjob("workers", 3), failurePolicy=self.RULES), RestartJob=True)
        world.settle()
        world.fail("js-workers-1")
        world.settle()
        world.collect()
        world.settle()
        counted = world.status.replicated_jobs_status[0].job_restarts
        assert counted == (0, 1, 0)
        world.gates = FeatureGates()
        del world.jobs["js-workers-1"]
        world.settle()
        assert world.status.replicated_jobs_status[0].job_restarts == counted
        world.gates = FeatureGates({"RestartJob": True})
        assert world.plan().actions == ()

    def test_counters_are_absent_without_the_gate(self):
        world = World(jobset(rjob("workers", 3)))
        world.settle()
        assert world.status.replicated_jobs_status[0].job_restarts == ()
        assert keys.JOB_RESTART_ATTEMPT not in world.jobs["js-workers-0"]["metadata"]["labels"]
