"""P13: 40 suspended JobSets of two Jobs each are created, admitted by a queue, and finish.

The queue is a stand-in for Kueue: a webhook for Jobs that looks for their owner (`dev.bench.owner_webhook`), and an
update of each JobSet that resumes it and puts its pods on nodes of a flavor.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from dev.bench.owner_webhook import looking_for_owners
from dev.bench.phases import counted, measured, settled
from dev.bench.scenarios.group import Result, Size
from dev.bench.scene import AT_ONCE, JSON, Scene
from dev.bench.sets import GROUP, attempt, checked, end, jobset, says, statuses

SETS = 40
FLAVOR = {"kubernetes.io/os": "linux"}
"""Labels that all fake nodes have, as a node selector."""


def run(scene: Scene, size: Size, _: frozenset[str]) -> Iterator[Result]:
    sets = size.of(SETS)
    jobs = 2 * sets
    with looking_for_owners(scene):
        with counted(scene) as phase:
            begun = time.monotonic()
            scene.create_all(scene.path("jobsets", GROUP), [_suspended(f"set-{n}") for n in range(sets)])
            phase["created_seconds"] = time.monotonic() - begun
            phase["seconds"] = settled(lambda: says(scene, suspended=jobs)) - begun
        yield "P13 create", phase
        with measured(scene, jobs, selector=attempt(0), reported=lambda: says(scene, ready=jobs)) as phase:
            _in_parallel(scene, _admit, [f"set-{n}" for n in range(sets)])
        pods = [pod["metadata"]["name"] for pod in checked(scene, jobs)]
        yield "P13 admit", phase
        with counted(scene) as phase:
            begun = time.monotonic()
            _in_parallel(scene, functools.partial(end, code=0), pods)
            phase["seconds"] = settled(lambda: _completed(scene) == sets) - begun
        yield "P13 finish", phase


def _suspended(name: str) -> JSON:
    """Of two ReplicatedJobs of one Job each, which differ."""
    manifest = jobset(1, name=name)
    [workers] = manifest["spec"]["replicatedJobs"]
    leader = {**workers, "name": "leader", "template": {"spec": {**workers["template"]["spec"], "backoffLimit": 1}}}
    manifest["spec"] |= {"suspend": True, "replicatedJobs": [leader, workers]}
    manifest["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "bench"}
    return manifest


def _admit(scene: Scene, name: str) -> None:
    path = f"{scene.path('jobsets', GROUP)}/{name}"
    body = scene.request("GET", path)
    body["spec"]["suspend"] = False
    for rjob in body["spec"]["replicatedJobs"]:
        template = rjob["template"]["spec"]["template"]
        template.setdefault("metadata", {})["labels"] = {"kueue.x-k8s.io/podset": rjob["name"]}
        template["spec"]["nodeSelector"] = FLAVOR
    scene.request("PUT", path, body)


def _in_parallel(scene: Scene, act: Callable[[Scene, str], None], names: list[str]) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda name: act(scene, name), names))


def _completed(scene: Scene) -> int:
    return sum(status.get("terminalState") == "Completed" for status in statuses(scene))
