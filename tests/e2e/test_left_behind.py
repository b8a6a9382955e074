"""What JobSets leave behind in the cluster when they have ended: nothing but the claims that they are to retain."""

from collections import Counter
from typing import Any

import pytest

from api.keys import EXCLUSIVE_TOPOLOGY
from manifests import NAMESPACE
from tests.support.cluster.jobs import JOBSETS, Sets, group, manifest
from tests.support.cluster.remains import collections, counted, remains
from tests.support.cluster.requests import DELETE_OPTIONS, empty, request, wait_for

JSON = dict[str, Any]
AT_ONCE, FAILS = {"kwok.jobset.dev/run-seconds": "0"}, {"kwok.jobset.dev/exit-code": "1"}
SIZE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
MOUNTS = [{"name": name, "mountPath": f"/{name}"} for name in ("scratch", "model")]


def claiming() -> JSON:
    """Two claims, of which one is to stay."""
    policies = [
        {"templates": [{"metadata": {"name": "scratch"}, "spec": SIZE}]},
        {"templates": [{"metadata": {"name": "model"}, "spec": SIZE}], "retentionPolicy": {"whenDeleted": "Retain"}},
    ]
    pod = {"containers": [{"name": "main", "image": "busybox", "volumeMounts": MOUNTS}]}
    return manifest(group(pod=pod), volumeClaimPolicies=policies)


def exclusive() -> JSON:
    body = manifest(group(pods_per_job=2, annotations=AT_ONCE), ttlSecondsAfterFinished=0)
    return {**body, "metadata": {**body["metadata"], "annotations": {EXCLUSIVE_TOPOLOGY: "rack"}}}


LIVES = {
    "completes": manifest(group(annotations=AT_ONCE), ttlSecondsAfterFinished=0),
    "fails": manifest(group(annotations=AT_ONCE | FAILS), ttlSecondsAfterFinished=1),
    "restarts": manifest(
        group(annotations=AT_ONCE | FAILS), ttlSecondsAfterFinished=0, failurePolicy={"maxRestarts": 1}
    ),
    "kept": manifest(group(annotations=AT_ONCE)),
    "runs": manifest(group(replicas=2)),
    "suspended": manifest(group(), suspend=True),
    "claims": claiming(),
    "exclusive": exclusive(),
}
"""What becomes of a set: four are deleted by their time to live, the others by a user, as soon as they are there."""

THEIRS = {"kept": ("Completed", 1), "runs": (None, 2), "suspended": (None, 1), "claims": (None, 1)}
"""Of those that a user deletes: terminal state and number of Jobs that they have then."""


def arrived(sets: Sets, name: str) -> bool:
    """Whether a set is where a user deletes it."""
    state, jobs = THEIRS[name.partition("-")[0]]
    return sets.status(name).get("terminalState") == state and len(sets.jobs(name)) == jobs


@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [2 * len(LIVES), pytest.param(200, marks=pytest.mark.slow)])
def test_nothing_is_left_but_the_claims_that_are_to_stay(sets, count):
    paths = collections(sets.cluster)
    assert {"jobs", "services", "secrets", "endpointslices", "podgroups", "resourceclaims", "leases"} <= {*paths}
    own = remains(sets.cluster, NAMESPACE, paths)
    names = [f"{kind}-{number}" for number in range(count // len(LIVES)) for kind in LIVES]
    for name in names:
        body = LIVES[name.partition("-")[0]]
        sets.apply({**body, "metadata": {**body["metadata"], "name": name}})
    users = [name for name in names if name.partition("-")[0] in THEIRS]
    assert counted(remains(sets.cluster, sets.namespace, paths))["jobsets"] >= len(users) > 0, "others may have gone"
    for number, name in enumerate(users):
        wait_for(lambda name=name: arrived(sets, name), timeout=120, what=f"{name} to be deleted")
        options = {**DELETE_OPTIONS, "propagationPolicy": ("Background", "Foreground")[number % 2]}
        path = f"{JOBSETS.format(sets.namespace)}/{name}"
        assert request(sets.cluster, "DELETE", path, options)[0] == 200
    retained = {("persistentvolumeclaims", f"model-{name}") for name in names if name.startswith("claims-")}

    def left() -> Counter[str]:
        return counted(remains(sets.cluster, sets.namespace, paths) - retained)

    # On a new cluster the garbage collector knows of JobSets only after 30 s. A look at all kinds costs 60 requests.
    wait_for(lambda: empty(sets.cluster, sets.namespace), timeout=240, what="Jobs and pods to be gone", last=left)
    wait_for(lambda: not left(), what="nothing to be left", last=left)
    assert retained <= remains(sets.cluster, sets.namespace, paths)
    assert remains(sets.cluster, NAMESPACE, paths) == own
