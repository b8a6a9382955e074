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
    def test_without_a_policy_the_first_failed_job_fails_the_set(self):
        world = World(jobset(rjob("workers", 2)))
        world.settle()
        world.fail("js-workers-1")
        world.settle()
        message = "jobset failed due to one or more job failures (first failed job: js-workers-1)"
        assert world.condition("Failed") == ("True", "FailedJobs", message)
        assert world.status.terminal_state == "Failed"
        assert (world.events[-1].type, world.events[-1].note) == ("Warning", message)
        assert world.live() == ["js-workers-1"]

    def test_equal_times_are_decided_by_the_global_index(self):
        world = World(jobset(rjob("driver", 1), rjob("workers", 3)))
        world.settle()
        for name in ("js-workers-2", "js-workers-0", "js-driver-0"):
            world.fail(name)
        world.settle()
        assert "first failed job: js-driver-0" in world.condition("Failed")[2]

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

    def test_restart_deletes_every_job_and_creates_each_again_when_it_is_gone(self):
        world = World(jobset(rjob("workers", 2), failurePolicy={"maxRestarts": 3}))
        world.settle()
        world.finish("js-workers-0")
        world.fail("js-workers-1")
        world.settle()
        assert (world.status.restarts, world.status.restarts_count_towards_max) == (1, 1)
        assert world.live() == []
        del world.jobs["js-workers-0"]
        world.settle()
        assert world.live() == ["js-workers-0"], "Recreate does not wait for the others"
        assert world.jobs["js-workers-0"]["metadata"]["labels"][keys.RESTART_ATTEMPT] == "1"

    def test_blocking_recreate_waits_until_all_old_jobs_are_gone(self):
        policy = {"maxRestarts": 1, "restartStrategy": "BlockingRecreate"}
        world = World(jobset(rjob("workers", 2), failurePolicy=policy))
        world.settle()
        world.fail("js-workers-1")
        world.settle()
        del world.jobs["js-workers-0"]
        world.settle()
        assert world.live() == []
        world.collect()
        world.settle()
        assert world.live() == ["js-workers-0", "js-workers-1"]

    def test_restart_is_reported_by_condition_then_action_event(self):
        world = World(jobset(failurePolicy={"maxRestarts": 1}))
        world.settle()
        world.fail("js-workers-0")
        world.step()
        message = "applying RestartJobSet failure policy action (first failed job: js-workers-0)"
        assert world.condition("RestartingJobSet") == ("True", "DefaultFailurePolicy", message)
        assert [(e.type, e.reason, e.note) for e in world.events] == [
            ("Warning", "DefaultFailurePolicy", message),
            ("Warning", "RestartJobSetFailurePolicyAction", message),
        ]

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

    def test_ignored_restarts_are_not_counted(self):
        rules = [{"name": "free", "action": "RestartJobSetAndIgnoreMaxRestarts"}]
        world = World(jobset(failurePolicy={"maxRestarts": 0, "rules": rules}))
        for _ in range(3):
            world.settle()
            world.fail("js-workers-0")
            world.settle()
            world.collect()
        assert (world.status.restarts, world.status.restarts_count_towards_max) == (3, 0)
        assert world.condition("RestartingJobSet")[1] == "FailurePolicy_free"

    def test_the_first_rule_that_matches_decides_with_its_own_earliest_job(self):
        rules = [
            {"name": "oom", "action": "FailJobSet", "onJobFailureMessagePatterns": ["OOM.*[0-9]$"]},
            {"name": "rest", "action": "RestartJobSet"},
        ]
        world = World(jobset(rjob("workers", 2), failurePolicy={"maxRestarts": 5, "rules": rules}))
        world.settle()
        world.fail("js-workers-0", message="plain")
        world.seconds = 5
        world.fail("js-workers-1", message="pod died: OOMKilled with 137")
        world.settle()
        assert world.condition("Failed") == (
            "True",
            "FailJobSetFailurePolicyAction",
            "applying FailJobSet failure policy action (first failed job: js-workers-1)",
        )

    def test_rules_match_reason_and_target_together(self):
        rules = [
            {
                "name": "gone",
                "action": "FailJobSet",
                "onJobFailureReasons": ["PodFailurePolicy"],
                "targetReplicatedJobs": ["driver"],
            }
        ]
        for name, reason, fails in (
            ("js-driver-0", "PodFailurePolicy", True),
            ("js-driver-0", "BackoffLimitExceeded", False),
            ("js-workers-0", "PodFailurePolicy", False),
        ):
            world = World(jobset(rjob("driver"), rjob(), failurePolicy={"maxRestarts": 5, "rules": rules}))
            world.settle()
            world.fail(name, reason=reason)
            world.settle()
            assert (world.status.terminal_state == "Failed") is fails, (name, reason)

    def test_a_pattern_that_is_no_re2_never_matches_and_harms_nothing(self):
        rules = [{"name": "bad", "action": "FailJobSet", "onJobFailureMessagePatterns": ["(?=x)", "("]}]
        world = World(jobset(failurePolicy={"maxRestarts": 1, "rules": rules}))
        world.settle()
        world.fail("js-workers-0", message="x (")
        world.settle()
        assert world.status.restarts == 1


class TestRestartJob:
    RULES = {"maxRestarts": 2, "rules": [{"name": "one", "action": "RestartJob"}]}

    def test_only_the_failed_jobs_are_recreated_each_counted(self):
        world = World(jobset(rjob("workers", 3), failurePolicy=self.RULES), RestartJob=True)
        world.settle()
        world.fail("js-workers-0")
        world.fail("js-workers-2")
        world.step()
        assert world.status.replicated_jobs_status[0].job_restarts == (1, 0, 1), "both in one round"
        world.settle()
        assert world.live() == ["js-workers-1"]
        world.collect()
        world.settle()
        status = world.status.replicated_jobs_status[0]
        assert status.job_restarts == (1, 0, 1)
        assert status.job_restarts_count_towards_max == (1, 0, 1)
        assert world.status.restarts == 0
        labels = world.jobs["js-workers-2"]["metadata"]["labels"]
        assert labels[keys.JOB_RESTART_ATTEMPT] == "1"
        assert labels[keys.RESTART_ATTEMPT] == "0"

    def test_the_budget_is_shared_by_all_jobs(self):
        world = World(jobset(rjob("workers", 3), failurePolicy=self.RULES), RestartJob=True)
        world.settle()
        for name in world.live():
            world.fail(name)
        world.settle()
        assert world.condition("Failed")[1] == "ReachedMaxRestarts"

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
