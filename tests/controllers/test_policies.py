"""Policies in combination: order, failures, and objects of others (docs/reference/lifecycle.md)."""

from typing import Any

import msgspec
import pytest

from api import keys
from api.batch import Service
from controllers.planning.actions import CreateJob
from controllers.planning.limits import DEFAULT_LIMITS
from kube.model.meta import Owner
from tests.support.model.lives import ONE_BY_ONE, of_type, started
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob

IN_ORDER = {"startupPolicyOrder": "InOrder"}


class TestOrder:
    """Once reached, reached for the attempt."""

    def test_a_replicated_job_without_replicas_holds_up_no_other(self):
        world = World(jobset(rjob("a", 0), rjob("b"), startupPolicy=IN_ORDER))
        world.settle()
        assert world.live() == ["js-b-0"]


class TestForeign:
    """Objects of others that bear a name of ours."""

    def test_jobs_are_named_with_their_owners_and_waited_for(self):
        world = World(jobset(rjob("workers", 9)))
        world.foreign = {f"js-workers-{n}": Owner("CronJob", "nightly") for n in range(7)}
        plan = world.step()
        assert [action.name for action in of_type(plan, CreateJob)] == ["js-workers-7", "js-workers-8"]
        assert plan.requeue_after == DEFAULT_LIMITS.name_conflict_retry_seconds
        [warning] = plan.warnings
        assert (warning.type, warning.reason) == ("Warning", "JobCreationFailed")
        error = "creation failed with error: it exists already and belongs to CronJob nightly"
        assert warning.note.startswith(f'job "js-workers-0" {error}, job "js-workers-1" {error}, ')
        assert "and 2 more: delete or rename it, or rename the JobSet" in warning.note
        assert plan.status is not None, "the rest of the set keeps running and is counted"
        world.foreign = {}
        world.settle()
        assert len(world.live()) == 9
        assert world.plans[-1].requeue_after is None

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
    def test_a_service_made_by_hand_or_in_deletion_is_used(self, owner, selector, warned):
        world = World(jobset())
        meta: dict[str, Any] = {"name": "js", "namespace": "ns", "uid": "s"}
        if owner:
            ref = {"apiVersion": keys.API_VERSION, "kind": owner[0], "name": owner[1], "uid": "u", "controller": True}
            meta["ownerReferences"] = [ref]
        world.service = msgspec.convert(
            {"metadata": meta, "spec": {"selector": selector, "clusterIP": "None"}}, Service
        )
        world.settle()
        assert {w.reason for w in world.warnings} == ({"HeadlessServiceCreationFailed"} if warned else set())
        if warned:
            owners = " ".join(owner) if owner else "nobody"
            assert f"Service js exists already and belongs to {owners}:" in world.warnings[0].note
            assert "spec.network.subdomain" in world.warnings[0].note
        assert world.live() == ["js-workers-0"], "the Jobs run all the same"

    def test_a_service_by_hand_has_to_be_headless(self):
        world = World(jobset())
        spec = {"selector": {keys.JOBSET_NAME: "js"}, "clusterIP": "10.0.0.7"}
        world.service = msgspec.convert({"metadata": {"name": "js", "namespace": "ns"}, "spec": spec}, Service)
        assert [w.reason for w in world.step().warnings] == ["HeadlessServiceCreationFailed"]

    def test_stray_jobs_are_listed_and_counted(self):
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


class TestFailures:
    """Several at once, and rules that cannot be followed."""

    def test_one_restart_of_the_set_settles_all_failures_with_one_count(self):
        world = started(rjob("workers", 4), failurePolicy={"maxRestarts": 1})
        for name in world.live():
            world.fail(name)
        world.settle()
        assert (world.status.restarts, world.status.terminal_state) == (1, "")

    def test_failures_come_before_success(self):
        world = started(rjob("a"), rjob("b"), successPolicy={"operator": "Any"})
        world.finish("js-a-0")
        world.fail("js-b-0")
        world.settle()
        assert world.status.terminal_state == "Failed"

    def test_a_rule_that_needs_a_gate_is_reported_and_waits_without_a_loop(self):
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

    def test_reasons_of_future_versions_can_be_named(self):
        rules = [{"name": "x", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy_oom"]}]
        world = started(rjob("workers"), failurePolicy={"maxRestarts": 9, "rules": rules})
        world.fail("js-workers-0", reason="PodFailurePolicy_oom")
        world.settle()
        assert world.status.terminal_state == "Failed"


class TestWithoutReplicas:
    def test_a_suspended_set_without_jobs_waits_for_its_admission(self):
        world = World(jobset(rjob("none", 0), suspend=True))
        world.settle()
        assert world.status.terminal_state == ""
        assert world.condition("Suspended")[0] == "True"
