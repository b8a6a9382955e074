"""A set in a cluster where pods of some Jobs find no node (`nodeFailure.whenNoCapacity`)."""

from dataclasses import replace
from typing import Any

from api import keys
from controllers.planning.observed import Observed, PendingPod
from controllers.planning.placeholders import separate_placeholders
from tests.support.model.lives import at, restart
from tests.support.model.start_checks import StartChecks
from tests.support.objects.stored_sets import jobset, rjob

GATES = {"JobSetElasticReplicas": True, "JobSetNodeFailure": True}
AFTER = 60
POLICY: dict[str, Any] = {"afterSeconds": 10, "whenNoCapacity": {"shrinkAfterSeconds": AFTER}}
NO_ROOM = "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu."
BOUNDS = {"min": 2, "max": 4}


class FullCluster(StartChecks):
    """`nodeless`: when the pod was created that finds no node, by the name of its Job."""

    def __init__(self, js: Any, **gates: bool) -> None:
        super().__init__(js, **gates)
        self.nodeless: dict[str, int] = {}

    def waiting(self) -> dict[str, PendingPod]:
        pods = {name: PendingPod(f"{name}-0", "", at(second), NO_ROOM) for name, second in self.nodeless.items()}
        return {name: replace(pod, unschedulable=pod) for name, pod in pods.items()}

    def observe(self) -> Observed:
        return separate_placeholders(super().observe(), self.gates)

    def lack(self, *names: str) -> None:
        """From now on the pods of these Jobs, which have just been created, find no node; all others run."""
        self.nodeless = dict.fromkeys(names, self.seconds)
        for name, job in self.jobs.items():
            if "deletionTimestamp" not in job["metadata"]:
                self.run(name, ready=name not in names)
        self.settle()

    def pass_time(self, seconds: int) -> None:
        self.seconds += seconds
        self.settle()

    def finish_restart(self) -> None:
        """The old Jobs go, the new ones come and all of them run. Placeholders find no room."""
        self.nodeless = {}
        self.collect()
        self.start_jobs()

    @property
    def placeholders(self) -> list[str]:
        return [name for name in self.live() if keys.PLACEHOLDER in self.jobs[name]["metadata"]["labels"]]

    @property
    def workers(self) -> list[str]:
        return [name for name in self.live() if name not in self.placeholders]

    @property
    def held(self) -> list[tuple[str, int, int]]:
        return [(entry.name, entry.replicas, entry.held) for entry in self.status.reduced_replicas]

    @property
    def sizes(self) -> dict[str, int]:
        return {entry.name: entry.replicas for entry in self.status.reduced_replicas}


def running(*rjobs: dict, gates: dict[str, bool] = GATES, **policy: Any) -> FullCluster:
    """A set of four Jobs that all run; by default `workers` may have from two to four."""
    own = rjobs or (rjob("workers", 4, elastic=BOUNDS),)
    world = FullCluster(jobset(*own, failurePolicy={"maxRestarts": 2, "nodeFailure": POLICY, **policy}), **gates)
    world.start_jobs()
    return world


def stranded(*names: str, **options: Any) -> FullCluster:
    """One that has restarted once, and of which pods of these Jobs find no node."""
    world = running(**options)
    restart(world, "js-workers-3")
    world.lack(*(names or ("js-workers-3",)))
    return world


def labels(world: FullCluster, key: str) -> dict[str, str]:
    """Of the pods of its Jobs, placeholders left out."""
    return {name: world.jobs[name]["spec"]["template"]["metadata"]["labels"][key] for name in world.workers}


def smaller(*names: str, **options: Any) -> FullCluster:
    """One that runs with three of four Jobs; with as many less as names are given."""
    world = stranded(*names, **options)
    world.pass_time(AFTER)
    world.finish_restart()
    return world
