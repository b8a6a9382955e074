"""The scenarios of `python -m dev.bench`, each a table of phases. A phase is an act that is measured."""

import functools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from api import keys
from dev.bench import many
from dev.bench.owner_webhook import looking_for_owners
from dev.bench.phases import count_requests, measure_pods, pods_at, wait_for_status, watch_running_pods
from dev.bench.play import Play
from dev.bench.scene import CONNECTIONS, Scene
from dev.bench.sets import (
    HALF_A_NODE,
    attempt_selector,
    end_pod,
    is_reported,
    jobset,
    real_jobset,
    running_pods,
    statuses,
)
from kube.model.meta import JSON

Act = Callable[[Play], JSON]
"""Plays a phase, and returns its figures."""

FLAVOR = {"kubernetes.io/os": "linux"}
"""Labels that all fake nodes have, as a node selector (P13)."""

LARGE_SET = f"{keys.JOBSET_NAME}=large"
"""Label selector of the pods of the large JobSet (P6)."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Phases that build on each other, by name. A name begins with a code, such as P1. The first is always played.

    - `includes_floors`: whether floors play it, too.
    - `is_played_once`: whether it is played only in the first round.
    - `has_own_cluster`: whether it has its own cluster.
    - `real_nodes`: number of real nodes of that cluster; with 0, it has fake nodes.
    - `sections`: sections in the configuration of the manager on that cluster.
    - `context`: a context that is entered for all phases.
    """

    phases: Mapping[str, Act]
    includes_floors: bool = True
    is_played_once: bool = False
    has_own_cluster: bool = False
    sections: Mapping[str, JSON] = field(default_factory=dict)
    real_nodes: int = 0
    context: Callable[[Scene], AbstractContextManager[None]] = lambda _: nullcontext()

    @property
    def codes(self) -> list[str]:
        return list(dict.fromkeys(name.partition(" ")[0] for name in self.phases))

    def play(self, play: Play, wanted: frozenset[str]) -> Iterator[tuple[str, JSON]]:
        """Play the phases. Yields the name and figures of each phase."""
        with self.context(play.scene), play.exit_stack:
            for number, (name, act) in enumerate(self.phases.items()):
                if not number or name.partition(" ")[0] in wanted:
                    yield name, act(play)


def create(jobs: int, pods: int = 1, cpu: str = "", *, exclusive: bool = False, real: bool = False) -> Act:
    """An act that creates a JobSet of `jobs` Jobs, scaled. `real`: whether its pods are for real nodes."""
    if real:
        return lambda play: play.create(real_jobset(play.scale_count(jobs), pods))
    return lambda play: play.create(jobset(play.scale_count(jobs), pods, cpu=cpu, exclusive=exclusive))


def create_many(sets: int, jobs: int) -> Act:
    """An act that creates JobSets at once, until all their pods run."""

    def act(play: Play) -> JSON:
        scene, count = play.scene, play.scale_count(sets)
        pods = count * jobs
        reported = functools.partial(is_reported, scene, ready=pods)
        with measure_pods(scene, pods, selector=attempt_selector(0), reported=reported) as phase:
            scene.create_all(scene.jobsets_path, [jobset(jobs, name=f"set-{n}") for n in range(count)])
        running_pods(scene, pods)
        return {**phase, "jobs": pods}

    return act


def wait_alone(play: Play) -> JSON:
    """P6: measure how long 50 JobSets of one pod wait for their pod."""
    small = play.scale_count(50)
    with count_requests(play.scene) as phase:
        phase.update(_measure_waits(play.scene, "alone", small))
        wait_for_status(lambda: is_reported(play.scene, ready=small))
    return phase


def wait_beside(play: Play) -> JSON:
    """P6: measure how long 50 JobSets wait just after a JobSet of 2,000 Jobs, whose phase is `play.large_phase`."""
    scene, small, large = play.scene, play.scale_count(50), play.scale_count(2000)
    with (
        count_requests(scene) as large_phase,
        watch_running_pods(scene, LARGE_SET) as events,
        ThreadPoolExecutor(1) as pool,
    ):
        start_times = pool.submit(lambda: [moment for moment, _ in pods_at(events, "ADDED", large)])
        [start] = scene.create_all(scene.jobsets_path, [jobset(large, name="large")])
        with count_requests(scene) as phase:
            phase.update(_measure_waits(scene, "beside", small))
        large_phase |= {"pods": large, "seconds": start_times.result()[-1] - start}
        large_phase["pods_per_second"] = large / large_phase["seconds"]
        large_phase["reported_seconds"] = wait_for_status(lambda: is_reported(scene, ready=large + 2 * small)) - start
    running_pods(scene, large + 2 * small)
    play.large_phase = large_phase
    return phase


def _measure_waits(scene: Scene, prefix: str, count: int) -> JSON:
    """The median and the longest of the times from sending a JobSet of one pod until its pod runs, in seconds."""
    manifests = [jobset(1, name=f"{prefix}-{n}") for n in range(count)]
    names = [manifest["metadata"]["name"] for manifest in manifests]
    with watch_running_pods(scene, f"{keys.JOBSET_NAME} in ({','.join(names)})") as events:
        sent_at = scene.create_all(scene.jobsets_path, manifests)
        ran_at = {meta["labels"][keys.JOBSET_NAME]: moment for moment, meta in pods_at(events, "ADDED", count)}
    waits = [ran_at[name] - moment for name, moment in zip(names, sent_at, strict=True)]
    return {"pods": count, "seconds": max(waits), "half_seconds": statistics.median(waits), "waits": sorted(waits)}


def queue(play: Play) -> JSON:
    """P13: create 40 suspended JobSets of two different ReplicatedJobs with a Job each."""
    scene, sets = play.scene, play.scale_count(40)
    with count_requests(scene) as phase:
        start = time.monotonic()
        scene.create_all(scene.jobsets_path, [_suspended_set(f"set-{n}") for n in range(sets)])
        phase["created_seconds"] = time.monotonic() - start
        phase["seconds"] = wait_for_status(lambda: is_reported(scene, suspended=2 * sets)) - start
    return phase


def admit(play: Play) -> JSON:
    """P13: resume the JobSets, and put their pods on nodes of a flavor, as Kueue does."""
    scene, sets = play.scene, play.scale_count(40)
    reported = functools.partial(is_reported, scene, ready=2 * sets)
    with measure_pods(scene, 2 * sets, selector=attempt_selector(0), reported=reported) as phase:
        _run_in_parallel(functools.partial(_admit, scene), [f"set-{n}" for n in range(sets)])
    play.pods = running_pods(scene, 2 * sets)
    return phase


def finish(play: Play) -> JSON:
    """P13: let the pods of the JobSets succeed, until all JobSets are Completed."""
    scene, sets = play.scene, play.scale_count(40)

    def are_completed() -> bool:
        return [status.get("terminalState") for status in statuses(scene)].count("Completed") == sets

    with count_requests(scene) as phase:
        start = time.monotonic()
        _run_in_parallel(functools.partial(end_pod, scene, code=0), [pod["metadata"]["name"] for pod in play.pods])
        phase["seconds"] = wait_for_status(are_completed) - start
    return phase


def _suspended_set(name: str) -> JSON:
    manifest = jobset(1, name=name)
    [workers] = manifest["spec"]["replicatedJobs"]
    leader = {**workers, "name": "leader", "template": {"spec": {**workers["template"]["spec"], "backoffLimit": 1}}}
    manifest["spec"] |= {"suspend": True, "replicatedJobs": [leader, workers]}
    manifest["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "bench"}
    return manifest


def _admit(scene: Scene, name: str) -> None:
    path = f"{scene.jobsets_path}/{name}"
    body = scene.request("GET", path)
    body["spec"]["suspend"] = False
    for rjob in body["spec"]["replicatedJobs"]:
        template = rjob["template"]["spec"]["template"]
        template.setdefault("metadata", {})["labels"] = {"kueue.x-k8s.io/podset": rjob["name"]}
        template["spec"]["nodeSelector"] = FLAVOR
    scene.request("PUT", path, body)


def _run_in_parallel(act: Callable[[str], object], names: list[str]) -> None:
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(act, names))


def scenario_apart(phases: Mapping[str, Act], sections: Mapping[str, JSON] | None = None) -> Scenario:
    """A scenario for managers, once, on a cluster of its own, with these sections in the manager's configuration."""
    return Scenario(phases, includes_floors=False, is_played_once=True, has_own_cluster=True, sections=sections or {})


SCENARIOS = (
    Scenario({"P1": create(300), "P2": Play.restart, "P5 suspend": Play.suspend, "P5 resume": Play.resume}),
    Scenario({"P3 plain create": create(40, 10, HALF_A_NODE), "P3 plain restart": Play.restart}, includes_floors=False),
    Scenario(
        {"P3 create": create(40, 10, HALF_A_NODE, exclusive=True), "P3 restart": Play.restart}, includes_floors=False
    ),
    Scenario({"P4": create_many(150, 2)}),
    Scenario(
        {"P13 create": queue, "P13 admit": admit, "P13 finish": finish},
        includes_floors=False,
        is_played_once=True,
        context=looking_for_owners,
    ),
    scenario_apart({"P6 alone": wait_alone, "P6 beside": wait_beside, "P6 large": lambda play: play.large_phase}),
    scenario_apart(
        {
            "P19 create": create_many(many.SETS, many.JOBS),
            "P19 rest": many.rest,
            "P19 failures": many.fail_jobs,
            "P19 start": many.start_another,
            "P19 takeover": many.take_over,
            "P19 deletion": many.delete_all,
        },
        many.ELECTION,
    ),
    Scenario({"P23 create": create(6, 2, real=True), "P23 restart": Play.restart}, has_own_cluster=True, real_nodes=2),
)
