"""What a plan does about failed Jobs: fail, restart the set, restart single Jobs."""

from api import keys
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob


class TestFailure:
    def test_restarting_ends_when_all_jobs_are_ready(self):
        world = World(jobset(failurePolicy={"maxRestarts": 1}))
        world.settle()
        world.fail("js-workers-0")
        world.settle()
        world.collect()
        world.start_jobs()
        assert world.condition("RestartingJobSet") == ("False", "JobsReady", "all jobs are ready")

    def test_a_pattern_that_is_no_re2_never_matches_and_harms_nothing(self):
        rules = [{"name": "bad", "action": "FailJobSet", "onJobFailureMessagePatterns": ["(?=x)", "("]}]
        world = World(jobset(failurePolicy={"maxRestarts": 1, "rules": rules}))
        world.settle()
        world.fail("js-workers-0", message="x (")
        world.settle()
        assert world.status.restarts == 1


class TestRestartJob:
    RULES = {"maxRestarts": 2, "rules": [{"name": "one", "action": "RestartJob"}]}

    def test_counters_are_absent_without_the_gate(self):
        world = World(jobset(rjob("workers", 3)))
        world.settle()
        assert world.status.replicated_jobs_status[0].job_restarts == ()
        assert keys.JOB_RESTART_ATTEMPT not in world.jobs["js-workers-0"]["metadata"]["labels"]
