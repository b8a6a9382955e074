"""The places of spares: promised when pods lose their nodes, and given to those that come instead, or find no node."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api import keys
from api.pod import DetailedPod
from api.spare_pods import PoolPod, pool_pod
from controllers.planning.actions import GivePlace, LiftGate
from controllers.planning.observed import Observed, PodAtRisk
from controllers.planning.spare_places import places
from controllers.planning.spares import separate_spares
from tests.controllers.test_node_failure import NodeWorld, deleted, on_failed_node
from tests.support.objects.stored_sets import jobset, rjob

GATES = dict.fromkeys(
    ("JobSetSpares", "JobSetNodeFailure", "JobSetNodeMaintenance", "JobSetAvoidNodes", "InPlaceRestart", "RestartJob"),
    True,
)
GANG = {"schedulingPolicy": {"gang": {}}}
RACK = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
IN_ONE = {**GANG, **RACK}
EACH_IN_ONE = {"replicatedJobs": [{"targetReplicatedJobs": ["workers"], "job": RACK}]}
GANGS = (GANG, {"replicatedJobs": [{"targetReplicatedJobs": ["workers"], "job": {}}]}, IN_ONE, EACH_IN_ONE)
IN_PLACE = {"restartStrategy": "InPlaceRestart"}
LOST = "js-workers-1"


class PoolWorld(NodeWorld):
    """A world with ready spares, and pods without a node, in `pool`. `given`: what spares gave way to."""

    def __init__(self, js, **gates):
        super().__init__(js, **gates)
        self.pool: dict[str, PoolPod] = {}
        self.given: list[GivePlace] = []
        self.let_go: list[str] = []

    def observe(self) -> Observed:
        return separate_spares(replace(super().observe(), spare_pods=tuple(self.pool.values())))

    def _do(self, action: object) -> None:
        match action:
            case GivePlace():
                spare, pod = self.pool.pop(action.spare), self.pool.pop(action.pod)
                assert (spare.uid, spare.node, pod.uid) == (action.spare_uid, action.node, action.pod_uid)
                assert pod.gated == action.gated
                assert (spare.is_spare, pod.is_spare) == (True, False)
                self.given.append(action)
                if action.ended_job is not None:
                    super()._do(action.ended_job)
            case LiftGate(pod, uid):
                assert self.pool[pod].gated
                assert self.pool[pod].uid == uid
                self.pool[pod] = msgspec.structs.replace(self.pool[pod], gated=False)
                self.let_go.append(pod)
            case _:
                super()._do(action)

    def add(self, job: str, *, node: str = "", **more) -> str:
        """A spare on a node, or the next pod of a Job; held back if its JobSet has promised it a place."""
        rank = f"{job}-0"
        name = f"{rank}-new{len(self.pool) + len(self.given)}"
        labels = self.jobs[job]["spec"]["template"]["metadata"]["labels"]
        gated = any(rank in entry.promised_to for entry in self.status.spares)
        known = {"gated": gated, "unschedulable": not gated} | more
        self.pool[name] = PoolPod(
            namespace="default",
            name=name,
            uid=f"uid-{name}",
            resource_version="1",
            jobset="js",
            jobset_uid="",
            job_uid=self.jobs[job]["metadata"]["uid"],
            group=labels[keys.REPLICATED_JOB_NAME],
            pool=labels[keys.SPARES],
            created=self.now,
            node=node,
            **({} if node else known),
        )
        return name

    def store_status_alone(self) -> None:
        """The manager ends once it has written the status of its next plan."""
        if (plan := self.plan()).status_first:
            self._keep(plan)

    @property
    def entry(self) -> tuple[int, tuple[str, ...]]:
        [entry] = self.status.spares
        return entry.used, entry.promised_to


def running(spares: int = 2, scheduling: dict[str, Any] | None = None, **policy) -> PoolWorld:
    """Two workers that run, and spares that hold places on nodes s0, s1, ..."""
    policy = {"maxRestarts": 9, "nodeFailure": {"afterSeconds": 0, "forceDeletePods": True}, **policy}
    rjobs = rjob("workers", 2), rjob("spare", spares, spareFor="workers")
    world = PoolWorld(jobset(*rjobs, failurePolicy=policy, scheduling=scheduling), **GATES)
    for _ in range(2):
        world.settle()
        world.run()
    world.settle()
    for index in range(spares):
        world.add(f"js-spare-{index}", node=f"s{index}")
    world.settle()
    return world


def lose(world: PoolWorld, job: str = LOST, **others) -> None:
    """The node of a Job's pod is gone: the set restarts, or replaces the pod."""
    on_failed_node(world, job, **others)
    world.settle()
    deleted(world)
    world.replace_jobs()


@pytest.mark.parametrize("policy", [{}, IN_PLACE], ids=["created again", "in place"])
def test_a_pod_that_loses_its_node_is_promised_a_place_and_the_next_one_gets_it(policy):
    world = running(**policy)
    world.since_status_write = 0.0  # the counts of the Job may be older
    lose(world)
    assert world.entry == (0, (f"{LOST}-0",))
    [first, *_] = [plan for plan in world.plans if plan.status and plan.status.spares[0].promised_to]
    assert first.status_first or not first.actions, "it is stored before anything is deleted"
    pod = world.add(LOST)
    other = world.add("js-workers-0") if not policy else ""
    assert world.pool[pod].gated
    world.settle()
    assert (world.given[0].pod, world.given[0].gated) == (pod, True)
    assert world.entry[0] == 1 + bool(other), "the other one found no node"
    assert f"{LOST}-0" not in world.entry[1]
    world.seconds += 1
    world.settle()
    assert len(world.given) == 1 + bool(other)


def test_a_move_before_maintenance_promises_a_place(monkeypatch):
    world = running(maintenance={"taintKeys": ["cordon"]})
    uid = world.jobs[LOST]["metadata"]["uid"]
    leaving = PodAtRisk(f"{LOST}-0-old", "old", uid, "n1", "cordon", "", created=world.now)
    nodes = frozenset({"n1"})
    look = world.observe
    seen = {"pods_to_move": (leaving,), "nodes_in_maintenance": nodes, "read_nodes": nodes}
    monkeypatch.setattr(world, "observe", lambda: replace(look(), **seen))
    world.settle()
    world.seconds += 1
    world.settle()
    assert (world.status.restarts, world.status.restarts_count_towards_max) == (1, 0)
    assert world.entry == (0, (f"{LOST}-0",))


def test_a_pod_that_is_held_back_is_let_go_where_no_spare_is_left():
    world = running(1)
    lose(world)
    pod = world.add(LOST)
    world.pool = {name: each for name, each in world.pool.items() if not each.is_spare}
    world.settle()
    assert (world.let_go, world.given, world.entry) == ([pod], [], (0, ()))


def test_no_more_places_are_promised_than_there_are():
    world = running(1)
    on_failed_node(world, "js-workers-0")
    lose(world)
    assert world.entry == (0, ("js-workers-0-0",))


def test_a_node_that_is_lost_while_the_set_restarts_counts_too():
    world = running()
    on_failed_node(world, LOST)
    world.step()
    on_failed_node(world, "js-workers-0", node="n2")
    world.settle()
    deleted(world)
    world.settle()
    assert world.status.restarts == 1
    assert world.entry == (0, (f"{LOST}-0", "js-workers-0-0"))


def test_the_place_on_a_node_that_has_failed_is_not_promised():
    world = running(1)
    lose(world, node="s0")
    assert world.entry == (0, ())


def test_spares_that_a_queue_has_sent_to_other_nodes_give_no_places():
    """Kueue gives each ReplicatedJob a ResourceFlavor, which is a node selector, and may give spares another one."""
    world = running()
    workers, spare = world.js.spec.replicated_jobs
    pods = {"spec": {**spare.pod_spec, "nodeSelector": {"pool": "other"}}}
    template = {"spec": {**spare.job_spec, "template": pods}}
    world.edit(replicated_jobs=(workers, msgspec.structs.replace(spare, template=template)))
    lose(world)
    assert world.status.restarts == 1
    assert world.entry == (0, ())


@pytest.mark.parametrize("scheduling", GANGS)
def test_a_gang_that_restarts_waits_for_no_spare_and_its_lost_pod_gets_a_place(scheduling):
    world = running(scheduling=scheduling)
    lose(world)
    groups = world.of_kind("PodGroup")
    assert sum(group["spec"]["schedulingPolicy"]["gang"]["minCount"] for group in groups) == 2
    in_groups = [name for name, job in world.jobs.items() if job["spec"]["template"]["spec"].get("schedulingGroup")]
    assert sorted(in_groups) == ["js-workers-0", LOST]
    pod = world.add(LOST)
    world.settle()
    assert ([place.pod for place in world.given], world.entry) == ([pod], (1, ()))


@pytest.mark.parametrize("scheduling", [None, *GANGS])
def test_while_a_gang_finds_no_room_its_spares_are_gone(scheduling):
    """kube-scheduler may say that of all of its pods where one node is missing, and forgets their nominations."""
    world = running(scheduling=scheduling)
    lose(world)
    world.pool = {name: pod for name, pod in world.pool.items() if pod.is_spare}
    for job in ("js-workers-0", LOST):
        world.add(job, gated=False, unschedulable=True)
    world.settle()
    world.collect()
    world.settle()
    assert (len(world.given), world.entry[0]) == (2, 2)
    assert ("js-spare-0" in world.jobs) == (scheduling is None)
    world.run()
    world.settle()
    assert "js-spare-0" in world.jobs, "made again once all are ready"


def test_a_failure_of_the_program_promises_nothing():
    world = running()
    world.fail("js-workers-0")
    world.settle()
    assert world.status.restarts == 1
    assert world.entry == (0, ())


def test_a_promise_that_nobody_redeems_ends_when_all_are_ready():
    world = running()
    lose(world)
    world.run()
    world.settle()
    assert world.entry == (0, ())


def test_a_pod_that_was_given_a_place_a_moment_ago_gets_no_other():
    world = running()
    world.run("js-workers-0", ready=False)
    pod = world.add("js-workers-0")
    observed = replace(world.observe(), served_pods=frozenset({world.pool[pod].uid}))
    world.observe = lambda: observed
    decided = world.plan()
    assert decided.actions == ()
    assert decided.requeue_after is not None


def test_a_pod_of_somebody_else_gets_nothing():
    world = running()
    pod = world.add("js-workers-0")
    world.pool[pod] = msgspec.structs.replace(world.pool[pod], job_uid="another")
    world.settle()
    assert world.given == []


STEPS = st.lists(
    st.sampled_from(["lose 0", "lose 1", "lose both", "spare dies", "pods", "ready", "suspend", "resume", "restart"]),
    max_size=20,
)


@settings(max_examples=100, deadline=None)
@given(steps=STEPS, in_place=st.booleans(), scheduling=st.sampled_from([None, *GANGS]))
def test_whatever_is_lost_no_pod_stays_held_back_and_each_place_is_given_once(steps, in_place, scheduling):
    world = running(scheduling=scheduling, **(IN_PLACE if in_place else {}))
    for step in steps:
        if world.status.terminal_state:
            break
        _apply(world, step)
        deleted(world)
        world.seconds += 1
        world.replace_jobs()
        used, promised = world.entry
        jobs = {world.jobs[name]["metadata"]["uid"] for name in world.live()}
        held = [pod for pod in world.pool.values() if pod.gated and pod.job_uid in jobs]
        assert used == len({place.spare for place in world.given}) == len(world.given)
        assert world.js.spec.suspend or not held, "a pod is held back for good"
        assert not world.js.spec.suspend or not promised


def _apply(world: PoolWorld, step: str) -> None:
    workers = [name for name in world.live() if "workers" in name and not world.finished(name)]
    waiting = {pod.job_uid for pod in world.pool.values() if not pod.is_spare}
    match step:
        case "lose 0" | "lose 1" | "lose both":
            for name in workers:
                if step in {"lose both", f"lose {name[-1]}"}:
                    on_failed_node(world, name, at_risk_since=world.now)
        case "spare dies":
            world.pool.pop(next((name for name, pod in world.pool.items() if pod.is_spare), ""), None)
        case "pods":
            for name in workers:
                if world.jobs[name]["metadata"]["uid"] not in waiting:
                    world.add(name)
        case "ready":
            world.pool = {name: pod for name, pod in world.pool.items() if pod.is_spare}
            world.run()
        case "suspend" | "resume":
            world.edit(suspend=step == "suspend")
        case _:
            for name in workers[:1]:
                if not world.jobs[name]["spec"].get("suspend"):
                    world.fail(name)
    world.settle()


def stored(name: str, node: str = "", *, nominated: str = "", gated: bool = False, at: int = 0) -> PoolPod:
    return PoolPod(
        namespace="default",
        name=name,
        uid=name,
        resource_version="1",
        jobset="js",
        jobset_uid="",
        job_uid="",
        group="g",
        pool="p",
        created=f"2026-01-01T00:00:0{at}Z",
        node=node,
        nominated=nominated,
        gated=gated,
    )


@pytest.mark.parametrize(
    ("waiting", "spares", "given"),
    [
        ([stored("a")], [stored("s", "n1")], [("a", "s")]),
        ([stored("b", at=2), stored("a", at=1)], [stored("s", "n1")], [("a", "s")]),
        ([stored("b", at=2, gated=True), stored("a", at=1)], [stored("s", "n1")], [("b", "s")]),
        ([stored("a"), stored("b")], [stored("s", "n1"), stored("t", "n1")], [("a", "s"), ("b", "t")]),
        ([stored("a"), stored("b", nominated="n1", at=9)], [stored("s", "n1")], [("b", "s")]),
        ([stored("a", nominated="n2")], [stored("s", "n1")], []),
        ([stored("a")], [stored("t", "n2", at=2), stored("s", "n1", at=1)], [("a", "s")]),
        ([stored("a")], [], []),
    ],
)
def test_the_oldest_pod_gets_the_first_place(waiting, spares, given):
    assert [(place.pod.name, place.spare.name) for place in places(waiting, spares)] == given


LABELS = {keys.JOBSET_NAME: "js", keys.JOBSET_UID: "u", keys.SPARES: "w"}
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}


@pytest.mark.parametrize(
    ("group", "spec", "status", "kept"),
    [
        ("w", {}, {"phase": "Pending"}, True),
        ("w", {"nodeName": "n"}, {"phase": "Running"}, False),
        ("w", {}, {"phase": "Failed"}, False),
        ("s", {"nodeName": "n"}, {"conditions": [{"type": "Ready", "status": "True"}]}, True),
        ("s", {"nodeName": "n"}, {"conditions": [{"type": "Ready", "status": "False"}]}, False),
        ("s", {}, {}, False),
    ],
)
def test_kept_are_pods_without_a_node_and_spares_that_are_ready(group, spec, status, kept):
    meta = {"name": "p", "uid": "p", "labels": LABELS | {keys.REPLICATED_JOB_NAME: group}, "ownerReferences": [OWNER]}
    pod = msgspec.convert({"metadata": meta, "spec": spec, "status": status}, DetailedPod)
    assert (pool_pod(pod) is not None) == kept
    assert (
        pool_pod(msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, owner_references=())))
        is None
    )
