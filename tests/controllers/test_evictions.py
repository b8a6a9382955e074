"""Sets with `maintenance` whose pods are evicted: a planned move, with a notice for the other workers (docs/concepts/node-maintenance.md)."""

import contextlib
from dataclasses import replace

import msgspec
import pytest

from api import keys
from api.pod import Pod
from tests.controllers.test_node_maintenance import PLANNED, TaintedWorld, in_place, report, running, start, taint
from tests.support.model.failing_nodes import DRAIN
from tests.support.model.lives import at, settled_later, suspend
from tests.support.model.moves import Moves
from tests.support.model.replica import Crash, Fault
from tests.support.objects.stored_sets import jobset, rjob

EVICTED = f"pods on node n1 are evicted: {PLANNED}"


def evict(world: TaintedWorld, number: int = 1, *, ended: bool = False) -> None:
    """Somebody evicts the pod of this number; `ended`: it has ended since, and its Job has not noticed."""
    world.bound[number] = replace(world.bound[number], deleting=True, evicted=True, ended=ended)
    if world.pods:
        meta = {"deletionTimestamp": world.now, **msgspec.to_builtins(world.pods[number])["metadata"]}
        phase = "Failed" if ended else "Running"
        world.pods[number] = msgspec.convert({"metadata": meta, "status": {"phase": phase}}, Pod)
    world.settle()


def lose(world: TaintedWorld, number: int = 1) -> None:
    """The pod of this number is gone, and its Job has none."""
    world.bound.pop(number)
    world.pods.pop(number)
    world.settle()


class TestByRecreation:
    def test_the_set_moves_at_once_and_that_counts_for_nothing(self):
        """No worker can be told, and the Job of the evicted pod may fail at any moment."""
        world = running(maxRestarts=0)
        world.seconds = 10
        evict(world)
        assert (world.status.restarts, world.status.restarts_count_towards_max) == (1, 0)
        assert world.condition(keys.RESTARTING) == ("True", "NodeMaintenance", EVICTED)
        assert (world.status.attempt_history, world.moves()) == ((), [EVICTED])

    def test_pods_that_come_to_the_node_stay_and_it_is_forgotten_with_the_evicted_one(self):
        world = running()
        world.seconds = 10
        evict(world)
        [node] = world.status.maintenance.nodes
        assert (node.name, node.taint, node.moved) == ("n1", "", True)
        world.bound = []
        assert settled_later(world, 1).status.maintenance is None
        start(world, "n0", "n1")
        assert settled_later(world, 300).status.restarts == 1

    def test_another_eviction_moves_it_again(self):
        """Also from a node that it has left, and that still has a taint: somebody evicts what tolerates the taint."""
        world = running()
        taint(world, "n1")
        settled_later(world, 60)
        start(world, "n0", "n1")
        world.seconds += 1
        evict(world)
        assert (world.status.restarts, world.status.restarts_count_towards_max) == (2, 0)
        start(world, "n0", "n1")
        assert settled_later(world, 300).status.restarts == 2

    def test_an_eviction_during_a_notice_ends_it(self):
        world = running()
        taint(world, "n1", "n0")
        world.seconds = 5
        evict(world)
        assert (world.status.restarts, world.status.restarts_count_towards_max) == (1, 0)
        assert world.status.maintenance.notice_time == ""

    def test_a_job_that_has_failed_already_is_a_failure(self):
        world = running()
        world.seconds = 10
        world.fail("js-workers-1")
        evict(world, ended=True)
        assert (world.status.restarts, world.status.restarts_count_towards_max) == (1, 1)
        assert settled_later(world, 60).status.restarts == 1

    def test_a_suspended_set_does_not_move(self):
        world = running()
        suspend(world)
        world.halt()
        world.seconds = 10
        evict(world)
        assert (world.status.restarts, world.status.maintenance) == (0, None)

    def test_without_the_gate_nothing_happens(self):
        world = running(gates={})
        world.seconds = 10
        evict(world)
        assert (world.status.restarts, world.status.maintenance) == (0, None)

    def test_a_pod_of_the_same_node_that_is_not_evicted_is_no_reason(self):
        world = running()
        world.seconds = 10
        world.bound[0] = replace(world.bound[0], node="n1", job_uid="of another attempt")
        evict(world, 0)
        assert (world.status.restarts, world.status.maintenance) == (0, None)


class TestInPlace:
    def test_the_others_get_the_notice_and_the_set_moves_when_the_pod_has_ended(self):
        world = in_place(maxRestarts=0)
        world.seconds = 10
        evict(world)
        notice = world.status.maintenance
        assert (notice.notice_time, notice.move_time) == (at(10), at(70))
        [event] = [event for event in world.events if event.reason == "NodeMaintenanceNotice"]
        assert event.note == f"pods on node n1 are evicted: the set moves at {at(70)} at the latest"
        assert (settled_later(world, 5).moves(), world.status.previous_in_place_restart_attempt) == ([], None)
        evict(world, ended=True)
        assert world.status.previous_in_place_restart_attempt == 0, "the other workers end at once"
        assert world.deleted == [], "it is being deleted already"
        report(world, 1, 1)
        assert (world.status.current_in_place_restart_attempt, world.status.terminal_state) == (1, "")
        assert (world.status.attempt_history, world.status.restarts) == ((), 0)

    def test_a_process_that_has_not_seen_its_end_moves_the_set(self):
        world = in_place(maxRestarts=0)
        world.seconds = 10
        evict(world)
        lose(world)
        assert world.status.previous_in_place_restart_attempt == 0
        report(world, 1, 1)
        assert (world.status.current_in_place_restart_attempt, world.status.terminal_state) == (1, "")

    def test_workers_that_fail_because_of_it_do_not_count(self):
        world = in_place(maxRestarts=0)
        world.seconds = 10
        evict(world)
        report(world, 1, 0)
        report(world, 1, 1)
        assert (world.status.current_in_place_restart_attempt, world.status.terminal_state) == (1, "")
        assert len(world.moves()) == 1
        report(world, 2, 1)
        assert world.status.terminal_state == "Failed", "a failure counts as before"

    def test_containers_that_fail_because_of_it_do_not_count(self):
        """The kubelet has started a container again, and its agent has not reported the next attempt yet."""
        world = in_place(maxRestarts=0)
        world.seconds = 10
        evict(world)

        def restart_other(times: int) -> None:
            status = {"phase": "Running", "containerStatuses": [{"name": "main", "restartCount": times}]}
            world.pods[0] = msgspec.convert({**msgspec.to_builtins(world.pods[0]), "status": status}, Pod)
            world.settle()

        restart_other(1)
        assert (world.status.terminal_state, world.moves()) == ("", [])
        evict(world, ended=True)
        assert (world.status.terminal_state, len(world.moves())) == ("", 1)
        restart_other(2)
        assert world.status.terminal_state == "Failed", "a failure counts as before"

    def test_workers_that_have_used_up_their_restarts_end_the_set_whatever_else_is_due(self):
        """Here the user wants another number of Jobs, for which a later step restarts the set."""
        elastic = rjob("workers", 2, parallelism=1, completions=1, elastic={"min": 1, "max": 3})
        policy = in_place(maxRestarts=0).js.spec.failure_policy
        gates = {"JobSetNodeMaintenance", "InPlaceRestart", "JobSetElasticReplicas", "ElasticJobSet"}
        world = TaintedWorld(jobset(elastic), **dict.fromkeys(gates, True))
        world.edit(failure_policy=policy)
        start(world)
        report(world, 0, 0)
        world.seconds = 10
        evict(world)
        world.seconds = 70
        world.edit(replicated_jobs=jobset({**elastic, "replicas": 3}).spec.replicated_jobs)
        status = {"phase": "Running", "containerStatuses": [{"name": "main", "restartCount": 2}]}
        world.pods[0] = msgspec.convert({**msgspec.to_builtins(world.pods[0]), "status": status}, Pod)
        world.settle()
        assert (world.status.terminal_state, world.status.restarts, world.moves()) == ("Failed", 0, [])

    def test_all_agents_that_of_the_evicted_pod_too_end_the_notice(self):
        world = in_place()
        world.seconds = 10
        evict(world)
        for said in ((at(10), at(9)), (at(10), at(10))):
            assert world.moves() == []
            for number, ready in enumerate(said):
                pod = msgspec.to_builtins(world.pods[number])
                pod["metadata"]["annotations"][keys.MAINTENANCE_ACKNOWLEDGED] = ready
                world.pods[number] = msgspec.convert(pod, Pod)
            world.settle()
        assert len(world.moves()) == 1
        assert world.deleted == ["js-workers-1-0-0"], "once, so that its Job does not count it as failed"

    def test_without_a_notice_it_moves_at_once(self):
        world = running(wait=None, gates={"JobSetNodeMaintenance": True, "InPlaceRestart": True},
                        restartStrategy="InPlaceRestart")  # fmt: skip
        report(world, 0, 0)
        world.seconds = 10
        evict(world)
        assert world.status.previous_in_place_restart_attempt == 0

    @pytest.mark.parametrize("tainted", [False, True])
    def test_other_pods_of_the_node_are_replaced_only_if_it_has_a_taint(self, tainted):
        world = in_place()
        world.seconds = 10
        world.bound[0] = replace(world.bound[0], node="n1")
        if tainted:
            taint(world, "n1")
        evict(world, ended=True)
        assert len(world.moves()) == 1
        assert world.deleted == ["js-workers-0-0-0"] * tainted

    def test_an_eviction_that_a_restart_of_the_set_has_overtaken_moves_nothing(self):
        world = in_place()
        world.seconds = 10
        evict(world)
        world.fail("js-workers-0")
        world.settle()
        assert world.status.restarts == 1
        world.bound, world.pods = [], []
        world.settle()
        start(world, "n0", "n1")
        report(world, 1, 1)
        assert settled_later(world, 300).moves() == []
        assert world.status.maintenance is None

    def test_a_crash_after_the_status_leaves_the_release_of_its_pod_to_the_next_process(self):
        """Else the Job would count it as failed when it has ended, and wait before it makes the next one."""
        world = in_place()
        world.seconds = 10
        evict(world)
        world.seconds = 70
        world._store(world.plan().status)
        world.settle()
        assert world.deleted == ["js-workers-1-0-0"]

    def test_a_crash_after_the_deletion_leaves_the_release_to_the_next_process(self):
        world = in_place()
        taint(world, "n1")
        world.seconds = 60
        world._store(world.plan().status)
        world.bound[1] = replace(world.bound[1], deleting=True)
        world.settle()
        assert world.deleted == ["js-workers-1-0-0"]

    def test_a_crash_after_the_status_counts_it_once(self):
        world = in_place(maxRestarts=0)
        world.seconds = 10
        evict(world)
        world.bound[1] = replace(world.bound[1], ended=True)
        decided = world.plan()
        world._store(decided.status)
        attempts = world.status.execution_attempts
        lose(world)
        assert (world.status.execution_attempts, world.status.maintenance) == (attempts, None)


@pytest.mark.parametrize(
    ("kind", "write"), [(kind, write) for kind in ("crash before", "crash after") for write in range(3)]
)
def test_wherever_a_process_crashes_the_evicted_pod_is_released_before_it_ends(kind, write):
    """Else its Job would count it as failed, and wait before it makes the next one."""
    policy = {
        "maxRestarts": 0,
        "restartStrategy": "InPlaceRestart",
        "rules": [],
        "maintenance": {"taintKeys": [DRAIN], "notice": {"waitSeconds": 9, "signal": "SIGUSR1"}},
    }
    others = dict.fromkeys(("alone", "success", "ttl", "deadline", "exit_codes"))
    setup = {
        "replicas": [2],
        "order": "AnyOrder",
        "policy": policy,
        "suspend": False,
        "claims": False,
        "exclusive": False,
    }
    model = Moves()
    model.begin({**setup, **others}, {"JobSetNodeMaintenance"}, on_resume=False, old_server=False, large=10)
    with contextlib.closing(model.loop):
        model._all_goes_well(None)
        pod = model.server.evictable()[0]
        model.ledger.drains += 1
        model.server.evict(pod)
        model.server.seconds += 10
        model.replica.catch_up()
        model.replica.reconcile()
        model.server.seconds += 10
        model.replica.catch_up()
        with pytest.raises(Crash):
            model.replica.reconcile(Fault(kind, write))
        model.replica = model.process()
        model.replica.catch_up()
        model.replica.reconcile()
    status = model.js.status
    assert (status.previous_in_place_restart_attempt, status.terminal_state) == (0, "")
    assert pod not in model.server.tables["pods"].live, "the model's server drops a deleted pod without finalizers"
