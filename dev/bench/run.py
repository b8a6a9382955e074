"""Runs managers in turn, each on a fresh cluster, round after round, and keeps what the scenarios measured.

What else the machine does hits all managers alike that way. Must not judge: that is the report's.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

from cli import local
from dev.bench import managers
from dev.bench.managers import Entry
from dev.bench.phases import settled
from dev.bench.proc import memory_mib
from dev.bench.scenarios import gang, hang, in_place, many_sets, node_lost, one_set, placed, queued
from dev.bench.scenarios.group import Group, Size
from dev.bench.scene import JSON, BenchmarkError, Scene, say
from dev.bench.sets import GROUP, SUPERSLICE, TOPOLOGY, jobset, says
from dev.cluster.assets import Sources, locate
from dev.cluster.cluster import running
from dev.cluster.spec import ClusterSpec, FakeNodes

GROUPS = (
    Group(("P1", "P2", "P5"), one_set.run),
    Group(("P3",), placed.plain, floors=False),
    Group(("P3",), placed.exclusive, floors=False),
    Group(("P4",), many_sets.at_once),
    Group(("P13",), queued.run, floors=False, once=True),
    Group(("P6",), many_sets.beside_a_large_one, floors=False, once=True, apart=True),
    Group(("P7",), gang.run, floors=False, once=True, apart=True, gates=gang.GATES),
    Group(("P14",), node_lost.run, floors=False, once=True, apart=True, gates=node_lost.GATES),
    Group(("P15",), in_place.run, floors=False, once=True, apart=True, gates=in_place.GATES),
    Group(("P16",), hang.run, floors=False, once=True, apart=True, gates=hang.GATES),
)
NODES = {TOPOLOGY: 10, SUPERSLICE: 200}
"""Nodes of a rack, and of a superslice."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What is run, and since when."""

    entries: Sequence[Entry]
    wanted: frozenset[str]
    rounds: int = 3
    nodes: int = 600
    size: Size = field(default_factory=Size)
    begun: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        """Progress with the time since the start."""
        minutes, seconds = divmod(int(time.monotonic() - self.begun), 60)
        say(f"[{minutes:02}:{seconds:02}] {text}")


def turns(bench: Bench) -> Iterator[JSON]:
    """One record for each manager, round and cluster, as soon as it is there."""
    assets = Sources(assets=locate(Sources()))
    chosen = [group for group in GROUPS if bench.wanted & set(group.scenarios)]
    together = [group for group in chosen if not group.apart]
    clusters = ([together] if together else []) + [[group] for group in chosen if group.apart]
    for number in range(1, bench.rounds + 1):
        for entry in bench.entries:
            for groups in clusters:
                due = [g for g in groups if (g.floors or not entry.floor) and (number == 1 or not g.once)]
                if due:
                    bench.say(f"round {number} of {bench.rounds}: {entry.name}: a cluster of {bench.nodes} fake nodes")
                    yield {"round": number, "manager": entry.name, **_turn(bench, entry, due, assets)}


def _turn(bench: Bench, entry: Entry, groups: list[Group], assets: Sources) -> JSON:
    """One manager on a cluster of its own; what fails is kept beside what was measured."""
    spec = ClusterSpec(name="bench", nodes=FakeNodes(count=bench.nodes, label_every=NODES))
    record: JSON = {"phases": {}, "errors": []}
    sections = {"featureGates": dict(groups[0].gates)} if groups[0].gates else {}
    with tempfile.TemporaryDirectory(prefix="jobset-bench-") as scratch:
        folder = Path(scratch)
        with running(spec, sources=assets, state_root=folder / "cluster") as cluster:
            try:
                with managers.started(cluster, folder / "manager", entry, sections) as manager:
                    _warm_up(Scene(cluster, manager.process.pid, "warm-up"))
                    record["idle_rss_mib"] = memory_mib(manager.process.pid)
                    _play_all(bench, Scene(cluster, manager.process.pid, ""), groups, record)
                    if record["errors"]:
                        bench.say(f"  the manager's log ends with\n{manager.tail()}")
            except local.LocalError as error:
                _failed(bench, record, str(error))
    return record


def _warm_up(scene: Scene) -> None:
    """Let one pod run and stay: caches are filled then, the manager's and the API server's."""
    scene.create_namespace()
    with scene.watch(scene.path("pods"), fieldSelector="status.phase=Running") as events:
        scene.request("POST", scene.path("jobsets", GROUP), jobset(1))
        next(events)
        settled(lambda: says(scene, ready=1))


def _play_all(bench: Bench, scene: Scene, groups: list[Group], record: JSON) -> None:
    """Each group in a namespace of its own; an error ends the group."""
    for number, group in enumerate(groups):
        place = dataclasses.replace(scene, namespace=f"{group.scenarios[0].lower()}-{number}")
        place.create_namespace()
        try:
            for name, phase in group.run(place, bench.size, bench.wanted):
                record["phases"][name] = phase
                bench.say(f"  {name}: {phase['seconds']:.1f} s, {phase['manager']['requests']} requests")
        except (BenchmarkError, OSError, HTTPException) as error:
            _failed(bench, record, f"{'/'.join(group.scenarios)}: {str(error) or type(error).__name__}")
        if group is not groups[-1]:
            place.drop_namespace()


def _failed(bench: Bench, record: JSON, what: str) -> None:
    bench.say(f"  failed: {what}")
    record["errors"].append(what)
