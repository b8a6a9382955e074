"""The domains of spares in exclusive placement: which Job gets one, and what holds it until its pods are there."""

from dataclasses import replace
from itertools import count

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from api import keys
from api.names import job_key
from api.spare_pods import PoolPod
from api.spares import promises_to
from controllers.planning.actions import EndSpare, GivePlace, LiftGate
from controllers.planning.observed import Observed
from controllers.planning.steps.give_places import PLACE_COOLDOWN
from tests.controllers.test_node_failure import deleted, on_failed_node
from tests.controllers.test_spare_places import GATES, LOST, PoolWorld, lose
from tests.support.objects.stored_sets import jobset, rjob

SIZE = 3
ALONE = {"rules": [{"name": "alone", "action": "RestartJob"}]}


class DomainWorld(PoolWorld):
    """A world of Jobs of `SIZE` pods. What the executor writes about pods happens here, and what kube-scheduler does.

    `where`: the domain of each Job whose leader has a node, by its UID. `domains`: how many were given.
    `died`: whether a pod of a spare has ended by itself.
    """

    def __init__(self, js, **gates):
        super().__init__(js, **gates)
        self.where: dict[str, str] = {}
        self.at: dict[str, int] = {}
        self.domains = 0
        self.died = False
        self._numbers = count()

    def observe(self) -> Observed:
        served = frozenset(uid for uid, at in self.at.items() if at + PLACE_COOLDOWN > self.seconds)
        return replace(super().observe(), served_pods=served)

    def _do(self, action: object) -> None:
        match action:
            case GivePlace(pod=name, spare=spare, node=node):
                assert self.pool[name].uid == action.pod_uid
                assert self.pool[spare].uid == action.spare_uid
                assert self.pool.pop(spare).node == node
                for keeper, uid in action.keepers:
                    assert self.pool[keeper].uid == uid
                    self._change(keeper, job_key=action.job_key)
                assert bool(action.keepers) == self.pool[name].leads
                self.domains += self.pool[name].leads and not self.pool[name].nominated
                self.at[self.pool[name].uid] = self.seconds
                self._change(name, nominated=node, gated=False, unschedulable=False)
            case EndSpare(name, uid):
                assert self.pool[name].is_spare
                assert self.pool.pop(name).uid == uid
            case LiftGate(name, uid):
                assert self.pool[name].uid == uid
                assert self.pool[name].gated
                self._change(name, gated=False)
            case _:
                super()._do(action)

    def _change(self, name: str, **more) -> None:
        self.pool[name] = msgspec.structs.replace(self.pool[name], **more)

    def pod(self, job: str, index: int, **more) -> str:
        """One more pod of a Job; a worker is held back if its Job was promised a domain."""
        of = self.jobs[job]
        labels, uid = of["spec"]["template"]["metadata"]["labels"], of["metadata"]["uid"]
        known = {"leads": index == 0, "job_key": job_key("ns", job), "awaits_leader": index > 0, "gated": False}
        if labels[keys.REPLICATED_JOB_NAME] == "workers":
            promises = promises_to(f"{job}-{index}", exclusive=True)
            known |= {"gated": any(not promises.isdisjoint(entry.promised_to) for entry in self.status.spares)}
            known |= {"awaits_leader": index > 0 and uid not in self.where}
        name = f"{job}-{index}-{next(self._numbers)}"
        self.pool[name] = PoolPod(
            namespace="default",
            name=name,
            uid=f"uid-{name}",
            resource_version="1",
            jobset="js",
            jobset_uid="",
            job_uid=uid,
            group=labels[keys.REPLICATED_JOB_NAME],
            pool=labels[keys.SPARES],
            created=self.now,
            **known | more,
        )
        of["status"]["active"] = of["status"].get("active", 0) + (labels[keys.REPLICATED_JOB_NAME] == "workers")
        return name

    def hold(self, job: str) -> None:
        """The pods of a spare that are missing are ready, all in one domain."""
        uid = self.jobs[job]["metadata"]["uid"]
        mine = [pod for pod in self.pool.values() if pod.job_uid == uid]
        if any(pod.job_key != job_key("ns", job) for pod in mine):
            return  # its pods are still there, in another domain
        domain = next((pod.node.rpartition("-")[0] for pod in mine), f"d{next(self._numbers)}")
        for index in range(SIZE):
            if not any(pod.node == f"{domain}-{index}" for pod in mine):
                self.pod(job, index, node=f"{domain}-{index}", awaits_leader=False)

    def start(self, job: str) -> None:
        """The Job controller makes the pods of a Job that has none: the leader first."""
        for index in range(SIZE):
            self.pod(job, index)

    def bind(self) -> None:
        """kube-scheduler binds leaders: where they are nominated to, if only keepers of their key are there."""
        if self.js.spec.suspend:
            return
        for name, pod in list(self.pool.items()):
            if not pod.is_spare and pod.leads and not pod.gated and pod.job_uid in self.uids():
                domain = pod.nominated.rpartition("-")[0]
                others = [each for each in self.pool.values() if each.is_spare and each.node.startswith(f"{domain}-")]
                assert not domain or all(each.job_key == pod.job_key for each in others), "it is kept out"
                held = others or self.died or pod.uid not in self.observe().served_pods
                assert not domain or held, "nobody holds the domain"
                self.where[pod.job_uid] = domain or f"d{next(self._numbers)}"
                del self.pool[name]
        for name, pod in list(self.pool.items()):
            if pod.awaits_leader and pod.job_uid in self.where:
                self._change(name, awaits_leader=False)

    def bind_followers(self) -> None:
        for name, pod in list(self.pool.items()):
            if not (pod.is_spare or pod.leads or pod.gated or pod.awaits_leader):
                del self.pool[name]

    def halt(self) -> None:
        """The Job controller ends the pods of suspended Jobs."""
        super().halt()
        ended = {job["metadata"]["uid"] for job in self.jobs.values() if job["spec"]["suspend"]}
        self.pool = {name: pod for name, pod in self.pool.items() if pod.job_uid not in ended}
        self.where = {uid: domain for uid, domain in self.where.items() if uid not in ended}

    def uids(self) -> set[str]:
        return {self.jobs[name]["metadata"]["uid"] for name in self.live()}

    def placed(self, job: str) -> bool:
        """Whether the leader of a Job has a node."""
        return self.jobs[job]["metadata"]["uid"] in self.where

    def of(self, job: str) -> list[PoolPod]:
        uid = self.jobs[job]["metadata"]["uid"]
        return [pod for pod in self.pool.values() if pod.job_uid == uid]

    @property
    def keepers(self) -> list[PoolPod]:
        own = {job["metadata"]["uid"]: job_key("ns", name) for name, job in self.jobs.items()}
        return [pod for pod in self.pool.values() if pod.is_spare and pod.job_key != own.get(pod.job_uid)]


EXCLUSIVE = {keys.EXCLUSIVE_TOPOLOGY: "rack"}


def running(spares: int = 1, *, on_pods: bool = False, **policy) -> DomainWorld:
    """Two Jobs of workers that run, and spares that hold domains.

    `on_pods`: the annotation of exclusive placement is on the pod templates, not on the set.
    """
    size = {"completions": SIZE, "parallelism": SIZE}
    policy = {"maxRestarts": 99, "nodeFailure": {"afterSeconds": 0, "forceDeletePods": True}, **policy}
    rjobs = rjob("workers", 2, **size), rjob("spare", spares, **size, spareFor="workers")
    for each in rjobs if on_pods else ():
        each["template"]["spec"]["template"]["metadata"] = {"annotations": EXCLUSIVE}
    js = jobset(*rjobs, annotations={} if on_pods else EXCLUSIVE, failurePolicy=policy)
    world = DomainWorld(js, **GATES)
    for _ in range(2):
        world.settle()
        world.run()
    for name, job in world.jobs.items():
        world.where[job["metadata"]["uid"]] = f"first-{name}"
        if "spare" in name:
            world.hold(name)
    world.settle()
    return world


@pytest.mark.parametrize(
    "policy", [{}, ALONE, {"on_pods": True}], ids=["the set", "the Job", "annotated pod templates"]
)
def test_a_job_that_lost_its_domain_gets_that_of_a_spare_and_nobody_else_can(policy):
    world = running(**policy)
    lose(world)
    assert world.entry == (0, (f"{LOST}-0",))
    [domain] = {pod.node.rpartition("-")[0] for pod in world.of("js-spare-0")}
    world.start(LOST)
    assert all(pod.gated for pod in world.of(LOST)), "followers wait, too"
    world.settle()
    leader, *followers = world.of(LOST)
    assert (leader.nominated, leader.gated) == (f"{domain}-0", False)
    assert [pod.gated for pod in followers] == [True] * (SIZE - 1)
    assert {pod.job_key for pod in world.of("js-spare-0")} == {job_key("ns", LOST)}
    world.bind()
    world.settle()
    assert {pod.nominated for pod in world.of(LOST)} == {f"{domain}-1", f"{domain}-2"}
    assert not any(pod.gated for pod in world.of(LOST))
    assert world.of("js-spare-0") == []
    assert world.entry == (1, (f"{LOST}-*",)), "one domain; the promise to followers lasts until all are ready"
    world.run()
    world.settle()
    assert world.entry == (1, ())


def test_a_follower_that_comes_late_finds_its_place():
    world = running(**ALONE)
    lose(world)
    world.pod(LOST, 0)
    world.jobs[LOST]["status"]["active"] = 1
    world.settle()
    world.bind()
    world.settle()
    assert len(world.keepers) == SIZE - 1
    late = world.pod(LOST, 2)
    world.settle()
    assert world.pool[late].nominated
    assert len(world.keepers) == SIZE - 2


def test_a_spare_of_which_one_pod_is_missing_gives_nothing():
    world = running()
    world.pool.pop(next(name for name, pod in world.pool.items() if not pod.leads))
    lose(world)
    assert world.entry == (0, ())


def test_a_leader_that_goes_back_to_its_followers_gets_no_other_domain():
    world = running(restartStrategy="InPlaceRestart")
    lose(world)
    world.jobs[LOST]["status"]["ready"] = SIZE - 1
    leader = world.pod(LOST, 0)
    world.settle()
    assert (world.domains, world.pool[leader].gated) == (0, False)


def test_a_leader_that_does_not_fit_into_the_domain_lets_go_of_it():
    world = running(spares=2, **ALONE)
    lose(world)
    world.start(LOST)
    world.settle()
    leader = world.of(LOST)[0]
    world._change(leader.name, unschedulable=True)
    world.settle()
    assert len(world.keepers) == SIZE - 1, "kube-scheduler may have looked before the spare was gone"
    world.seconds += int(PLACE_COOLDOWN) + 1
    world.settle()
    assert world.domains == 1, "it is counted once"
    assert world.pool[leader.name].nominated != "", "another spare is given only where it is nominated to"
    assert world.keepers == []


def test_the_next_leader_is_not_tied_to_a_domain_that_the_last_one_did_not_reach():
    world = running(**ALONE)
    lose(world)
    world.start(LOST)
    world.settle()
    assert world.keepers
    world.fail(LOST)
    world.replace_jobs()
    world.pod(LOST, 0, gated=False)
    world.settle()
    assert world.keepers == []


@pytest.mark.parametrize("ready", [False, True])
def test_a_spare_that_is_not_ready_is_made_again_away_from_the_node_that_failed(ready: bool):
    world = running(**ALONE, avoidNodes={"scope": "Domain"})
    before = world.jobs["js-spare-0"]["metadata"]["uid"]
    lose(world)
    world.run(LOST)
    world.jobs["js-spare-0"]["status"]["ready"] = SIZE if ready else SIZE - 1
    world.replace_jobs()
    meta = world.jobs["js-spare-0"]["metadata"]
    assert (meta["uid"] == before) == ready
    assert ready or meta["annotations"][keys.AVOIDED_NODES] == "n1"


def test_a_domain_is_counted_once_if_the_manager_ends_before_the_leader_is_nominated():
    world = running(**ALONE)
    lose(world)
    world.start(LOST)
    world.store_status_alone()
    assert world.entry == (1, (f"{LOST}-*",))
    world.settle()
    assert (world.domains, world.entry) == (1, (1, (f"{LOST}-*",)))
    assert world.pool[world.pod(LOST, 2)].gated, "a follower that comes late is held back, too"


def test_a_process_that_ends_in_between_is_followed_by_one_that_goes_on():
    """The leader was nominated and one pod had taken its key when the process ended."""
    world = running(**ALONE)
    lose(world)
    world.start(LOST)
    first, *others = world.of("js-spare-0")
    leader = world.of(LOST)[0]
    world._change(leader.name, nominated=first.node)
    world._change(others[0].name, job_key=leader.job_key)
    world.settle()
    assert first.name not in world.pool
    assert not world.pool[leader.name].gated
    assert {pod.job_key for pod in world.of("js-spare-0")} == {leader.job_key}


OF_JOBS = ("lose 0", "lose 1", "lose both", "start", "start, end", "ready", "hold", "suspend", "resume", "fail")
OF_PODS = ("bind", "followers", "unfit", "spare dies", "later")
STEPS = st.lists(st.sampled_from(OF_JOBS + OF_PODS), max_size=25)


@settings(max_examples=150, deadline=None)
@example(steps=["lose 0", "start", "suspend", "resume", "ready"], spares=1, policy={})
@given(steps=STEPS, spares=st.integers(1, 2), policy=st.sampled_from([{}, ALONE]))
def test_whatever_is_lost_no_pod_stays_held_back_and_no_domain_is_held_for_nobody(steps, spares, policy):
    world = running(spares, **policy)
    for step in [*steps, "resume", "start", "later", "bind", "followers", "ready", "later"]:
        if world.status.terminal_state:
            break
        (_pods_change if step in OF_PODS else _jobs_change)(world, step)
        world.settle()
        deleted(world)
        world.seconds += 1
        world.settle()
        world.collect()
        gone = {uid for uid in {pod.job_uid for pod in world.pool.values()} if uid not in world.uids()}
        world.pool = {name: pod for name, pod in world.pool.items() if pod.job_uid not in gone}
        world.settle()
        if world.js.spec.suspend:
            continue
        used, _ = world.entry
        assert used == world.domains
        waiting = [pod for pod in world.pool.values() if not pod.is_spare]
        assert not [pod for pod in waiting if pod.gated and (pod.leads or not pod.awaits_leader)], "held back for good"
        claimed = {pod.job_key for pod in world.pool.values() if not pod.is_spare}
        assert {pod.job_key for pod in world.keepers} <= claimed, "a domain is held for nobody"
    assert world.js.spec.suspend or world.status.terminal_state or not world.keepers


def _jobs_change(world: DomainWorld, step: str) -> None:
    workers = [name for name in world.live() if "workers" in name and not world.finished(name)]
    runs = [name for name in world.live() if not world.jobs[name]["spec"].get("suspend")]
    match step:
        case "start" | "start, end":
            for name in set(runs).intersection(workers):
                if not (world.jobs[name]["status"].get("ready") or world.of(name) or world.placed(name)):
                    world.start(name)
            if step != "start":
                world.store_status_alone()
        case "ready":
            world.bind()
            world.settle()
            world.bind_followers()
            world.run()
        case "hold":
            for name in set(runs).difference(workers):
                world.hold(name)
        case "suspend" | "resume":
            world.edit(suspend=step == "suspend")
            world.settle()
            world.halt()
        case "fail":
            for name in [name for name in runs if name in workers][:1]:
                world.fail(name)
        case _:
            for name in [name for name in workers if step in {"lose both", f"lose {name[-1]}"}]:
                on_failed_node(world, name, at_risk_since=world.now)


def _pods_change(world: DomainWorld, step: str) -> None:
    match step:
        case "bind":
            world.bind()
        case "followers":
            world.bind_followers()
        case "unfit":
            for name, pod in world.pool.items():
                if pod.leads and not pod.is_spare and not pod.gated:
                    world._change(name, unschedulable=True)
        case "spare dies":
            world.pool.pop(next((name for name, pod in world.pool.items() if pod.is_spare), ""), None)
            world.died = True
        case _:
            world.seconds += int(PLACE_COOLDOWN) + 1
