"""P7: a gang of 16 Jobs of 16 pods, all or nothing, each Job on a rack of its superslice; created and restarted."""

from __future__ import annotations

from collections.abc import Iterator

from dev.bench.scenarios.group import Result, Size
from dev.bench.scenarios.placed import CPU
from dev.bench.scenarios.steps import created, restarted
from dev.bench.scene import JSON, Scene
from dev.bench.sets import SUPERSLICE, TOPOLOGY, jobset

JOBS, PODS = 16, 16
GATES = {"JobSetWorkloadAwareSchedulingAPI": True, "JobSetGangOfGangs": True}


def run(scene: Scene, size: Size, _: frozenset[str]) -> Iterator[Result]:
    manifest = jobset(size.of(JOBS), PODS, cpu=CPU)
    workers = {"targetReplicatedJobs": ["workers"], "job": {"schedulingConstraints": _topology(TOPOLOGY)}}
    manifest["spec"]["scheduling"] = {
        "schedulingPolicy": {"gang": {}},
        "schedulingConstraints": _topology(SUPERSLICE),
        "replicatedJobs": [workers],
    }
    phase, pods = created(scene, manifest)
    yield "P7 create", phase
    yield "P7 restart", restarted(scene, manifest, pods)[0]


def _topology(key: str) -> JSON:
    return {"topology": [{"key": key}]}
