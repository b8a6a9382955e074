"""What sets with groups leave behind in the cluster when they have ended: nothing."""

from tests.support.cluster.gangs import CUBES_IN_A_SUPERSLICE, GANG, slices
from tests.support.cluster.remains import collections, counted, remains
from tests.support.cluster.requests import empty, wait_for

AT_ONCE = {"kwok.jobset.dev/run-seconds": "0"}


def test_groups_go_with_the_set_that_they_are_of(gang_namespace):
    cluster, paths = gang_namespace.cluster, collections(gang_namespace.cluster)
    small = slices(jobs=1, pods=1, annotations=AT_ONCE)
    gang_namespace.gang(small, name="completes", scheduling=GANG, ttlSecondsAfterFinished=0)
    gang_namespace.gang(slices(), name="runs", scheduling=CUBES_IN_A_SUPERSLICE)
    gang_namespace.gang(slices(), name="suspended", scheduling=GANG, suspend=True)
    gang_namespace.wait_ready(2, "runs")
    wait_for(lambda: len(gang_namespace.jobs("suspended")) == 2, what="Jobs that are suspended")
    assert {"workloads", "podgroups", "compositepodgroups"} <= {
        *counted(remains(cluster, gang_namespace.namespace, paths))
    }
    for name in ("runs", "suspended"):
        gang_namespace.delete(name)

    def left() -> set[tuple[str, str]]:
        return remains(cluster, gang_namespace.namespace, paths)

    # A look at all kinds costs 60 requests.
    wait_for(lambda: empty(cluster, gang_namespace.namespace), timeout=90, what="Jobs and pods to be gone", last=left)
    wait_for(lambda: not left(), what="nothing to be left", last=left)
