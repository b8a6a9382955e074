"""Sets with fewer Jobs than wanted get them back when there is room: their placeholders, and the restart."""

import msgspec
import pytest

from api import keys
from api.batch import Job
from api.features import FeatureGates
from api.layout import layout_of
from api.placeholders import MAX_PLACEHOLDERS, as_placeholder
from api.spares import HOLD_COMMAND
from controllers.planning.child_jobs import sort_jobs
from controllers.planning.limits import DEFAULT_LIMITS
from controllers.planning.steps.grow_back import RETRY_SECONDS, SETTLE_SECONDS
from kube.model.meta import Owner
from tests.support.model.full_cluster import AFTER, GATES, labels, smaller
from tests.support.model.lives import suspend


class TestMore:
    def test_a_placeholder_waits_for_room_and_then_the_set_restarts_with_all_jobs(self):
        world = smaller()
        assert world.placeholders == ["js-workers-3"]
        assert (world.status.ready_jobs, world.held) == ("3/3", [("workers", 3, 0)])
        world.pass_time(1000)
        assert (world.status.restarts, world.checks) == (2, 1), "it waits without a call"
        world.run("js-workers-3")
        world.settle()
        assert (world.status.restarts, world.held) == (2, [("workers", 3, 1)])
        world.pass_time(SETTLE_SECONDS - 1)
        assert world.status.restarts == 2
        world.pass_time(1)
        assert (world.status.restarts, world.held) == (3, [])
        world.finish_restart()
        assert (world.placeholders, len(world.workers)) == ([], 4)
        assert set(labels(world, keys.REPLICATED_JOB_REPLICAS).values()) == {"4"}
        assert set(labels(world, keys.RESTART_ATTEMPT).values()) == {"3"}
        assert world.status.ready_jobs == "4/4"

    def test_it_is_planned_does_not_count_and_is_no_failure(self):
        world = smaller()
        history = world.status.attempt_history
        world.run("js-workers-3")
        world.settle()
        world.pass_time(SETTLE_SECONDS)
        said = (
            "replicatedJob workers continues with 4 of 4 Jobs: there is room for 1 more; this restart is planned, and"
            " does not count towards maxRestarts"
        )
        assert world.condition("RestartingJobSet") == ("True", "ReplicasRestored", said)
        assert ("Normal", "ReplicasRestored", said) in [(e.type, e.reason, e.note) for e in world.events]
        assert (world.status.restarts_count_towards_max, world.status.attempt_history) == (1, history)

    def test_what_it_takes_counts_as_a_start_and_not_as_a_recovery(self):
        world = smaller(gates={**GATES, "JobSetRecoveryTimes": True})
        world.run("js-workers-3")
        world.settle()
        world.pass_time(SETTLE_SECONDS)
        world.finish_restart()
        failure, fewer, more = world.status.recovery.attempts[-3:]
        assert failure.detected_after_seconds is not None
        assert (fewer.detected_after_seconds, more.detected_after_seconds) == (None, None)

    def test_room_for_some_is_used_after_as_long_as_a_pod_without_a_node(self):
        world = smaller("js-workers-2", "js-workers-3")
        assert world.placeholders == ["js-workers-2", "js-workers-3"]
        world.run("js-workers-3")
        world.settle()
        world.pass_time(AFTER - 1)
        assert (world.status.restarts, world.held) == (2, [("workers", 2, 1)])
        world.pass_time(1)
        assert (world.status.restarts, world.held) == (3, [("workers", 3, 0)])
        world.finish_restart()
        assert (len(world.workers), world.placeholders) == (3, ["js-workers-3"])

    def test_placeholders_give_way_while_a_job_is_not_ready_and_come_back(self):
        world = smaller()
        world.run("js-workers-3")
        world.run("js-workers-1", ready=False)
        world.settle()
        assert (world.status.restarts, world.placeholders, world.held) == (2, [], [("workers", 3, 0)])
        world.collect()
        world.run("js-workers-1")
        world.settle()
        assert world.placeholders == [], "not at once: pods that are ready now and then make no Job each time"
        world.pass_time(RETRY_SECONDS)
        assert world.placeholders == ["js-workers-3"]

    def test_a_name_that_another_owner_has_is_tried_again(self):
        world = smaller()
        del world.jobs["js-workers-3"]
        world.foreign = {"js-workers-3": Owner("Job", "somebody")}
        world.settle()
        assert (world.placeholders, world.plan().requeue_after) == ([], DEFAULT_LIMITS.name_conflict_retry_seconds)
        world.foreign = {}
        world.settle()
        assert world.placeholders == ["js-workers-3"]

    def test_a_failure_is_decided_first_and_placeholders_end_with_the_attempt(self):
        world = smaller()
        world.run("js-workers-3")
        world.settle()
        world.pass_time(1)
        world.fail("js-workers-0")
        world.settle()
        assert (world.status.last_restart.reason, world.live()) == ("DefaultFailurePolicy", [])
        world.collect()
        world.settle()
        assert (len(world.workers), world.placeholders) == (3, []), "workers first"
        world.run()
        world.pass_time(RETRY_SECONDS)
        assert world.placeholders == ["js-workers-3"]

    def test_jobs_that_have_completed_do_not_run_again_for_more_of_them(self):
        world = smaller()
        world.finish("js-workers-0")
        world.settle()
        assert world.placeholders == []
        world.finish("js-workers-1")
        world.finish("js-workers-2")
        world.settle()
        assert world.status.terminal_state == "Completed"

    def test_they_end_with_the_set(self):
        world = smaller()
        for name in world.workers:
            world.finish(name)
        world.replace_jobs()
        assert world.status.terminal_state == "Completed"
        assert not [name for name in world.live() if not world.finished(name)]

    def test_they_end_when_the_set_is_suspended(self):
        world = smaller()
        suspend(world)
        assert world.placeholders == []

    def test_for_a_controller_that_does_not_know_them_they_are_of_an_earlier_attempt(self):
        world = smaller()
        jobs = [msgspec.convert(job, Job) for job in world.jobs.values()]
        found = sort_jobs(world.js, jobs, layout_of(world.js), FeatureGates({}))
        assert [child.name for child in found.previous] == ["js-workers-3"]
        world.gates = type(world.gates)({"JobSetNodeFailure": True})
        world.replace_jobs()
        assert (world.placeholders, len(world.workers)) == ([], 4)

    @pytest.mark.parametrize("kind", ["Complete", "Failed"])
    def test_one_that_ends_by_itself_is_no_end_of_anything_and_is_made_again(self, kind):
        world = smaller()
        world.finish("js-workers-3", kind)
        world.settle()
        assert (world.status.restarts, world.placeholders) == (2, [])
        world.collect()
        world.pass_time(RETRY_SECONDS)
        assert world.placeholders == ["js-workers-3"]

    def test_there_are_never_many(self):
        world = smaller()
        [group] = world.js.spec.replicated_jobs
        world.edit(replicated_jobs=(msgspec.structs.replace(group, replicas=100_000),))
        world.settle()
        assert len(world.placeholders) == MAX_PLACEHOLDERS

    def test_they_fit_where_the_job_fits_and_run_nothing(self):
        pod = {
            "nodeSelector": {"zone": "a"},
            "hostNetwork": True,
            "activeDeadlineSeconds": 5,
            "initContainers": [
                {"name": "fetch", "image": "f", "args": ["x"], "resources": {"limits": {"cpu": "8"}}},
                {"name": "jobset-agent", "image": "a", "restartPolicy": "Always", "startupProbe": {}},
            ],
            "containers": [
                {"name": "train", "image": "t", "ports": [{"containerPort": 1}], "command": ["x"], "lifecycle": {}}
            ],
            "restartPolicy": "Never",
        }
        spec = {
            "completions": 2,
            "parallelism": 2,
            "backoffLimit": 0,
            "activeDeadlineSeconds": 5,
            "podFailurePolicy": {},
        }
        job = {"metadata": {"labels": {"a": "b"}}, "spec": {**spec, "template": {"metadata": {}, "spec": pod}}}
        found = as_placeholder(job)
        assert found["metadata"]["labels"] == {"a": "b", keys.PLACEHOLDER: "true"}
        assert set(found["spec"]) == {"completions", "parallelism", "backoffLimit", "template"}
        held = found["spec"]["template"]["spec"]
        assert held == {
            "nodeSelector": {"zone": "a"},
            "hostNetwork": True,
            "initContainers": [
                {"name": "fetch", "image": "f", "resources": {"limits": {"cpu": "8"}}, "command": ["sh", "-c", ":"]},
                {"name": "jobset-agent", "image": "t", "command": [*HOLD_COMMAND], "restartPolicy": "Always"},
            ],
            "volumes": [{"name": "jobset-agent", "image": {"reference": "a"}}],
            "containers": [
                {"name": "train", "image": "t", "ports": [{"containerPort": 1}], "command": [*HOLD_COMMAND]}
            ],
            "restartPolicy": "OnFailure",
            "terminationGracePeriodSeconds": 1,
        }

    def test_an_agent_of_the_users_keeps_its_volume(self):
        agent = {"name": "jobset-agent", "image": "a", "restartPolicy": "Always"}
        volume = {"name": "jobset-agent", "emptyDir": {}}
        pod = {"initContainers": [agent], "containers": [{"name": "train", "image": "t"}], "volumes": [volume]}
        job = {"metadata": {"labels": {}}, "spec": {"template": {"metadata": {}, "spec": pod}}}
        assert as_placeholder(job)["spec"]["template"]["spec"]["volumes"] == [volume]
