"""What a plan creates, counts, starts in order and ends, on the model of tests/support/model/world.py."""

import pytest

from api import keys
from controllers.planning.actions import CreateJob, CreateService, DeleteJobSet
from tests.support.model.lives import of_type
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob

WORKERS_3 = rjob("workers", 3, parallelism=2, completions=2)


class TestCreation:
    def test_first_status_has_a_zero_entry_for_every_replicated_job_by_name_descending(self):
        world = World(jobset(rjob("driver"), WORKERS_3))
        world.step()
        assert [s.name for s in world.status.replicated_jobs_status] == ["workers", "driver"]
        assert world.counts("driver") == {"ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}

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


class TestCounters:
    def test_a_job_is_ready_when_all_pods_it_wants_at_once_are_ready_or_done(self):
        world = World(jobset(WORKERS_3))
        world.settle()
        world.run("js-workers-0")
        world.jobs["js-workers-1"]["status"] = {"active": 1, "ready": 1, "succeeded": 1}
        world.jobs["js-workers-2"]["status"] = {"active": 2, "ready": 1}
        world.settle()
        assert world.counts() == {"ready": 2, "succeeded": 0, "failed": 0, "active": 3, "suspended": 0}

    def test_the_first_status_of_a_queued_set_counts_its_jobs(self):
        world = World(jobset(WORKERS_3, suspend=True))
        created = world.step()
        assert (created.status, created.events, created.requeue_after) == (None, (), 0)
        assert created.counters is not None, "what is stored if a Job is refused"
        world.settle()
        assert [plan.status.replicated_jobs_status[0].suspended for plan in world.plans if plan.status] == [3]
        assert [event.reason for event in world.events] == ["SuspendedJobs"]

    def test_the_first_counts_of_a_set_that_runs_wait_for_its_pods(self):
        world = World(jobset(WORKERS_3))
        world.counts_waited = 0.0
        created = world.step()
        assert (created.status, created.counts_wait, created.requeue_after) == (None, True, 0.5)
        world.run("js-workers-0")
        assert world.step().status is None
        world.counts_waited = 0.5
        assert world.step().status.replicated_jobs_status[0].active == 1

    @pytest.mark.parametrize(("write_seconds", "wait"), [(0.01, 0.5), (0.1, 1), (60, 3)])
    def test_counts_wait_longer_the_longer_writes_take(self, write_seconds, wait):
        world = World(jobset(WORKERS_3))
        world.counts_waited, world.write_seconds = 0.0, write_seconds
        assert world.step().requeue_after == pytest.approx(wait)
        world.counts_waited = wait
        world.settle()
        world.since_status_write = world.counts_waited = 0.0
        world.run("js-workers-0")
        assert world.step().requeue_after == pytest.approx(max(wait, 1))

    @pytest.mark.parametrize("what", ["ready", "failed", "in-order"])
    def test_first_counts_that_somebody_waits_for_are_written_at_once(self, what):
        order = {"startupPolicy": {"startupPolicyOrder": "InOrder"}} if what == "in-order" else {}
        world = World(jobset(WORKERS_3, **order))
        world.counts_waited = 0.0
        if what != "in-order":
            world.step()
            world.run() if what == "ready" else world.fail("js-workers-0")
        assert world.step().status is not None

    def test_counts_alone_wait_for_the_next_write(self):
        world = World(jobset(rjob("workers", 300)))
        world.settle()
        world.since_status_write = 0.4
        world.run("js-workers-7")
        plan = world.step()
        assert plan.status is None
        assert 2.5 < plan.requeue_after <= 2.6

    @pytest.mark.parametrize(
        ("pods", "gate", "wait"), [(4, True, 1), (500, True, 10), (5000, True, 30), (5000, False, 1)]
    )
    def test_counts_alone_wait_longer_where_each_pod_has_an_agent_that_watches(self, pods, gate, wait):
        workers = rjob("workers", 2, parallelism=pods, completions=pods)
        world = World(jobset(workers, failurePolicy={"restartStrategy": "InPlaceRestart"}), InPlaceRestart=gate)
        world.settle()
        world.run("js-workers-0")
        world.since_status_write = wait - 0.01
        plan = world.step()
        assert plan.status is None
        assert plan.requeue_after == pytest.approx(0.01)
        world.since_status_write = wait
        assert world.step().status is not None

    def test_readiness_of_the_last_job_is_written_at_once(self):
        world = World(jobset(rjob("workers", 300)))
        world.settle()
        world.since_status_write = 0
        world.run()
        assert world.step().status is not None

    @pytest.mark.parametrize("suspended", [True, False])
    def test_that_nothing_is_active_is_written_at_once_if_somebody_waits_for_it(self, suspended):
        world = World(jobset(rjob("workers", 300)))
        world.start_jobs()
        world.edit(suspend=suspended)
        world.settle()
        world.since_status_write = 0
        for job in world.jobs.values():
            job["status"] = {}
        assert (world.step().status is not None) == suspended

    def test_changes_that_come_together_are_written_together(self):
        world = World(jobset(WORKERS_3))
        world.start_jobs()
        world.since_status_write, world.counts_waited = 60, 0.0
        world.finish("js-workers-0")
        plan = world.step()
        assert (plan.status, plan.counts_wait, plan.requeue_after) == (None, True, 0.5)
        world.counts_waited = 0.5
        assert world.step().status is not None

    def test_jobs_that_finish_one_by_one_are_not_written_one_by_one(self):
        world = World(jobset(rjob("workers", 300)))
        world.start_jobs()
        world.since_status_write = 0
        world.finish("js-workers-0")
        assert world.step().status is None


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
