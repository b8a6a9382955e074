"""Domains of spares where somebody has written annotations or labels since, and what they cost."""

from dataclasses import replace

import msgspec

from api import keys
from api.names import job_key
from api.spare_pods import PoolPod
from controllers.jobset.memory import Memory
from controllers.jobset.spare_pods import BY_JOBSET, with_spare_pods
from controllers.planning.actions import EndSpare, GivePlace
from controllers.planning.steps.give_places import PLACE_COOLDOWN
from kube.store import Store
from tests.controllers.test_spare_domains import ALONE, SIZE, running
from tests.controllers.test_spare_places import LOST, lose


def test_pods_from_before_exclusive_placement_hold_no_domain_and_are_not_held_back():
    """Annotations may change at any time. The pods of Jobs that are there stay as they were created."""
    world = running(**ALONE)
    before = {pod.uid for pod in world.of("js-spare-0")}
    for pod in world.of("js-spare-0"):
        world._change(pod.name, job_key="", leads=False)
    waiting = world.pod(LOST, 0, job_key="", leads=False, gated=True)
    world.settle()
    assert {pod.uid for pod in world.of("js-spare-0")} == before
    assert not world.pool[waiting].gated
    assert world.domains == 0


def test_a_pod_whose_key_somebody_wrote_is_not_held_back():
    world = running(**ALONE)
    follower = world.pod(LOST, 1, job_key=job_key("ns", "js-workers-0"), gated=True)
    world.settle()
    assert not world.pool[follower].gated


def test_by_the_node_selector_strategy_places_are_given_one_by_one():
    """Admission refuses it at creation. Later somebody may add the annotation."""
    world = running(**ALONE)
    meta = world.js.metadata
    strategy = {**meta.annotations, keys.NODE_SELECTOR_STRATEGY: "true"}
    world.js = msgspec.structs.replace(world.js, metadata=msgspec.structs.replace(meta, annotations=strategy))
    for pod in world.of("js-spare-0"):
        world._change(pod.name, job_key="", leads=False)
    pod = world.pod(LOST, 0, job_key="", leads=False, unschedulable=True)
    decided = world.plan().actions
    assert [(type(action), action.pod, action.keepers) for action in decided] == [(GivePlace, pod, ())]


def test_a_new_leader_leaves_the_domain_to_a_job_that_was_given_it_a_moment_ago(monkeypatch):
    """kube-scheduler has said that there is no node, and has not looked since the spare gave way."""
    world = running(**ALONE)
    lose(world)
    world.start(LOST)
    world.settle()
    world._change(world.of(LOST)[0].name, unschedulable=True)
    meta, memory = world.js.metadata, Memory("")
    store: Store[PoolPod] = Store({BY_JOBSET: lambda pod: [pod.jobset_uid]})
    for pod in world.pool.values():
        store.apply(msgspec.structs.replace(pod, namespace=meta.namespace, jobset_uid=meta.uid))
    observed, ended = world.observe(), []
    for clock in (5.0, 5.0 + PLACE_COOLDOWN):
        seen = with_spare_pods(observed, store, memory, clock)
        monkeypatch.setattr(world, "observe", lambda seen=seen: seen)
        ended.append([action for action in world.plan().actions if isinstance(action, EndSpare)])
    assert [len(pods) for pods in ended] == [0, SIZE - 1]


class Passes(tuple[PoolPod, ...]):
    """Counts how often somebody goes through it."""

    __slots__ = ()
    number = 0

    def __iter__(self):
        Passes.number += 1
        return super().__iter__()


def test_the_work_for_many_domains_grows_with_the_pods_alone(monkeypatch):
    passes = []
    for lost in ([LOST], [LOST, "js-workers-0"]):
        world = running(spares=2, **ALONE)
        for job in lost:
            world.pod(job, 0, unschedulable=True)
            world.jobs[job]["status"]["ready"] = 0
        observed = world.observe()
        monkeypatch.setattr(world, "observe", lambda seen=observed: replace(seen, spare_pods=Passes(seen.spare_pods)))
        Passes.number = 0
        given = [action for action in world.plan().actions if isinstance(action, GivePlace)]
        assert len(given) == len(lost)
        passes.append(Passes.number)
    assert passes[0] == passes[1]
