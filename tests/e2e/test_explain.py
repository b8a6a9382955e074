"""`jobset explain` where everything is real but the nodes: scheduler, Job controller and manager give the reasons."""

from typing import Any

import pytest

from dev.cluster.cluster import Cluster
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.requests import listed, wait_for
from tests.support.explain.objects import RACK, causes

JSON = dict[str, Any]
EXCLUSIVE = {"metadata": {"annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": RACK}}}


@pytest.fixture(autouse=True)
def free_racks(full_cluster: Cluster) -> None:
    """No pod of another test holds a rack any more."""
    wait_for(
        lambda: not listed(full_cluster, "/api/v1/pods", "jobset.sigs.k8s.io/job-key"),
        timeout=60,
        what="racks that nobody holds",
    )


def exclusive(replicas: int) -> JSON:
    body = group(replicas=replicas, pods_per_job=3)
    body["template"] |= EXCLUSIVE
    return body


def test_who_holds_the_racks_that_a_set_waits_for(sets: Sets):
    sets.apply(manifest(exclusive(2), name="first"))
    sets.wait_ready(2, name="first")
    assert sets.explain("first") == f"JobSet {sets.namespace}/first: runs, 2 of 2 Jobs ready or done\n"

    sets.apply(manifest(exclusive(2)))
    text = sets.wait_explained("waits for a rack of its own", "likewise", "2 followers wait for it")
    assert "not scheduled: 0/20 nodes are available: " in text
    holders = f"{sets.namespace}/first-workers-0, {sets.namespace}/first-workers-1"
    assert f"2 of 2 racks hold Jobs of equal priority (0): {holders}" in text
    body = sets.explanation()
    assert (body["level"], body["notLookedAt"]) == ("waits", [])
    assert [c for c in causes(body) if c != "warning"] == [
        "leader-waits", "leader-unscheduled", "equal-priority", "leader-waits",
    ]  # fmt: skip

    sets.patch({"suspend": True}, name="first")
    sets.wait_ready(2)
    assert sets.explain().startswith(f"JobSet {sets.namespace}/js: runs, 2 of 2 Jobs ready or done\n")
    assert "is suspended" in sets.explain("first").splitlines()[0]


def test_a_failed_pod_is_named_before_the_next_one_is_there(sets: Sets):
    """The Job controller waits ten seconds; what it writes meanwhile differs between versions of Kubernetes."""
    sets.apply(manifest(group(pods_per_job=2, job={"backoffLimit": 4})))
    sets.wait_ready(1)
    pod = sets.pods()[0]
    sets.end(pod, 3)
    text = sets.wait_explained(f"pod {pod['metadata']['name']} has failed: ")
    assert "Job js-workers-0: 1 of 2 pods ready" in text
    assert "1 failure, backoffLimit allows 4" in text


def test_pods_that_fit_nowhere(sets: Sets):
    sets.apply(manifest(group(replicas=3, pod={"nodeSelector": {"nobody": "has"}})))
    text = sets.wait_explained(
        "Job js-workers-0: pod js-workers-0-0", "2 more Jobs (js-workers-1 … js-workers-2): likewise"
    )
    assert "0/20 nodes are available: 20 node(s) didn't match Pod's node affinity/selector" in text
    assert "no node has the label nobody=has of its nodeSelector; no node has a label nobody at all" in text
