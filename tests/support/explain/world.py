"""Objects on a real API server, made by hand, and `jobset explain` called on them."""

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cli.explain.run import Options, run
from dev.cluster.cluster import Cluster
from manifests import NAMESPACE
from tests.support.cluster.jobs import JOBSETS
from tests.support.cluster.requests import MERGE, request
from tests.support.explain.objects import job_of
from tests.support.objects.jobsets import stored

JSON = dict[str, Any]
JOBS = "/apis/batch/v1/namespaces/{}/jobs"
PODS = "/api/v1/namespaces/{}/pods"
EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
NO_NODE = "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules"
READS = {
    "jobsets": ("jobset.x-k8s.io", ["get", "list"]),
    "jobs": ("batch", ["get", "list"]),
    "pods": ("", ["list"]),
    "events": ("events.k8s.io", ["list"]),
}


def explain(kubeconfig: Path, namespace: str, name: str = "train", **more: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    out, err = io.StringIO(), io.StringIO()
    code = run(Options(name=name, namespace=namespace, kubeconfig=str(kubeconfig), **more), out, err)
    return code, out.getvalue(), err.getvalue()


def report(kubeconfig: Path, namespace: str) -> JSON:
    code, out, err = explain(kubeconfig, namespace, output="json")
    assert (code, err) == (0, "")
    body: JSON = json.loads(out)
    return body


def post(cluster: Cluster, path: str, body: JSON) -> JSON:
    """Create it, status included."""
    code, made = request(cluster, "POST", path, body)
    assert code == 201, made
    if "status" in body:
        here = f"{path}/{made['metadata']['name']}/status"
        code, made = request(cluster, "PATCH", here, {"status": body["status"]}, MERGE)
        assert code == 200, made
    return made


class World:
    """A namespace with JobSets whose Jobs and pods are made by hand: no controller runs."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.left: list[str] = []

    def jobset(self, body: JSON) -> JSON:
        body["metadata"]["namespace"] = self.namespace
        return post(self.cluster, JOBSETS.format(self.namespace), stored(body))

    def job(self, js: JSON, index: int, **status: Any) -> JSON:
        return post(self.cluster, JOBS.format(self.namespace), {**job_of(js, index), "status": status})

    def pod(self, body: JSON) -> JSON:
        return post(self.cluster, PODS.format(self.namespace), body)

    def warning(self, about: JSON, reason: str, note: str) -> None:
        meta = about["metadata"]
        regarding = {key: meta[key] for key in ("name", "namespace", "uid")}
        event = {
            "metadata": {"generateName": "warning-"},
            "regarding": {"kind": about["kind"], "apiVersion": about["apiVersion"], **regarding},
            "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "type": "Warning",
            "reason": reason,
            "note": note,
            "action": "Test",
            "reportingController": "test.dev/tests",
            "reportingInstance": "tests",
        }
        post(self.cluster, EVENTS.format(self.namespace), event)

    def user(self, prefix: str, *, without: str = "", nodes: bool = False, everywhere: bool = False) -> Path:
        """A kubeconfig of somebody who may read this namespace, but for one resource; on request also nodes, and pods everywhere."""
        name = f"{prefix}-{self.namespace}"
        rules = [
            {"apiGroups": [group], "resources": [resource], "verbs": verbs}
            for resource, (group, verbs) in READS.items()
            if resource != without
        ]
        subject = [{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}]
        role, here = {"metadata": {"name": name}, "rules": rules}, f"{RBAC}/namespaces/{self.namespace}"
        post(self.cluster, f"{here}/roles", role)
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        post(self.cluster, f"{here}/rolebindings", {"metadata": {"name": name}, "subjects": subject, "roleRef": ref})
        more = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}] if nodes else []
        more += [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}] if everywhere else []
        if more:
            self.left = [f"{RBAC}/clusterroles/{name}", f"{RBAC}/clusterrolebindings/{name}"]
            post(self.cluster, f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": more})
            ref = {**ref, "kind": "ClusterRole"}
            post(
                self.cluster,
                f"{RBAC}/clusterrolebindings",
                {"metadata": {"name": name}, "subjects": subject, "roleRef": ref},
            )
        return self.cluster.kubeconfig_for(name)
