"""Nodes that a set leaves before they go: the notice, one planned move, and no loop (docs/concepts/node-maintenance.md)."""

from dataclasses import replace

import msgspec

from api import keys
from api.pod import Pod
from controllers.planning.actions import DeletePod, NodeQuery, PodQuery
from controllers.planning.observed import Observed, PodAtRisk
from tests.support.model.lives import at, settled_later, suspend
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob

GATE = {"JobSetNodeMaintenance": True}
IN_PLACE = {**GATE, "InPlaceRestart": True}
CORDON = "node.kubernetes.io/unschedulable"
PLANNED = "this restart is planned, and does not count towards maxRestarts"


class TaintedWorld(World):
    """A world with nodes. `tainted`: those with a taint, as they are; `seen`: as the watch has them, if it is behind."""

    def __init__(self, js, **gates):
        super().__init__(js, **gates)
        self.tainted: set[str] = set()
        self.seen: set[str] | None = None
        self.bound: list[PodAtRisk] = []
        self.deleted: list[str] = []

    def _nodes(self, observed: Observed, tainted: set[str]) -> Observed:
        known = self.status.maintenance.nodes if self.status.maintenance else ()
        evicted = {pod.node for pod in self.bound if pod.evicted}
        there = (pod for pod in self.bound if pod.node in tainted | evicted)
        pods = tuple(pod if pod.node in tainted else replace(pod, taint="") for pod in there)
        names = (tainted & {*(pod.node for pod in pods), *(node.name for node in known)}) | evicted
        return replace(observed, pods_to_move=pods, nodes_in_maintenance=frozenset(names))

    def observe(self) -> Observed:
        return self._nodes(super().observe(), self.tainted if self.seen is None else self.seen)

    def answer(self, observed: Observed, pod_query: PodQuery) -> Observed:
        if not isinstance(pod_query, NodeQuery):
            return super().answer(observed, pod_query)
        assert observed.read_nodes.isdisjoint(pod_query.nodes), "a node is read twice for one plan"
        self.seen = None
        return replace(self._nodes(observed, self.tainted), read_nodes=observed.read_nodes.union(pod_query.nodes))

    def _do(self, action: object) -> None:
        if not isinstance(action, DeletePod):
            super()._do(action)
            return
        assert (action.replaced, action.graceful) == (True, True), "the node works"
        [pod] = [pod for pod in self.bound if (pod.name, pod.uid) == (action.name, action.uid)]
        self.bound[self.bound.index(pod)] = replace(pod, deleting=True, is_tracked_by_job=False)
        self.deleted.append(pod.name)

    def bind(self, *nodes: str) -> None:
        """The pod of each Job is on the node of its number, and has run since now."""
        jobs = sorted(self.live())
        self.bound = [
            PodAtRisk(f"{job}-0-{self.seconds}", f"{job}-{self.seconds}", self.jobs[job]["metadata"]["uid"],
                             node, CORDON, "", created=self.now, is_tracked_by_job=True)
            for job, node in zip(jobs, nodes, strict=True)
        ]  # fmt: skip

    def moves(self) -> list[str]:
        return [event.note for event in self.events if event.reason == "NodeMaintenance"]


def running(*, wait: int | None = 60, gates: dict[str, bool] = GATE, signal: str = "", **policy) -> TaintedWorld:
    """Two Jobs that run from second 0 on nodes n0 and n1."""
    wanted = {"taintKeys": [CORDON]}
    if wait is not None:
        wanted["notice"] = {"waitSeconds": wait} | ({"signal": signal} if signal else {})
    policy = {"maxRestarts": 1, "maintenance": wanted, **policy}
    world = TaintedWorld(jobset(rjob("workers", 2, parallelism=1, completions=1), failurePolicy=policy), **gates)
    start(world)
    return world


def start(world: TaintedWorld, *nodes: str) -> None:
    """All Jobs are created and run."""
    world.collect()
    world.settle()
    world.run()
    world.bind(*(nodes or ("n0", "n1")))
    world.settle()


def taint(world: TaintedWorld, *nodes: str) -> None:
    world.tainted.update(nodes)
    world.settle()


class TestTheNotice:
    def test_event_and_status_say_which_nodes_and_until_when(self):
        world = running()
        world.seconds = 10
        taint(world, "n1")
        notice = world.status.maintenance
        assert (notice.notice_time, notice.move_time) == (at(10), at(70))
        assert [(node.name, node.taint, node.moved) for node in notice.nodes] == [("n1", CORDON, False)]
        [event] = [event for event in world.events if event.reason == "NodeMaintenanceNotice"]
        said = f"node n1 has the taint {CORDON}: the set moves at {at(70)} at the latest"
        assert (event.type, event.note) == ("Normal", said)
        assert world.plan().requeue_after == 60

    def test_the_set_moves_at_its_end_and_that_counts_for_nothing(self):
        world = running()
        taint(world, "n1")
        assert settled_later(world, 59).status.restarts == 0
        assert settled_later(world, 1).status.restarts == 1
        assert world.status.restarts_count_towards_max == 0
        assert world.status.attempt_history == (), "nothing has failed"
        message = f"node n1 has the taint {CORDON}: {PLANNED}"
        assert world.condition(keys.RESTARTING) == ("True", "NodeMaintenance", message)
        assert world.status.last_restart.reason == "NodeMaintenance"
        assert [event.type for event in world.events if event.reason == "NodeMaintenance"] == ["Normal"]
        assert world.status.maintenance.notice_time == ""

    def test_without_one_the_set_moves_at_once(self):
        world = running(wait=None)
        taint(world, "n1")
        assert world.status.restarts == 0, "pods that come in this second could not be told from the old ones"
        assert world.plan().requeue_after == 1
        assert settled_later(world, 1).status.restarts == 1

    def test_a_taint_that_goes_away_before_is_forgotten(self):
        world = running()
        taint(world, "n1")
        world.tainted.clear()
        assert settled_later(world, 30).status.maintenance is None
        assert settled_later(world, 100).status.restarts == 0

    def test_a_watch_that_is_behind_moves_nothing(self):
        world = running()
        taint(world, "n1")
        world.seen, world.tainted = {"n1"}, set()
        assert settled_later(world, 60).status.restarts == 0
        assert world.status.maintenance is None

    def test_a_second_node_joins_it(self):
        world = running()
        taint(world, "n1")
        world.seconds = 30
        taint(world, "n0")
        assert world.status.maintenance.move_time == at(60)
        settled_later(world, 30)
        start(world, "n2", "n3")
        assert settled_later(world, 300).status.restarts == 1

    def test_without_the_gate_a_warning_says_so_and_agents_get_no_notice(self):
        world = running()
        taint(world, "n1")
        world.gates = type(world.gates)({})
        world.settle()
        assert world.status.maintenance.notice_time == ""
        assert settled_later(world, 300).status.restarts == 0
        assert "JobSetNodeMaintenance" in world.warnings[-1].note

    def test_a_pod_that_came_after_the_taint_tolerates_it(self):
        world = running()
        world.seconds = 10
        world.bound = [replace(pod, created=at(5), at_risk_since=at(4)) for pod in world.bound]
        taint(world, "n1")
        assert world.status.maintenance is None

    def test_no_more_nodes_than_the_status_may_name(self):
        world = running()
        one = world.bound[0]
        world.bound = [replace(one, node=f"x{number:03}") for number in range(200)]
        taint(world, *(pod.node for pod in world.bound))
        assert len(world.status.maintenance.nodes) == 32
        settled_later(world, 60)
        assert world.status.restarts == 1


class TestNoLoop:
    def test_pods_that_come_back_to_the_node_stay(self):
        """Whatever they tolerate, however often the set is created again for other reasons."""
        world = running(maxRestarts=9)
        taint(world, "n1")
        settled_later(world, 60)
        for restarts in (1, 2, 3):
            world.bound = []
            settled_later(world, 1)
            start(world, "n0", "n1")
            assert settled_later(world, 600).status.restarts == restarts
            world.fail("js-workers-0")
            world.settle()
        assert len(world.moves()) == 1

    def test_another_taint_after_all_are_gone_moves_it_again(self):
        world = running()
        taint(world, "n1")
        settled_later(world, 60)
        start(world)
        world.tainted.clear()
        world.settle()
        taint(world, "n1")
        assert settled_later(world, 60).status.restarts == 2
        assert world.status.restarts_count_towards_max == 0

    def test_a_stale_watch_does_not_forget_the_node(self):
        world = running()
        taint(world, "n1")
        settled_later(world, 60)
        start(world, "n0", "n1")
        world.seen = set()
        world.settle()
        assert [node.moved for node in world.status.maintenance.nodes] == [True]


class TestOneRestart:
    def test_a_failure_during_the_notice_is_the_only_restart(self):
        world = running()
        taint(world, "n1")
        world.fail("js-workers-0")
        world.settle()
        start(world, "n0", "n1")
        assert settled_later(world, 300).status.restarts == 1
        assert world.status.maintenance.notice_time == ""
        assert world.moves() == []

    def test_a_suspended_set_does_not_move(self):
        world = running()
        taint(world, "n1")
        suspend(world)
        world.halt()
        settled_later(world, 300)
        assert (world.status.restarts, world.status.maintenance.notice_time) == (0, "")
        world.edit(suspend=False)
        world.settle()
        start(world, "n0", "n1")
        assert settled_later(world, 300).status.restarts == 0, "a resume has made new pods"

    def test_a_set_that_is_suspended_when_its_time_is_over_does_not_move(self):
        world = running()
        taint(world, "n1")
        world.seconds = 60
        suspend(world)
        assert settled_later(world, 0).status.restarts == 0

    def test_a_finished_set_does_not_move(self):
        world = running()
        taint(world, "n1")
        for job in world.live():
            world.finish(job)
        world.settle()
        assert settled_later(world, 300).status.restarts == 0
        assert world.status.terminal_state == "Completed"

    def test_a_crash_after_the_status_restarts_once(self):
        world = running()
        taint(world, "n1")
        world.seconds = 60
        decided = world.plan()
        world._store(decided.status)
        world.settle()
        assert (world.status.restarts, len(world.status.maintenance.nodes)) == (1, 1)


def report(world: TaintedWorld, *attempts: int, said: str | None = None) -> None:
    """The agents report an attempt, and that they are ready to move."""
    annotate(world, *attempts, said=said)
    world.settle()


def annotate(world: TaintedWorld, *attempts: int, said: str | None = None) -> None:
    """The pods have what their agents report."""
    ready = {} if said is None else {keys.MAINTENANCE_ACKNOWLEDGED: said}
    world.pods = []
    for job, attempt in zip(sorted(world.live()), attempts, strict=True):
        ref = {"kind": "Job", "name": job, "uid": world.jobs[job]["metadata"]["uid"], "controller": True}
        meta = {"name": job, "uid": f"{job}-{attempt}", "ownerReferences": [{"apiVersion": "batch/v1", **ref}]}
        meta["annotations"] = {keys.IN_PLACE_RESTART_ATTEMPT: str(attempt), **ready}
        world.pods.append(msgspec.convert({"metadata": meta, "status": {"phase": "Running"}}, Pod))


def in_place(**policy) -> TaintedWorld:
    """Agents that run attempt 0."""
    world = running(gates=IN_PLACE, restartStrategy="InPlaceRestart", signal="SIGUSR1", **policy)
    report(world, 0, 0)
    assert world.status.current_in_place_restart_attempt == 0
    return world


class TestInPlace:
    def test_only_the_pods_there_are_replaced_and_the_attempt_does_not_count(self):
        world = in_place(maxRestarts=0)
        taint(world, "n1")
        settled_later(world, 60)
        assert (world.deleted, world.status.restarts) == (["js-workers-1-0-0"], 0)
        assert world.moves() == [
            f"node n1 has the taint {CORDON}: its pods there are replaced, and all restart in place; {PLANNED}"
        ]
        assert world.status.previous_in_place_restart_attempt == 0, "the other workers end at once"
        report(world, 0, 1)
        report(world, 1, 1)
        assert (world.status.current_in_place_restart_attempt, world.status.terminal_state) == (1, "")
        assert world.status.attempt_history == ()
        report(world, 2, 1)
        assert world.status.terminal_state == "Failed", "a failure counts as before"

    def test_restarts_of_containers_by_the_move_do_not_count(self):
        world = in_place(maxRestarts=0)
        taint(world, "n1")
        settled_later(world, 60)
        report(world, 0, 1)
        container = {"name": "main", "restartCount": 1}
        again = msgspec.to_builtins(world.pods[0])
        world.pods[0] = msgspec.convert(
            {**again, "status": {"phase": "Running", "containerStatuses": [container]}}, Pod
        )
        world.settle()
        assert world.status.terminal_state == ""

    def test_it_ends_early_when_all_agents_have_acknowledged_this_notice(self):
        world = in_place()
        world.seconds = 5
        taint(world, "n1")
        report(world, 0, 0, said=at(0))
        assert world.deleted == [], "that was another notice"
        report(world, 0, 0, said=at(5))
        assert world.deleted == ["js-workers-1-0-0"]

    def test_one_agent_that_says_nothing_is_waited_for(self):
        world = in_place()
        world.seconds = 1
        taint(world, "n1")
        silent = world.pods[1]
        ready = {keys.IN_PLACE_RESTART_ATTEMPT: "0", keys.MAINTENANCE_ACKNOWLEDGED: at(1)}
        said = msgspec.to_builtins(world.pods[0])
        world.pods = [msgspec.convert({**said, "metadata": {**said["metadata"], "annotations": ready}}, Pod), silent]
        world.settle()
        assert world.deleted == []
        world.pods.pop()
        world.settle()
        assert world.deleted == [], "an agent is missing"

    def test_a_failure_takes_the_move_along(self):
        """The worker on the other node asks for the next attempt: the replaced pod joins that, and it counts once."""
        world = in_place()
        world.seconds = 1
        taint(world, "n1")
        report(world, 1, 0)
        assert world.deleted == ["js-workers-1-0-0"]
        report(world, 1, 1)
        assert world.status.current_in_place_restart_attempt == 1
        report(world, 2, 1)
        assert world.status.terminal_state == "Failed", "maxRestarts is 1, and two workers have failed"

    def test_a_crash_after_the_status_leaves_the_deletion_to_the_next_process(self):
        world = in_place()
        taint(world, "n1")
        world.seconds = 60
        decided = world.plan()
        assert decided.status_first
        world._store(decided.status)
        attempts = world.status.execution_attempts
        world.settle()
        assert world.deleted == ["js-workers-1-0-0"]
        assert world.status.execution_attempts == attempts, "it is counted once"

    def test_pods_that_cannot_be_deleted_do_not_hold_up_the_next_notice(self):
        world = in_place()
        taint(world, "n1")
        world.seconds = 60
        world._store(msgspec.structs.replace(world.plan().status, current_in_place_restart_attempt=1))
        annotate(world, 1, 1)
        world.tainted.add("n0")
        world.seconds = 61
        decided = world.plan()
        assert [action.name for action in decided.actions] == ["js-workers-1-0-0"]
        assert (decided.status.maintenance.notice_time, decided.status_first) == (at(61), True)

    def test_a_pod_that_comes_to_the_node_later_stays(self):
        world = in_place()
        taint(world, "n1")
        settled_later(world, 60)
        world.bind("n0", "n1")
        settled_later(world, 600)
        assert len(world.deleted) == 1

    def test_a_pod_that_has_succeeded_makes_it_a_restart_of_the_set(self):
        world = in_place()
        taint(world, "n1")
        done = msgspec.to_builtins(world.pods[0]) | {"status": {"phase": "Succeeded"}}
        world.pods[0] = msgspec.convert(done, Pod)
        settled_later(world, 60)
        assert (world.deleted, world.status.restarts, world.status.restarts_count_towards_max) == ([], 1, 0)

    def test_more_nodes_than_the_status_may_name_make_it_a_restart_of_the_set(self):
        world = in_place()
        one = world.bound[0]
        world.bound = [replace(one, node=f"x{number:03}", uid=f"u{number}") for number in range(40)]
        taint(world, *(pod.node for pod in world.bound))
        settled_later(world, 60)
        assert (world.deleted, world.status.restarts, world.status.restarts_count_towards_max) == ([], 1, 0)
