"""Pods of real nodes, for tests: what they run, what they say, how their containers ended."""

from typing import Any

from dev.cluster.cluster import Cluster
from dev.cluster.real.assets import SHELL_IMAGE
from dev.hack.node_images import PYTHON
from tests.support.cluster.requests import request, wait_for

JSON = dict[str, Any]


def running(command: list[str], *, resources: JSON | None = None, **more: Any) -> JSON:
    """The pod spec of a JobSet with this command in a container with Python."""
    container = {"name": "main", "image": PYTHON, "command": command, "resources": resources or {}}
    return {"terminationGracePeriodSeconds": 1, "containers": [container], **more}


def create_pod(cluster: Cluster, namespace: str, name: str, script: str, **spec: Any) -> None:
    """A pod whose container runs a shell script. `spec` is added to that of the pod."""
    container = {"name": "main", "image": SHELL_IMAGE, "command": ["/bin/sh", "-c", script]}
    body = {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
    }
    answers: list[Any] = []

    def is_created() -> bool:
        # A new namespace gets its service account in a moment; pods are refused until then.
        answers.append(request(cluster, "POST", f"/api/v1/namespaces/{namespace}/pods", body))
        return bool(answers[-1][0] == 201)

    wait_for(is_created, what=f"the pod {name}", last=lambda: answers[-1])


def pod(cluster: Cluster, namespace: str, name: str) -> JSON:
    """The pod; {} if it is gone."""
    status, answer = request(cluster, "GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
    return answer if status == 200 else {}


def phase(cluster: Cluster, namespace: str, name: str) -> str:
    return str(pod(cluster, namespace, name).get("status", {}).get("phase", "gone"))


def logs(cluster: Cluster, namespace: str, name: str) -> str:
    return str(request(cluster, "GET", f"/api/v1/namespaces/{namespace}/pods/{name}/log")[1])
