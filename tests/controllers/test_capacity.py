"""Sets that continue with fewer Jobs where pods find no node (`nodeFailure.whenNoCapacity`)."""

from dataclasses import replace

import msgspec
import pytest

from api import keys
from api.batch import Job
from controllers.planning.child_jobs import Child
from controllers.planning.elastic import restarted_jobs
from controllers.planning.observed import PendingPod
from controllers.planning.start_timeout import StartLimits, next_check
from controllers.planning.steps.grow_back import SETTLE_SECONDS
from kube.model.meta import ObjectMeta
from tests.support.model.full_cluster import (
    AFTER,
    BOUNDS,
    GATES,
    NO_ROOM,
    POLICY,
    FullCluster,
    labels,
    running,
    smaller,
    stranded,
)
from tests.support.model.lives import at, later, restart, resume, suspend
from tests.support.objects.stored_sets import jobset, rjob


class TestFewer:
    def test_the_set_continues_without_the_job_and_the_workers_are_told_their_number(self):
        world = stranded()
        world.pass_time(AFTER - 1)
        assert (world.status.restarts, world.sizes) == (1, {})
        world.pass_time(1)
        assert (world.status.restarts, world.sizes) == (2, {"workers": 3})
        world.finish_restart()
        assert world.workers == ["js-workers-0", "js-workers-1", "js-workers-2"]
        assert set(labels(world, keys.REPLICATED_JOB_REPLICAS).values()) == {"3"}
        assert set(labels(world, keys.GLOBAL_REPLICAS).values()) == {"3"}
        assert set(labels(world, keys.RESTART_ATTEMPT).values()) == {"2"}
        assert world.status.ready_jobs == "3/3"
        assert world.js.spec.replicated_jobs[0].replicas == 4, "what the user wants is the user's"

    def test_indexes_stay_dense_whichever_job_has_no_node(self):
        world = stranded("js-workers-0", "js-workers-1")
        world.pass_time(AFTER)
        world.finish_restart()
        assert world.workers == ["js-workers-0", "js-workers-1"]

    def test_it_is_planned_does_not_count_and_is_no_failure(self):
        world = stranded()
        history = world.status.attempt_history
        world.pass_time(AFTER)
        said = (
            "replicatedJob workers continues with 3 of 4 Jobs: pod js-workers-3-0 has found no node for 60 s"
            f" ({NO_ROOM}); this restart is planned, and does not count towards maxRestarts"
        )
        assert world.condition("RestartingJobSet") == ("True", "ReplicasReduced", said)
        assert ("Normal", "ReplicasReduced", said) in [(e.type, e.reason, e.note) for e in world.events]
        assert world.status.restarts_count_towards_max == 1
        assert world.status.attempt_history == history
        assert world.status.last_restart.reason == "ReplicasReduced"

    def test_never_below_the_fewest_and_then_it_waits_without_a_call(self):
        world = stranded("js-workers-1", "js-workers-2", "js-workers-3")
        world.pass_time(AFTER)
        assert world.sizes == {"workers": 2}
        world.finish_restart()
        restart(world, "js-workers-0")
        world.lack("js-workers-0")
        checks = world.checks
        for _ in range(5):
            world.pass_time(AFTER)
        assert (world.status.restarts, world.sizes, world.checks) == (3, {"workers": 2}, checks)

    def test_a_second_loss_makes_it_smaller_still(self):
        world = stranded()
        world.pass_time(AFTER)
        world.finish_restart()
        restart(world, "js-workers-0")
        world.lack("js-workers-0")
        world.pass_time(AFTER)
        assert world.sizes == {"workers": 2}

    def test_a_failure_of_a_smaller_set_counts_and_keeps_its_size(self):
        world = stranded()
        world.pass_time(AFTER)
        world.finish_restart()
        restart(world, "js-workers-0")
        world.run()
        world.settle()
        assert (world.status.restarts_count_towards_max, world.sizes, len(world.workers)) == (2, {"workers": 3}, 3)

    def test_all_elastic_groups_are_adapted_by_one_restart(self):
        groups = (rjob("workers", 4, elastic=BOUNDS), rjob("ps", 2, elastic={"min": 1, "max": 2}), rjob("other", 2))
        world = running(*groups)
        restart(world, "js-workers-3")
        world.lack("js-workers-3", "js-ps-0", "js-other-1")
        world.pass_time(AFTER)
        assert (world.status.restarts, world.sizes) == (2, {"workers": 3, "ps": 1})
        world.finish_restart()
        assert set(labels(world, keys.GLOBAL_REPLICAS).values()) == {"6"}

    def test_the_set_completes_with_the_jobs_that_it_has(self):
        world = stranded()
        world.pass_time(AFTER)
        world.finish_restart()
        for name in list(world.jobs):
            world.finish(name)
        world.settle()
        assert world.status.terminal_state == "Completed"


class TestWhoWaits:
    @pytest.mark.parametrize(
        "options",
        [
            {"nodeFailure": {"afterSeconds": 10}},
            {"rjobs": (rjob("workers", 4),)},
            {"rjobs": (rjob("workers", 4, elastic={"min": 4, "max": 4}),)},
        ],
    )
    def test_sets_that_do_not_ask_for_it_look_for_no_pods(self, options):
        world = running(*options.pop("rjobs", ()), **options)
        restart(world, "js-workers-3")
        world.lack("js-workers-3")
        for _ in range(3):
            world.pass_time(AFTER)
        assert (world.status.restarts, world.checks) == (1, 0)

    def test_a_set_that_starts_waits_for_all_of_its_capacity(self):
        world = FullCluster(
            jobset(rjob("workers", 4, elastic=BOUNDS), failurePolicy={"maxRestarts": 2, "nodeFailure": POLICY}), **GATES
        )
        world.settle()
        world.lack("js-workers-3")
        world.pass_time(10 * AFTER)
        assert (world.status.restarts, world.checks) == (0, 0)

    def test_a_job_that_has_replaced_a_pod_itself_counts(self):
        world = running()
        world.jobs["js-workers-2"]["status"]["failed"] = 1
        world.lack("js-workers-2", "js-workers-3")
        world.jobs["js-workers-2"]["status"]["failed"] = 1
        world.settle()
        world.pass_time(AFTER)
        assert world.sizes == {"workers": 3}, "the pod of the other one is its first"

    def test_old_pods_that_are_not_gone_yet_may_make_room(self):
        world = running()
        world.fail("js-workers-3")
        world.settle()
        kept = world.jobs["js-workers-0"]
        world.collect()
        world.jobs["js-workers-0"] = kept
        world.settle()
        world.lack("js-workers-3")
        world.pass_time(2 * AFTER)
        assert (world.status.restarts, world.sizes) == (1, {})
        world.collect()
        world.pass_time(AFTER)
        assert world.sizes == {"workers": 3}

    def test_a_pod_that_has_a_node_is_waited_for(self):
        world = stranded()
        slow = PendingPod("js-workers-3-0", "n1", at(0), "container main: ContainerCreating (node n1)")
        world.waiting = lambda: {"js-workers-3": slow}
        world.pass_time(AFTER)
        assert (world.status.restarts, world.checks) == (1, 1)
        world.pass_time(AFTER - 1)
        assert world.checks == 1, "once in that time is enough"

    def test_pods_that_are_created_later_are_looked_for_in_time(self):
        pod = PendingPod("p", "", at(55), NO_ROOM)
        limits = StartLimits(capacity=AFTER)
        assert next_check([replace(pod, unschedulable=pod)], limits, at(60)) == "2026-01-01T00:01:55+00:00"
        assert next_check([pod], limits, at(113)) == "2026-01-01T00:01:56+00:00", "at most 20 checks in the time"

    def test_a_limit_for_the_start_whose_gate_is_off_fails_no_pod_that_was_listed(self):
        world = stranded(startTimeoutSeconds=30)
        world.pass_time(AFTER)
        assert world.status.last_restart.reason == "ReplicasReduced"


class TestWhoseNumber:
    def scale(self, world: FullCluster, replicas: int) -> None:
        [group] = world.js.spec.replicated_jobs
        world.edit(replicated_jobs=(msgspec.structs.replace(group, replicas=replicas),))
        world.replace_jobs()

    def test_a_resume_begins_with_all_that_is_wanted(self):
        world = smaller()
        suspend(world)
        assert world.sizes == {}
        resume(world)
        assert (len(world.jobs), world.status.restarts) == (4, 2)
        assert set(labels(world, keys.REPLICATED_JOB_REPLICAS).values()) == {"4"}

    def test_a_set_that_is_resumed_waits_for_all_of_its_capacity_until_it_restarts(self):
        world = stranded()
        suspend(later(world, 1))
        resume(world)
        world.lack("js-workers-3")
        world.pass_time(2 * AFTER)
        assert (world.status.restarts, world.sizes) == (1, {}), "as where it starts"
        restart(world, "js-workers-0")
        world.lack("js-workers-3")
        world.pass_time(AFTER)
        assert world.sizes == {"workers": 3}

    def test_the_restarts_of_single_jobs_are_read_once_however_many_jobs_wait(self):
        class Restarts(tuple[int, ...]):
            __slots__ = ()
            reads = 0

            def __iter__(self):
                Restarts.reads += 1
                return super().__iter__()

        [counts] = running().status.replicated_jobs_status
        counts = msgspec.structs.replace(counts, job_restarts=Restarts((0, 0, 0, 1)))
        js = jobset(rjob("workers", 4))
        js = msgspec.structs.replace(js, status=msgspec.structs.replace(js.status, replicated_jobs_status=(counts,)))
        created = ObjectMeta(name="a", creation_timestamp="2026-01-01T00:00:00Z")
        children = [Child(Job(metadata=created), "workers", index, index) for index in range(4)]
        assert restarted_jobs(js, children) == children
        assert Restarts.reads == 1

    @pytest.mark.parametrize(("wanted", "restarts"), [(2, 3), (3, 2)])
    def test_a_wish_that_is_met_clears_it(self, wanted, restarts):
        world = smaller()
        world.gates = type(world.gates)({**GATES, "ElasticJobSet": True})
        self.scale(world, wanted)
        world.finish_restart()
        assert (world.sizes, len(world.jobs), world.status.restarts) == ({}, wanted, restarts)
        assert set(labels(world, keys.REPLICATED_JOB_REPLICAS).values()) == {str(wanted)}

    def test_workers_are_told_a_smaller_number_by_a_restart_that_does_not_count(self):
        world = running(gates={**GATES, "ElasticJobSet": True})
        self.scale(world, 2)
        said = (
            "replicatedJob workers continues with 2 Jobs: their number has changed from 4; this restart is planned, and"
            " does not count towards maxRestarts"
        )
        assert world.condition("RestartingJobSet") == ("True", "ReplicasChanged", said)
        world.finish_restart()
        assert set(labels(world, keys.REPLICATED_JOB_REPLICAS).values()) == {"2"}
        assert (world.status.restarts, world.status.restarts_count_towards_max, world.live()) == (
            1,
            0,
            ["js-workers-0", "js-workers-1"],
        )
        assert world.status.attempt_history == ()

    def test_a_full_set_goes_on_until_there_is_room_for_more(self):
        world = running(gates={**GATES, "ElasticJobSet": True})
        restart(world, "js-workers-0")
        world.finish_restart()
        self.scale(world, 6)
        assert (world.status.restarts, world.sizes, world.status.ready_jobs) == (1, {"workers": 4}, "4/4")
        assert world.placeholders == ["js-workers-4", "js-workers-5"]
        world.run(*world.placeholders)
        world.settle()
        world.pass_time(SETTLE_SECONDS)
        world.finish_restart()
        assert set(labels(world, keys.REPLICATED_JOB_REPLICAS).values()) == {"6"}
        assert (world.status.restarts, len(world.workers)) == (2, 6)

    def test_a_set_that_has_never_restarted_tries_at_once_and_then_waits_for_room(self):
        world = running(gates={**GATES, "ElasticJobSet": True})
        self.scale(world, 6)
        assert (world.status.restarts, len(world.workers)) == (1, 6)
        world.lack("js-workers-4", "js-workers-5")
        world.pass_time(AFTER)
        world.finish_restart()
        assert (world.status.restarts, world.sizes) == (2, {"workers": 4})
        assert world.placeholders == ["js-workers-4", "js-workers-5"]

    def test_one_that_does_not_wait_for_room_restarts_at_once(self):
        world = running(gates={**GATES, "ElasticJobSet": True}, nodeFailure={"afterSeconds": 10})
        self.scale(world, 6)
        assert (world.status.restarts, world.sizes, len(world.jobs)) == (1, {}, 6)

    def test_without_bounds_a_change_of_the_size_restarts_nothing(self):
        world = running(rjob("workers", 4), gates={**GATES, "ElasticJobSet": True})
        self.scale(world, 3)
        assert (world.status.restarts, len(world.live())) == (0, 3)

    def test_a_greater_wish_waits_for_room(self):
        world = smaller()
        world.gates = type(world.gates)({**GATES, "ElasticJobSet": True})
        self.scale(world, 6)
        assert (world.sizes, len(world.workers)) == ({"workers": 3}, 3)
        assert world.placeholders == ["js-workers-3", "js-workers-4", "js-workers-5"]

    def test_without_the_gate_the_spec_alone_counts(self):
        world = smaller()
        world.gates = type(world.gates)({"JobSetNodeFailure": True})
        world.settle()
        assert (world.sizes, len(world.jobs)) == ({}, 4)
        assert "JobSetElasticReplicas" in world.warnings[0].note
