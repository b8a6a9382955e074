"""Which tests share a process of pytest-xdist, and in which order: what takes long and mostly waits comes first.

A process that runs a test on a cluster has that cluster to itself: it starts with the first test that asks for it and
ends before the first test that needs no cluster. An idle cluster costs processor time, too, so half of the processes
prefer tests on the full cluster, and the others those on an API server alone. Tests of one file stay together, so
fixtures of a module are set up once; so do all files of a folder in `TOGETHER`, whose cluster takes long to set up.
Those of a file in `APART` take long and share nothing: each runs wherever there is room.
"""

from collections.abc import Iterable
from functools import cache

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

TOGETHER = ("tests/e2e/real", "tests/e2e/placement", "tests/e2e/gangs", "tests/integration/admission")
ALONE = {"tests/e2e/gangs/test_superslices.py"}
"""Files of those folders that start clusters of their own."""

CLUSTERS = ("tests/e2e", "tests/dev/cluster"), ("tests/integration", "tests/agent")
"""Folders whose tests share clusters: the full one, and API servers alone. A process prefers one of both kinds."""

APART = ("tests/integration/test_crash_sites.py", "tests/controllers/test_plan_properties.py")

ORDER = (
    "tests/e2e/real",
    "tests/e2e/placement",
    "tests/e2e/gangs",
    "tests/e2e/gangs/test_left_behind.py",
    *APART,
    "tests/dev/chaos",
    "tests/dev/cluster",
    "tests/agent",
    "tests/e2e",
    "tests/e2e/test_left_behind.py",
    "tests/integration",
    "tests/dev/bench",
    "tests/app",
)
"""Files and folders in the order in which they begin; all others, which need no cluster, fill the gaps at the end.

A file stands behind its folder if it waits for the garbage collector, which knows of JobSets only 30 s and more after
the start of a cluster.
"""


def group_of(nodeid: str) -> str:
    """The tests that run in the same process as this one."""
    file = nodeid.partition("::")[0]
    if file in APART:
        return nodeid
    return file if file in ALONE else next((folder for folder in TOGETHER if _in(file, folder)), file)


def rank(nodeid: str) -> int:
    """Where a test's file is in the order, else its folder."""
    return _rank(nodeid.partition("::")[0])


@cache
def _rank(file: str) -> int:
    places = [place for place in ORDER if _in(file, place)]
    return ORDER.index(max(places, key=len)) if places else len(ORDER)


def _in(file: str, place: str) -> bool:
    """Whether a file is this one, or in this folder."""
    return file == place or file.startswith(f"{place}/")


def is_on_clusters(test: str) -> bool:
    """Whether a test, or a group of tests, is in a folder of those that share clusters."""
    return any(_in(test.partition("::")[0], folder) for folders in CLUSTERS for folder in folders)


def next_group(groups: Iterable[str], process: int) -> str:
    """The group that a process begins next, by its number: of its own folder, else without cluster, else any."""
    own = CLUSTERS[process % len(CLUSTERS)]

    def distance(group: str) -> int:
        return 0 if any(_in(group, folder) for folder in own) else 2 if is_on_clusters(group) else 1

    return min(groups, key=distance)


class Scheduling(LoadScopeScheduling):
    """Gives groups to processes, in the order in which their first tests were collected, as `next_group` prefers."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(next_group(self.workqueue, self.nodes.index(node)), last=False)
        super()._assign_work_unit(node)
