"""Runs managers in turn, each on a fresh cluster, round after round, and collects the figures of the scenarios.

So other load on the machine affects all managers alike.
"""

import dataclasses
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from http.client import HTTPException

from dev import local
from dev.bench.managers import Entry, further_manager, running_manager, scratch_cluster
from dev.bench.phases import wait_for_status
from dev.bench.play import Play
from dev.bench.proc import memory_mib, shared_once_mib
from dev.bench.scenarios import SCENARIOS, Scenario
from dev.bench.scene import BenchmarkError, Scene
from dev.bench.sets import GROUP, TOPOLOGY, is_reported, jobset, real_jobset
from dev.cluster.progress import say
from dev.cluster.spec import ClusterSpec, FakeNodes
from kube.model.meta import JSON

NODES = {TOPOLOGY: 10}
"""Nodes of a rack."""


@dataclass(frozen=True, slots=True)
class Bench:
    """The managers and scenarios of a run, and its start."""

    entries: Sequence[Entry]
    wanted: frozenset[str]
    rounds: int = 3
    nodes: int = 600
    scale: float = 1.0
    started_at: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        """Print progress with the time since the start."""
        minutes, seconds = divmod(int(time.monotonic() - self.started_at), 60)
        say(f"[{minutes:02}:{seconds:02}] {text}")


def turns(bench: Bench) -> Iterator[JSON]:
    """A record for each round, manager and cluster, as soon as it is complete."""
    chosen = [scenario for scenario in SCENARIOS if bench.wanted & set(scenario.codes)]
    together = [scenario for scenario in chosen if not scenario.apart]
    clusters = ([together] if together else []) + [[scenario] for scenario in chosen if scenario.apart]
    for number in range(1, bench.rounds + 1):
        for entry in bench.entries:
            for scenarios in clusters:
                due = [s for s in scenarios if (s.floors or not entry.floor) and (number == 1 or not s.once)]
                if due:
                    bench.say(f"round {number} of {bench.rounds}: {entry.name}")
                    yield {"round": number, "manager": entry.name, **_turn(bench, entry, due)}


def _turn(bench: Bench, entry: Entry, scenarios: list[Scenario]) -> JSON:
    """One manager on a cluster of its own; errors are collected beside the phases."""
    record: JSON = {"phases": {}, "errors": []}
    sections = scenarios[0].sections
    real = scenarios[0].real_nodes
    bench.say(f"a cluster of {real} real nodes" if real else f"a cluster of {bench.nodes} fake nodes")
    nodes = FakeNodes(count=0 if real else bench.nodes, label_every=NODES)
    spec = ClusterSpec(name="bench", nodes=nodes, real_nodes=real)
    with scratch_cluster(spec) as (cluster, folder):
        first = folder / "manager"

        def start_manager(name: str) -> AbstractContextManager[local.Manager]:
            shutil.copytree(first / "certs", folder / name / "certs")
            return further_manager(cluster, folder / name, entry, sections)

        try:
            with running_manager(cluster, first, entry, sections) as manager:
                scene = Scene(cluster, manager.process.pid, "warm-up")
                _warm_up(scene, real_jobset(1, 1) if real else jobset(1))
                record["idle_rss_mib"], record["idle_pss_mib"] = memory_mib(scene.pid), shared_once_mib(scene.pid)
                for number, scenario in enumerate(scenarios):
                    namespace = f"{scenario.codes[0].lower()}-{number}"
                    own = dataclasses.replace(scene, namespace=namespace)
                    play = Play(own, bench.scale, managers=[manager], start_manager=start_manager)
                    _play(bench, play, scenario, record)
                    if scenario is not scenarios[-1]:
                        own.drop_namespace()
                if record["errors"]:
                    bench.say(f"  the manager's log ends with\n{manager.tail()}")
        except local.LocalError as error:
            _add_error(bench, record, str(error))
    return record


def _warm_up(scene: Scene, manifest: JSON) -> None:
    """Let one pod run and stay, so that the caches of the manager and the API server are filled."""
    scene.create_namespace()
    with scene.watch(scene.path("pods"), fieldSelector="status.phase=Running") as events:
        scene.request("POST", scene.path("jobsets", GROUP), manifest)
        next(events)
        wait_for_status(lambda: is_reported(scene, ready=1))


def _play(bench: Bench, play: Play, scenario: Scenario, record: JSON) -> None:
    """Play a scenario in a new namespace; an error ends it."""
    play.scene.create_namespace()
    try:
        for name, phase in scenario.play(play, bench.wanted):
            record["phases"][name] = phase
            bench.say(f"  {name}: {phase['seconds']:.1f} s, {phase['manager']['requests']} requests")
    except (BenchmarkError, OSError, HTTPException) as error:
        _add_error(bench, record, f"{'/'.join(scenario.codes)}: {str(error) or type(error).__name__}")


def _add_error(bench: Bench, record: JSON, error: str) -> None:
    bench.say(f"  failed: {error}")
    record["errors"].append(error)
