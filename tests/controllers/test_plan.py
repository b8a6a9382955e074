"""What a plan asks for, step by step, on the model of tests/support/world.py (docs/reference/lifecycle.md)."""

from api import keys
from controllers.planning.actions import CreateJob, CreateService, DeleteJob, DeleteJobSet, PatchJob
from tests.support.world import World, jobset, rjob

WORKERS_3 = rjob("workers", 3, parallelism=2, completions=2)


def of_type(plan, kind):
    return [action for action in plan.actions if isinstance(action, kind)]


class TestCreation:
    def test_creates_the_service_and_every_job_in_one_round(self):
        world = World(jobset(rjob("driver"), WORKERS_3))
        plan = world.step()
        assert len(of_type(plan, CreateService)) == 1
        assert [a.name for a in of_type(plan, CreateJob)] == [
            "js-driver-0",
            "js-workers-0",
            "js-workers-1",
            "js-workers-2",
        ]

    def test_first_status_has_a_zero_entry_for_every_replicated_job_by_name_descending(self):
        world = World(jobset(rjob("driver"), WORKERS_3))
        world.step()
        assert [s.name for s in world.status.replicated_jobs_status] == ["workers", "driver"]
        assert world.counts("driver") == {"ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}

    def test_nothing_is_left_to_do_after_creation(self):
        world = World(jobset(WORKERS_3))
        world.settle()
        assert world.plans[-1].actions == ()
        assert world.plans[-1].status is None

    def test_only_a_missing_job_is_created_again(self):
        world = World(jobset(WORKERS_3))
        world.settle()
        del world.jobs["js-workers-1"]
        assert [a.name for a in of_type(world.step(), CreateJob)] == ["js-workers-1"]

    def test_a_job_in_deletion_keeps_its_name_taken(self):
        world = World(jobset(WORKERS_3))
        world.settle()
        world.jobs["js-workers-1"]["metadata"]["deletionTimestamp"] = world.now
        assert of_type(world.step(), CreateJob) == []

    def test_no_service_without_dns_hostnames(self):
        world = World(jobset(network={"enableDNSHostnames": False}))
        assert of_type(world.step(), CreateService) == []
        assert "subdomain" not in world.jobs["js-workers-0"]["spec"]["template"]["spec"]

    def test_deleted_service_is_created_again(self):
        world = World(jobset())
        world.settle()
        world.service = None
        assert len(of_type(world.step(), CreateService)) == 1

    def test_a_jobset_in_deletion_is_left_alone(self):
        world = World(jobset())
        body = world.js
        meta = type(body.metadata)(name="js", namespace="ns", uid="js-uid", deletion_timestamp=world.now)
        world.js = type(body)(metadata=meta, spec=body.spec)
        assert world.step().actions == ()

    def test_claims_are_created_once(self):
        policies = [{"templates": [{"metadata": {"name": "data"}, "spec": {"resources": {}}}]}]
        world = World(jobset(volumeClaimPolicies=policies))
        world.settle()
        assert world.claims == {"data-js"}


class TestOddObjects:
    def test_a_job_with_an_unreadable_attempt_does_not_stop_the_others(self):
        world = World(jobset(rjob("workers", 2)))
        world.settle()
        world.jobs["js-workers-0"]["metadata"]["labels"][keys.RESTART_ATTEMPT] = "1_0"
        world.run("js-workers-1")
        world.settle()
        assert world.counts()["ready"] == 1

    def test_a_stray_job_of_no_replicated_job_is_not_counted_and_not_deleted(self):
        world = World(jobset())
        world.settle()
        stray = {**world.jobs["js-workers-0"], "metadata": {**world.jobs["js-workers-0"]["metadata"], "name": "x"}}
        stray["metadata"]["labels"] = {**stray["metadata"]["labels"], keys.REPLICATED_JOB_NAME: "gone"}
        world.jobs["x"] = stray
        world.settle()
        assert "x" in world.live()


class TestCounters:
    def test_a_job_is_ready_when_all_pods_it_wants_at_once_are_ready_or_done(self):
        world = World(jobset(WORKERS_3))
        world.settle()
        world.run("js-workers-0")
        world.jobs["js-workers-1"]["status"] = {"active": 1, "ready": 1, "succeeded": 1}
        world.jobs["js-workers-2"]["status"] = {"active": 2, "ready": 1}
        world.settle()
        assert world.counts() == {"ready": 2, "succeeded": 0, "failed": 0, "active": 3, "suspended": 0}

    def test_pods_beyond_completions_are_not_waited_for(self):
        world = World(jobset(rjob("workers", 1, parallelism=5, completions=2)))
        world.settle()
        world.jobs["js-workers-0"]["status"] = {"active": 2, "ready": 2}
        world.settle()
        assert world.counts()["ready"] == 1

    def test_counts_alone_wait_for_the_next_write(self):
        world = World(jobset(rjob("workers", 300)))
        world.settle()
        world.since_status_write = 0.4
        world.run("js-workers-7")
        plan = world.step()
        assert plan.status is None
        assert 2.5 < plan.requeue_after <= 2.6

    def test_the_last_job_that_gets_ready_is_told_at_once(self):
        world = World(jobset(rjob("workers", 300)))
        world.settle()
        world.since_status_write = 0
        world.run()
        assert world.step().status is not None

    def test_nothing_active_any_more_is_told_at_once(self):
        world = World(jobset(rjob("workers", 300)))
        world.settle()
        world.run()
        world.settle()
        world.since_status_write = 0
        for job in world.jobs.values():
            job["status"] = {}
        assert world.step().status is not None

    def test_jobs_that_finish_one_by_one_are_not_told_one_by_one(self):
        world = World(jobset(rjob("workers", 300)))
        world.settle()
        world.run()
        world.settle()
        world.since_status_write = 0
        world.finish("js-workers-0")
        assert world.step().status is None


class TestSuccess:
    def test_all_jobs_have_to_succeed_by_default(self):
        world = World(jobset(rjob("workers", 2)))
        world.settle()
        world.finish("js-workers-0")
        world.settle()
        assert world.status.terminal_state == ""
        world.finish("js-workers-1")
        world.settle()
        assert world.condition("Completed") == ("True", "AllJobsCompleted", "jobset completed successfully")
        assert world.status.terminal_state == "Completed"
        assert world.events[-1].reason == "AllJobsCompleted"

    def test_any_targeted_job_is_enough_with_operator_any(self):
        policy = {"operator": "Any", "targetReplicatedJobs": ["driver"]}
        world = World(jobset(rjob("driver", 2), rjob("workers", 2), successPolicy=policy))
        world.settle()
        world.finish("js-workers-0")
        world.settle()
        assert world.status.terminal_state == ""
        world.finish("js-driver-1")
        world.settle()
        assert world.status.terminal_state == "Completed"

    def test_active_jobs_are_deleted_when_the_set_is_done_and_finished_ones_stay(self):
        policy = {"operator": "All", "targetReplicatedJobs": ["driver"]}
        world = World(jobset(rjob("driver"), rjob("workers", 2), successPolicy=policy))
        world.settle()
        world.run("js-workers-0")
        world.finish("js-driver-0")
        world.settle()
        assert world.live() == ["js-driver-0"]
        world.collect()
        world.settle()
        assert world.live() == ["js-driver-0"], "nothing is created after the end"

    def test_a_null_success_policy_means_all(self):
        world = World(jobset(rjob("workers", 1), successPolicy=None))
        world.settle()
        world.finish("js-workers-0")
        world.settle()
        assert world.status.terminal_state == "Completed"

    def test_a_set_without_any_job_is_done_once_it_may_run(self):
        world = World(jobset(rjob("workers", 0), suspend=True))
        world.settle()
        assert world.status.terminal_state == ""
        world.edit(suspend=False)
        world.settle()
        assert world.status.terminal_state == "Completed"

    def test_a_target_without_jobs_completes_nothing_by_itself(self):
        world = World(
            jobset(rjob("a", 0), rjob("b", 1), successPolicy={"operator": "All", "targetReplicatedJobs": ["a"]})
        )
        world.run()
        world.settle()
        assert world.status.terminal_state == ""


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

    def test_restart_deletes_every_job_and_creates_each_anew_when_it_is_gone(self):
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

    def test_restart_is_told_by_condition_then_action_event(self):
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

    def test_counters_are_absent_without_the_gate(self):
        world = World(jobset(rjob("workers", 3)))
        world.settle()
        assert world.status.replicated_jobs_status[0].job_restarts == ()
        assert keys.JOB_RESTART_ATTEMPT not in world.jobs["js-workers-0"]["metadata"]["labels"]


class TestSuspension:
    def test_created_suspended(self):
        world = World(jobset(rjob("workers", 2), suspend=True))
        world.settle()
        assert all(job["spec"]["suspend"] for job in world.jobs.values())
        assert world.condition("Suspended") == ("True", "SuspendedJobs", "jobset is suspended")
        assert world.counts()["suspended"] == 2

    def test_suspend_patches_every_running_job_once(self):
        world = World(jobset(rjob("workers", 3)))
        world.settle()
        world.run()
        world.settle()
        world.edit(suspend=True)
        assert len(of_type(world.step(), PatchJob)) == 3
        world.settle()
        world.halt()
        world.settle()
        assert world.counts() == {"ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 3}

    def test_resume_says_so(self):
        world = World(jobset(rjob("workers", 2), suspend=True))
        world.settle()
        world.edit(suspend=False)
        world.settle()
        assert not any(job["spec"]["suspend"] for job in world.jobs.values())
        assert world.condition("Suspended") == ("False", "ResumeJobs", "jobset is resumed")

    def test_no_false_suspended_condition_for_a_set_that_never_was(self):
        world = World(jobset())
        world.settle()
        assert world.condition("Suspended") is None

    def admitted(self, world, selector, tolerations):
        """A queue changes the five fields and resumes, as Kueue does."""
        pod = {"nodeSelector": selector, "tolerations": tolerations}
        world.edit(suspend=False, replicated_jobs=jobset(rjob("workers", 2, pod=pod)).spec.replicated_jobs)
        world.settle()

    def test_resume_rebuilds_what_an_earlier_admission_set(self):
        world = World(jobset(rjob("workers", 2), suspend=True))
        world.settle()
        spot = [{"key": "spot", "operator": "Exists"}]
        self.admitted(world, {"flavor": "spot", "zone": "a"}, spot)
        world.run()
        world.settle()
        world.edit(suspend=True)
        world.settle()
        world.halt()
        self.admitted(world, {"flavor": "on-demand"}, [])
        spec = world.jobs["js-workers-0"]["spec"]["template"]["spec"]
        assert spec["nodeSelector"] == {"flavor": "on-demand"}
        assert not spec.get("tolerations")

    def test_resume_with_another_template_waits_for_the_old_pods(self):
        world = World(jobset(rjob("workers", 2), suspend=True))
        world.settle()
        self.admitted(world, {"flavor": "spot"}, [])
        world.run()
        world.settle()
        world.edit(suspend=True)
        world.settle()
        self.admitted(world, {"flavor": "on-demand"}, [])
        assert all(job["spec"]["suspend"] for job in world.jobs.values())
        world.halt()
        world.settle()
        assert not any(job["spec"]["suspend"] for job in world.jobs.values())
        assert world.condition("Suspended")[0] == "False"

    def test_resume_keeps_labels_of_the_job_controller(self):
        world = World(jobset(rjob("workers", 1), suspend=True))
        world.settle()
        labels = world.jobs["js-workers-0"]["spec"]["template"]["metadata"]["labels"]
        labels.update({"batch.kubernetes.io/job-name": "js-workers-0", "job-name": "js-workers-0", "stale": "x"})
        world.edit(suspend=False)
        world.settle()
        labels = world.jobs["js-workers-0"]["spec"]["template"]["metadata"]["labels"]
        assert labels["job-name"] == "js-workers-0"
        assert labels["batch.kubernetes.io/job-name"] == "js-workers-0"
        assert "stale" not in labels

    def test_a_thousand_flips_leave_no_drift(self):
        world = World(jobset(rjob("workers", 1)))
        world.settle()
        before = world.jobs["js-workers-0"]["spec"]["template"]
        for _ in range(1000):
            world.edit(suspend=True)
            world.settle()
            world.halt()
            world.edit(suspend=False)
            world.settle()
        assert world.jobs["js-workers-0"]["spec"]["template"] == before


class TestOrder:
    def test_in_order_starts_the_next_when_the_first_is_ready(self):
        world = World(jobset(rjob("a"), rjob("b"), rjob("c"), startupPolicy={"startupPolicyOrder": "InOrder"}))
        world.settle()
        assert world.live() == ["js-a-0"]
        assert world.condition("StartupPolicyInProgress")[0] == "True"
        for name in ("js-a-0", "js-b-0", "js-c-0"):
            assert world.condition("StartupPolicyCompleted") is None
            world.run(name)
            world.settle()
        assert world.live() == ["js-a-0", "js-b-0", "js-c-0"]
        assert world.condition("StartupPolicyCompleted")[0] == "True"
        assert world.condition("StartupPolicyInProgress")[0] == "False"

    def test_a_readiness_blip_takes_nothing_back(self):
        world = World(jobset(rjob("a"), rjob("b", 2), startupPolicy={"startupPolicyOrder": "InOrder"}))
        world.settle()
        world.run("js-a-0")
        world.settle()
        world.run()
        world.settle()
        world.run("js-a-0", ready=False)
        del world.jobs["js-b-1"]
        world.settle()
        assert world.live() == ["js-a-0", "js-b-0", "js-b-1"]
        assert world.condition("StartupPolicyCompleted")[0] == "True"

    def test_order_is_enforced_anew_after_a_restart(self):
        world = World(
            jobset(
                rjob("a"),
                rjob("b"),
                startupPolicy={"startupPolicyOrder": "InOrder"},
                failurePolicy={"maxRestarts": 1},
            )
        )
        world.settle()
        world.run("js-a-0")
        world.settle()
        world.fail("js-b-0")
        world.settle()
        world.collect()
        world.settle()
        assert world.live() == ["js-a-0"]
        assert world.condition("StartupPolicyInProgress")[0] == "True"

    def test_suspended_sets_are_resumed_in_order(self):
        world = World(jobset(rjob("a"), rjob("b"), startupPolicy={"startupPolicyOrder": "InOrder"}, suspend=True))
        world.settle()
        assert world.live() == ["js-a-0", "js-b-0"]
        world.edit(suspend=False)
        world.settle()
        assert [n for n, j in world.jobs.items() if not j["spec"]["suspend"]] == ["js-a-0"]
        world.run("js-a-0")
        world.settle()
        assert not world.jobs["js-b-0"]["spec"]["suspend"]

    def test_depends_on_waits_for_every_dependency(self):
        depends = [{"name": "data", "status": "Complete"}, {"name": "server", "status": "Ready"}]
        world = World(jobset(rjob("data"), rjob("server"), rjob("train", dependsOn=depends)))
        world.settle()
        assert world.live() == ["js-data-0", "js-server-0"]
        world.finish("js-data-0")
        world.settle()
        assert "js-train-0" not in world.live()
        world.run("js-server-0")
        world.settle()
        assert "js-train-0" in world.live()


class TestEnd:
    def test_ttl_deletes_the_finished_set_when_due(self):
        world = World(jobset(ttlSecondsAfterFinished=60))
        world.settle()
        world.finish("js-workers-0")
        world.settle()
        world.seconds = 45
        assert world.step().requeue_after == 15
        world.seconds = 60
        assert of_type(world.step(), DeleteJobSet)

    def test_a_running_set_has_no_ttl(self):
        world = World(jobset(ttlSecondsAfterFinished=0))
        world.settle()
        assert world.js is not None

    def test_a_set_of_another_manager_is_not_touched(self):
        world = World(jobset(managedBy="kueue.x-k8s.io/multikueue"))
        plan = world.step()
        assert (plan.actions, plan.status) == ((), None)

    def test_our_own_manager_name_is_ours(self):
        world = World(jobset(managedBy=keys.CONTROLLER_NAME))
        assert of_type(world.step(), CreateJob)

    def test_old_attempts_are_deleted_even_while_suspended(self):
        world = World(jobset(failurePolicy={"maxRestarts": 1}))
        world.settle()
        world.fail("js-workers-0")
        world.step()
        world.edit(suspend=True)
        assert of_type(world.step(), DeleteJob)
