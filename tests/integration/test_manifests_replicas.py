"""install.yaml on a full control plane with fake nodes: two replicas, drained, rolled out and uninstalled."""

import json

import pytest

from dev.cluster.spec import ClusterSpec, FakeNodes
from manifests import files
from tests.support.cluster.requests import kubectl, request, wait_for

INSTALL = files.ROOT / "install.yaml"
NAMESPACE = "/api/v1/namespaces/jobset-system"
PODS = f"{NAMESPACE}/pods"
DEPLOYMENT = "/apis/apps/v1/namespaces/jobset-system/deployments/jobset-controller-manager"
BUDGET = "/apis/policy/v1/namespaces/jobset-system/poddisruptionbudgets/jobset-controller-manager"
ZONES = {"topology.kubernetes.io/zone": 2}


@pytest.fixture(scope="module")
def cluster(own_cluster):
    """Four nodes in two zones. kwok makes the manager's pods ready; no manager runs in them."""
    spec = ClusterSpec(name="replicas", nodes=FakeNodes(count=4, label_every=ZONES))
    with own_cluster(spec) as running_cluster:
        # Client-side, which keeps the whole object in an annotation: the CRD fits.
        kubectl(running_cluster, "apply", "-f", str(INSTALL))
        yield running_cluster


def ready(pod):
    conditions = pod["status"].get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def ready_pods(cluster):
    """The pods that are ready and are not being deleted."""
    return [
        p for p in request(cluster, "GET", PODS)[1]["items"] if ready(p) and "deletionTimestamp" not in p["metadata"]
    ]


def two_ready(cluster):
    """Waits until two pods are ready, no other is left, and the disruption budget has counted them."""

    def settled():
        status = request(cluster, "GET", BUDGET)[1].get("status", {})
        pods = ready_pods(cluster)
        enough = len(pods) == len(request(cluster, "GET", PODS)[1]["items"]) == 2
        return pods if enough and (status.get("currentHealthy"), status.get("disruptionsAllowed")) == (2, 1) else None

    return wait_for(settled, timeout=60, what="two ready replicas")


def zone(cluster, pod):
    node = request(cluster, "GET", f"/api/v1/nodes/{pod['spec']['nodeName']}")[1]
    return node["metadata"]["labels"]["topology.kubernetes.io/zone"]


def evict(cluster, pod):
    name = pod["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "jobset-system"}}
    return request(cluster, "POST", f"{PODS}/{name}/eviction", eviction)[0]


def test_the_replicas_run_in_two_zones(cluster):
    """From the start: a replica that comes later is spread from those that are about to go, too."""
    for replicas in (0, 2):
        scale = ("scale", "deployment/jobset-controller-manager", f"--replicas={replicas}")
        kubectl(cluster, *scale, namespace="jobset-system")
        wait_for(
            lambda count=replicas: len(request(cluster, "GET", PODS)[1]["items"]) == count, what=f"{replicas} pods"
        )
    pods = two_ready(cluster)
    assert {zone(cluster, pod) for pod in pods} == {"zone-0", "zone-1"}


def cordon(cluster, verb="cordon"):
    """Close all nodes to new pods, or open them again, and wait until the control plane has seen it."""
    kubectl(cluster, verb, "--selector=topology.kubernetes.io/zone")

    def seen():
        nodes = request(cluster, "GET", "/api/v1/nodes")[1]["items"]
        closed = [any("unschedulable" in t["key"] for t in node["spec"].get("taints", ())) for node in nodes]
        return closed == [verb == "cordon"] * len(nodes)

    wait_for(seen, what=f"nodes to be {verb}ed")


def test_drains_take_one_replica_at_a_time(cluster):
    """No second one while the replacement of the first has no node."""
    first, second = two_ready(cluster)
    cordon(cluster)
    try:
        assert (evict(cluster, first), evict(cluster, second)) == (201, 429)
    finally:
        cordon(cluster, "uncordon")
    assert second["metadata"]["name"] in {p["metadata"]["name"] for p in two_ready(cluster)}


def test_a_rollout_never_has_fewer_than_two_ready(cluster):
    """The Deployment's own controller counts; each of its states is in the watch."""
    before = {p["metadata"]["name"] for p in two_ready(cluster)}
    since = request(cluster, "GET", DEPLOYMENT)[1]["metadata"]["resourceVersion"]
    kubectl(cluster, "rollout", "restart", "-n", "jobset-system", "deployment/jobset-controller-manager")
    kubectl(
        cluster, "rollout", "status", "-n", "jobset-system", "deployment/jobset-controller-manager", "--timeout=60s"
    )
    folder, _, name = DEPLOYMENT.rpartition("/")
    query = f"watch=1&timeoutSeconds=1&resourceVersion={since}&fieldSelector=metadata.name%3D{name}"
    seen = kubectl(cluster, "get", "--raw", f"{folder}?{query}").splitlines()
    available = [json.loads(line)["object"]["status"].get("availableReplicas", 0) for line in seen]
    assert len(available) > 2
    assert min(available) == 2
    assert before.isdisjoint(p["metadata"]["name"] for p in two_ready(cluster))


def test_uninstalling_leaves_nothing_behind(cluster):
    kubectl(cluster, "delete", "-f", str(INSTALL), "--ignore-not-found", "--wait=false")
    # The namespace goes when its controller knows again what is served beside the CRD that has gone.
    wait_for(lambda: request(cluster, "GET", NAMESPACE)[0] == 404, timeout=90, what="the namespace to go")
    assert kubectl(cluster, "get", "-f", str(INSTALL), "--ignore-not-found", check=False).count("NotFound") == 0
    assert kubectl(cluster, "get", "crd,clusterrole,clusterrolebinding", "-l", "app.kubernetes.io/name=jobset") == ""
    kubectl(cluster, "apply", "-f", str(INSTALL))  # the other tests may come after this one
