"""Pods on nodes that have failed: when they count, what the failure policy makes of them, and who ends them."""

from dataclasses import replace

import pytest
from msgspec import structs

from controllers.planning.actions import DeletePod, NodeQuery, PatchJob, PodQuery
from controllers.planning.observed import Observed, PodAtRisk
from controllers.planning.plan import plan
from kube.model.meta import MAX_INT32
from tests.support.model.lives import at, settled_later, suspend
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob

GATE = {"JobSetNodeFailure": True}
UNREACHABLE, OUT_OF_SERVICE = "node.kubernetes.io/unreachable", "node.kubernetes.io/out-of-service"
POD = "js-workers-1-0-abcde"


class NodeWorld(World):
    """A world with pods on failed nodes. `nodes_back`: nodes that have come back; the watch does not know that yet."""

    def __init__(self, js, **gates):
        super().__init__(js, **gates)
        self.pods_on_failed_nodes: list[PodAtRisk] = []
        self.nodes_back: set[str] = set()

    def observe(self) -> Observed:
        return replace(super().observe(), pods_on_failed_nodes=tuple(self.pods_on_failed_nodes))

    def answer(self, observed: Observed, pod_query: PodQuery) -> Observed:
        if not isinstance(pod_query, NodeQuery):
            return super().answer(observed, pod_query)
        assert observed.read_nodes.isdisjoint(pod_query.nodes), "a node is read twice for one plan"
        read = observed.read_nodes.union(pod_query.nodes)
        self.pods_on_failed_nodes = [p for p in self.pods_on_failed_nodes if p.node not in read & self.nodes_back]
        return replace(observed, pods_on_failed_nodes=tuple(self.pods_on_failed_nodes), read_nodes=read)

    def _do(self, action: object) -> None:
        if not isinstance(action, DeletePod):
            super()._do(action)
            return
        [pod] = [p for p in self.pods_on_failed_nodes if (p.name, p.uid) == (action.name, action.uid)]
        assert pod.deleting or action.replaced, f"pod {pod.name} is not being deleted"
        self.pods_on_failed_nodes.remove(pod)


def on_failed_node(world: NodeWorld, job: str = "js-workers-1", **others) -> PodAtRisk:
    """The pod of a Job, on a node that has failed now; it stays on that node."""
    known = {"node": "n1", "taint": UNREACHABLE, "at_risk_since": world.now, **others}
    pod = PodAtRisk(f"{job}-0-abcde", f"pod-of-{job}", world.jobs[job]["metadata"]["uid"], **known)
    world.pods_on_failed_nodes.append(pod)
    return pod


def deleted(world: NodeWorld) -> None:
    """The garbage collector has deleted the pods of Jobs in deletion. Nobody ends them."""
    world.pods_on_failed_nodes = [replace(pod, deleting=True) for pod in world.pods_on_failed_nodes]


def running(*rjobs: dict, gates: dict[str, bool] = GATE, force: bool = False, action: str = "", **policy) -> NodeWorld:
    """A set of two Jobs that run from second 0."""
    wanted = {"afterSeconds": 30, "forceDeletePods": force} | ({"action": action} if action else {})
    policy = {"maxRestarts": 2, "nodeFailure": wanted, **policy}
    world = NodeWorld(jobset(*(rjobs or (rjob("workers", 2),)), failurePolicy=policy), **gates)
    world.start_jobs()
    return world


def warnings(world: NodeWorld, reason: str) -> list[str]:
    return [event.note for event in world.plan().warnings if event.reason == reason]


class TestAPodOnAFailedNode:
    @pytest.mark.parametrize(
        ("taint", "said"),
        [
            (UNREACHABLE, f"which has the taint {UNREACHABLE} since {at(0)}"),
            ("vendor.example/broken", f"which has the taint vendor.example/broken since {at(0)}"),
            ("", f"which does not exist since {at(0)}"),
        ],
    )
    def test_it_restarts_the_set_when_its_time_is_over(self, taint, said):
        world = running()
        on_failed_node(world, taint=taint)
        assert settled_later(world, 29).status.restarts == 0
        assert settled_later(world, 1).status.restarts == 1
        message = (
            f"applying RestartJobSet failure policy action (first failed job: js-workers-1): pod {POD} is on node n1,"
            f" {said}"
        )
        assert world.condition("RestartingJobSet") == ("True", "DefaultFailurePolicy", message)
        [attempt] = world.status.attempt_history
        assert (attempt.failed_job, attempt.pod, attempt.node) == ("js-workers-1", POD, "n1")
        assert attempt.message == f"NodeFailure: pod {POD} is on node n1, {said}"

    def test_the_next_plan_is_not_late_by_the_part_of_a_second_that_has_passed(self):
        world = running()
        on_failed_node(world)
        world.seconds += 10
        decided = plan(replace(world.observe(), second_passed=0.75), world.gates)
        assert decided.requeue_after == pytest.approx(19.25)

    def test_one_that_is_bound_to_such_a_node_later_has_the_whole_time(self):
        world = running()
        world.seconds += 100
        on_failed_node(world, at_risk_since=at(0), created=world.now)
        assert settled_later(world, 29).status.restarts == 0
        assert settled_later(world, 1).status.restarts == 1

    def test_the_longest_failure_is_named_first(self):
        world = running()
        on_failed_node(world, at_risk_since=at(0), node="n2")
        world.pods_on_failed_nodes.append(
            replace(on_failed_node(world), name="first", at_risk_since="2025-12-31T23:59:59Z")
        )
        assert settled_later(world, 30).status.attempt_history[0].pod == "first"

    def test_a_node_that_has_come_back_unseen_fails_nothing(self):
        world = running()
        on_failed_node(world)
        world.nodes_back.add("n1")
        assert settled_later(world, 60).status.restarts == 0

    @pytest.mark.parametrize("ended", [False, True])
    def test_one_that_has_ended_is_no_failure(self, ended):
        world = running()
        on_failed_node(world, ended=ended)
        assert settled_later(world, 30).status.restarts == (not ended)

    @pytest.mark.parametrize(("active", "restarts"), [(1, 0), (0, 1)])
    def test_one_that_is_being_deleted_is_a_failure_unless_it_was_replaced(self, active, restarts):
        world = running()
        world.jobs["js-workers-1"]["status"] |= {"active": active, "ready": active}
        on_failed_node(world, deleting=True)
        assert settled_later(world, 30).status.restarts == restarts

    def test_a_job_that_is_bound_to_fail_does_not_wait_for_the_pod(self):
        world = running()
        world.doom("js-workers-1")
        on_failed_node(world, deleting=True)
        assert settled_later(world, 30).status.restarts == 1

    def test_nothing_counts_while_the_set_is_suspended(self):
        world = running()
        on_failed_node(world)
        suspend(world)
        assert settled_later(world, 60).status.restarts == 0


class TestThePolicyDecides:
    @pytest.mark.parametrize(
        ("rule", "end"),
        [
            ({"onJobFailureReasons": ["NodeFailure"]}, "Failed"),
            ({"onJobFailureMessagePatterns": ["node n1, which has the taint"]}, "Failed"),
            ({"onJobFailureReasons": ["BackoffLimitExceeded"]}, ""),
            ({"onExitCodes": {"operator": "NotIn", "values": [1]}}, ""),
        ],
    )
    def test_rules_see_reason_and_message_and_no_exit_code(self, rule, end):
        world = running(rules=[{"name": "r", "action": "FailJobSet", **rule}])
        on_failed_node(world)
        assert settled_later(world, 30).status.terminal_state == end

    @pytest.mark.parametrize(
        ("action", "end", "counted"),
        [("", "", 1), ("FailJobSet", "Failed", 0), ("RestartJobSetAndIgnoreMaxRestarts", "", 0)],
    )
    def test_where_no_rule_matches_the_field_has_the_action(self, action, end, counted):
        world = running(action=action)
        on_failed_node(world)
        settled_later(world, 30)
        assert (world.status.terminal_state, world.status.restarts_count_towards_max) == (end, counted)


class TestPodsThatNobodyEnds:
    def restarted(self, force: bool = False, taint: str = UNREACHABLE) -> NodeWorld:
        """A set that restarts because of a node on which a pod of the last attempt is being deleted."""
        world = running(force=force)
        on_failed_node(world, taint=taint)
        settled_later(world, 30)
        deleted(world)
        return world

    @pytest.mark.parametrize(("force", "taint"), [(True, UNREACHABLE), (False, ""), (True, "")])
    def test_they_are_deleted_if_asked_for_or_if_the_node_does_not_exist(self, force, taint):
        world = self.restarted(force, taint)
        assert DeletePod(POD, "pod-of-js-workers-1") in world.plan().actions
        world.settle()
        assert world.pods_on_failed_nodes == []

    def test_the_restart_is_stored_before_the_pod_that_is_its_reason_is_deleted(self):
        world = running(force=True)
        world.jobs["js-workers-1"]["status"] |= {"active": 0, "ready": 0}
        on_failed_node(world, deleting=True)
        world.seconds += 30
        plan = world.plan()
        assert (len(plan.actions), plan.status.restarts, plan.status_first) == (1, 1, True)

    def test_they_are_left_alone_if_the_node_has_come_back_unseen(self):
        world = self.restarted(force=True)
        world.nodes_back.add("n1")
        assert world.plan().actions == ()

    def test_a_pod_that_is_not_being_deleted_is_never_deleted(self):
        world = running(force=True)
        on_failed_node(world)
        settled_later(world, 30)
        assert [action for plan in world.plans for action in plan.actions if isinstance(action, DeletePod)] == []

    def test_otherwise_a_warning_names_the_node_and_what_can_be_done(self):
        world = self.restarted()
        assert world.plan().actions == ()
        [said] = warnings(world, "RestartWaitsForNode")
        assert said == (
            f"the restart waits for pod {POD} on node n1, which has the taint {UNREACHABLE} since {at(0)}: once the"
            f" machine is off or fenced, kubectl taint nodes NODE {OUT_OF_SERVICE}=nodeshutdown:NoExecute; or, if two"
            " processes for one rank do no harm, kubectl delete pod NAME --grace-period=0 --force"
        )

    def test_a_node_that_is_out_of_service_needs_nobody(self):
        assert warnings(self.restarted(taint=OUT_OF_SERVICE), "RestartWaitsForNode") == []

    @pytest.mark.parametrize("force", [False, True])
    def test_a_finished_set_frees_them_and_warns_of_nothing(self, force):
        world = running(force=force, maxRestarts=0)
        on_failed_node(world)
        settled_later(world, 30)
        deleted(world)
        plan = world.plan()
        assert [type(action) for action in plan.actions] == [DeletePod] * force
        assert plan.warnings == ()


class TestInPlaceRestart:
    """With that strategy the Job replaces a lost pod, and the set goes on."""

    def lost(self, taint: str = UNREACHABLE, *rjobs: dict, force=True, gates=GATE | {"InPlaceRestart": True}, **policy):
        policy = {"restartStrategy": "InPlaceRestart", **policy}
        rjobs = rjobs or (rjob("workers", 2, parallelism=1, completions=1, backoffLimit=MAX_INT32),)
        world = running(*rjobs, force=force, gates=gates, **policy)
        on_failed_node(world, taint=taint)
        world.seconds += 30
        return world

    def report(self, world: NodeWorld, previous: int | None, current: int | None) -> None:
        attempts = {"previous_in_place_restart_attempt": previous, "current_in_place_restart_attempt": current}
        world.js = structs.replace(world.js, status=structs.replace(world.status, **attempts))

    @pytest.mark.parametrize(("force", "taint"), [(True, UNREACHABLE), (False, ""), (False, OUT_OF_SERVICE)])
    def test_the_pod_is_deleted_and_released_and_no_job_restarts(self, force, taint):
        world = self.lost(taint, force=force)
        action, prompt = world.plan().actions
        assert (action.name, action.uid) == (POD, "pod-of-js-workers-1")
        assert action.replaced
        assert (prompt.name, prompt.patch["metadata"]) == ("js-workers-1", {"uid": "uid-2"})
        [said] = warnings(world, "LostPodsReplaced")
        assert said.startswith(f"pod {POD} is on node n1, which ")
        world.settle()
        assert (world.status.restarts, world.pods_on_failed_nodes, len(world.live())) == (0, [], 2)

    @pytest.mark.parametrize(
        ("stored", "asked"),
        [((None, None), None), ((None, 0), 0), ((0, 1), 1), ((0, 0), 0)],
        ids=["not begun", "first", "third", "asked for before"],
    )
    def test_the_other_pods_are_asked_to_begin_the_next_attempt_at_once(self, stored, asked):
        world = self.lost()
        self.report(world, *stored)
        world.settle()
        status = world.status
        assert (status.previous_in_place_restart_attempt, status.current_in_place_restart_attempt) == (asked, stored[1])

    def test_a_job_is_made_to_look_by_another_limit_in_each_attempt(self):
        limits = []
        for previous, current in [(None, None), (None, 0), (0, 1)]:
            world = self.lost()
            self.report(world, previous, current)
            plan = world.plan()
            assert plan.status_first, "the next attempt is asked for even if the Job is gone, or refuses the patch"
            limits += [action.patch["spec"] for action in plan.actions if isinstance(action, PatchJob)]
        assert limits == [{"backoffLimit": 2147483646 - attempt} for attempt in range(3)]

    def test_a_job_with_a_limit_of_its_own_keeps_it(self):
        world = self.lost(UNREACHABLE, rjob("workers", 2, parallelism=1, completions=1, backoffLimit=6))
        assert [type(action) for action in world.plan().actions] == [DeletePod]

    def test_a_lost_pod_without_an_agent_asks_for_no_attempt(self):
        after = {"name": "last", "dependsOn": [{"name": "workers", "status": "Complete"}]}
        groups = [rjob(name, 2, parallelism=1, completions=1) for name in ("workers", "last")]
        world = self.lost(UNREACHABLE, groups[0], groups[1] | after)
        self.report(world, None, 0)
        world.settle()
        assert (world.pods_on_failed_nodes, world.status.previous_in_place_restart_attempt) == ([], None)

    def test_nothing_is_replaced_if_the_node_has_come_back_unseen(self):
        world = self.lost()
        world.nodes_back.add("n1")
        assert world.plan().actions == ()

    @pytest.mark.parametrize(
        ("policy", "force"),
        [
            ({}, False),
            ({"action": "RestartJobSet"}, True),
            ({"rules": [{"name": "r", "action": "RestartJobSet"}]}, True),
            ({"rules": [{"name": "r", "action": "RestartJobSet", "onJobFailureReasons": ["NodeFailure"]}]}, True),
            ({"gates": GATE}, True),
        ],
    )
    def test_the_set_restarts_if_a_rule_or_action_says_so_or_nobody_ends_the_pod(self, policy, force):
        world = self.lost(force=force, **policy)
        world.settle()
        assert world.status.restarts == 1

    @pytest.mark.parametrize(
        "rule",
        [
            {"onJobFailureReasons": ["BackoffLimitExceeded"]},
            {"targetReplicatedJobs": ["other"]},
            {"onExitCodes": {"operator": "NotIn", "values": [1]}},
        ],
    )
    def test_rules_that_are_about_something_else_do_not_matter(self, rule):
        world = self.lost(rules=[{"name": "r", "action": "FailJobSet", **rule}])
        world.settle()
        assert (world.status.restarts, world.status.terminal_state) == (0, "")

    def test_a_suspended_set_replaces_nothing(self):
        world = self.lost()
        suspend(world)
        assert not any(isinstance(action, DeletePod) for action in world.plan().actions)


def test_without_the_gate_nothing_happens_but_a_warning():
    world = running(gates={})
    on_failed_node(world)
    assert settled_later(world, 60).status.restarts == 0
    [said] = warnings(world, "FeatureGateDisabled")
    assert "JobSetNodeFailure=true" in said
