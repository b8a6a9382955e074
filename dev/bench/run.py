"""Runs managers in turn, each on a fresh cluster, round after round, and collects the figures of the scenarios.

Managers take turns, so that other load on the machine affects all managers alike.
"""

import dataclasses
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from http.client import HTTPException

from dev import local
from dev.bench.managers import Entry, further_manager, running_manager
from dev.bench.phases import wait_for_status
from dev.bench.play import Play
from dev.bench.proc import memory_mib, shared_once_mib
from dev.bench.scenarios import SCENARIOS, Scenario
from dev.bench.scene import BenchmarkError, Scene
from dev.bench.sets import TOPOLOGY, is_reported, jobset, real_jobset
from dev.cluster.progress import say
from dev.cluster.spec import ClusterSpec, FakeNodes
from kube.model.meta import JSON

NODES_PER_DOMAIN = {TOPOLOGY: 10}


@dataclass(frozen=True, slots=True)
class Bench:
    """The managers (`entries`) and scenarios (`wanted`) of a run, its options, and its start."""

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
    """Yield a record for each round, manager and cluster, as soon as it is complete."""
    wanted_scenarios = [scenario for scenario in SCENARIOS if bench.wanted & set(scenario.codes)]
    scenarios_by_cluster = [
        [scenario for scenario in wanted_scenarios if not scenario.has_own_cluster],
        *([scenario] for scenario in wanted_scenarios if scenario.has_own_cluster),
    ]
    for number in range(1, bench.rounds + 1):
        for entry in bench.entries:
            for scenarios in scenarios_by_cluster:
                turn_scenarios = [
                    scenario
                    for scenario in scenarios
                    if (scenario.includes_floors or not entry.is_floor) and (number == 1 or not scenario.is_played_once)
                ]
                if turn_scenarios:
                    bench.say(f"round {number} of {bench.rounds}: {entry.name}")
                    yield {"round": number, "manager": entry.name, **_measure_turn(bench, entry, turn_scenarios)}


def _measure_turn(bench: Bench, entry: Entry, scenarios: list[Scenario]) -> JSON:
    """Measure scenarios of one manager on a cluster of its own. Returns the phases, errors, and memory when idle."""
    record: JSON = {"phases": {}, "errors": []}
    sections, real_nodes = scenarios[0].sections, scenarios[0].real_nodes
    bench.say(f"a cluster of {real_nodes} real nodes" if real_nodes else f"a cluster of {bench.nodes} fake nodes")
    nodes = FakeNodes(count=0 if real_nodes else bench.nodes, label_every=NODES_PER_DOMAIN)
    spec = ClusterSpec(name="bench", nodes=nodes, real_nodes=real_nodes)
    with local.temporary_cluster(spec) as cluster:
        folder = cluster.plan.layout.root
        manager_folder = folder / "manager"

        def start_manager(name: str) -> AbstractContextManager[local.Manager]:
            shutil.copytree(manager_folder / "certs", folder / name / "certs")
            return further_manager(cluster, folder / name, entry, sections)

        try:
            with running_manager(cluster, manager_folder, entry, sections) as manager:
                scene = Scene(cluster, manager.process.pid, "warm-up")
                _warm_up(scene, real_jobset(1, 1) if real_nodes else jobset(1))
                record["idle_rss_mib"], record["idle_pss_mib"] = memory_mib(scene.pid), shared_once_mib(scene.pid)
                for number, scenario in enumerate(scenarios):
                    namespace = f"{scenario.codes[0].lower()}-{number}"
                    scenario_scene = dataclasses.replace(scene, namespace=namespace)
                    play = Play(scenario_scene, bench.scale, [manager], start_manager)
                    _play_scenario(bench, play, scenario, record)
                    if scenario is not scenarios[-1]:
                        scenario_scene.drop_namespace()
                if record["errors"]:
                    bench.say(f"  the manager's log ends with\n{manager.tail()}")
        except local.LocalError as error:
            _add_error(bench, record, str(error))
    return record


def _warm_up(scene: Scene, manifest: JSON) -> None:
    """Let one pod run and stay, to fill the caches of the manager and of the API server."""
    scene.create_namespace()
    with scene.watch(scene.path("pods"), fieldSelector="status.phase=Running") as events:
        scene.request("POST", scene.jobsets_path, manifest)
        next(events)
        wait_for_status(lambda: is_reported(scene, ready=1))


def _play_scenario(bench: Bench, play: Play, scenario: Scenario, record: JSON) -> None:
    """Play a scenario in a new namespace. An error ends it."""
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
