"""What tests do with a real cluster: raw requests, kubectl, ending fake pods, waiting.

A raw request takes a third of a millisecond of processor time, a run of kubectl 50 to 140: kubectl is for tests of what
its users see. The fixtures `api_server`, `full_cluster` and `namespace` are in tests/conftest.py.
"""

import asyncio
import contextlib
import functools
import json
import subprocess
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar
from urllib.parse import quote

import urllib3

from dev.cluster import rest
from dev.cluster.cluster import Cluster
from dev.cluster.components import ADMIN
from dev.cluster.spec import ClusterSpec, Layout

T = TypeVar("T")
OwnCluster = Callable[[ClusterSpec], contextlib.AbstractContextManager[Cluster]]
"""Starts a control plane that nothing else uses, and stops it at the end."""

MERGE = "application/merge-patch+json"

BUSY = urllib3.Retry(
    None, connect=False, read=False, redirect=False, other=False, status=5, allowed_methods=None, raise_on_status=False
)
"""Like all clients, ask again where the API server says when: it does while it changes the storage of a CRD."""
# What a test may leave behind in a namespace, owners first.
COLLECTIONS = (
    "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets",
    "/apis/batch/v1/namespaces/{}/jobs",
    "/api/v1/namespaces/{}/pods",
    "/api/v1/namespaces/{}/services",
    "/api/v1/namespaces/{}/persistentvolumeclaims",
)
DELETE_OPTIONS = {
    "apiVersion": "v1",
    "kind": "DeleteOptions",
    "gracePeriodSeconds": 0,
    "propagationPolicy": "Background",
}
CLUSTER_WIDE = (
    "/api/v1/persistentvolumes",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
)
"""Collections of which a test must leave neither more nor less than it found."""


def kubectl(
    cluster: Cluster, *args: str, namespace: str | None = None, stdin: str | None = None, check: bool = True
) -> str:
    """Run kubectl as administrator; returns what it printed (standard error too where `check` is off)."""
    where = ["--namespace", namespace] if namespace else []
    answer = subprocess.run(  # noqa: S603 - the cluster's own kubectl
        [cluster.kubectl, "--kubeconfig", cluster.kubeconfig, *where, *args],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if check and answer.returncode:
        raise AssertionError(f"kubectl {' '.join(args)} ended with {answer.returncode}: {answer.stderr}")
    return answer.stdout if check else answer.stdout + answer.stderr


def kubectl_apply(cluster: Cluster, namespace: str, body: dict[str, Any], *, check: bool = True) -> str:
    """`kubectl apply` of one object; returns what it printed (standard error too where `check` is off)."""
    return kubectl(cluster, "apply", "-f", "-", namespace=namespace, stdin=json.dumps(body), check=check)


def request(
    cluster: Cluster,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    content: str = "application/json",
    user: str = "",
) -> tuple[int, Any]:
    """One raw API request as administrator: (status, decoded JSON, or text where the answer is not JSON).

    `user`: the name under which it is made, with the rights of an administrator all the same.
    """
    answer = _send(cluster, method, path, None if body is None else json.dumps(body), content, user)
    text = answer.data.decode(errors="replace")
    return answer.status, json.loads(text) if answer.headers.get("Content-Type") == "application/json" else text


def _send(
    cluster: Cluster, method: str, path: str, body: str | None = None, content: str = "application/json", user: str = ""
) -> urllib3.BaseHTTPResponse:
    pool = _connections(cluster.plan.layout, cluster.plan.ports["kube-apiserver"])
    headers = {"Content-Type": content, "Accept": "application/json"}
    if user:
        headers |= {"Impersonate-User": user, "Impersonate-Group": "system:masters"}
    return pool.request(method, path, body=body, headers=headers, retries=BUSY, timeout=rest.TIMEOUT_SECONDS)


@functools.cache
def _connections(layout: Layout, port: int) -> urllib3.HTTPSConnectionPool:
    """Connections to an API server that stay open between requests, for any number of threads."""
    return urllib3.HTTPSConnectionPool("127.0.0.1", port, maxsize=16, ssl_context=rest.client_tls(layout.pki, ADMIN))


def replace_object(
    send: Callable[..., tuple[int, Any]], path: str, change: Callable[[dict[str, Any]], dict[str, Any] | None]
) -> tuple[int, Any]:
    """Read, change and write a whole object, again where another writer was faster: the last answer.

    `send` makes a request: `functools.partial(request, cluster)`. `change` changes the object or returns another one,
    which gets the resourceVersion of the object that was read. Controllers of the API server and the manager write to
    CRDs and webhook configurations at any time, so a test replaces these by this function only.
    """
    while True:
        code, body = send("GET", path)
        assert code == 200, body
        version = body["metadata"]["resourceVersion"]
        changed = change(body) or body
        changed = {**changed, "metadata": {**changed["metadata"], "resourceVersion": version}}
        code, answer = send("PUT", path, changed)
        if code != 409:
            return code, answer


def apply(cluster: Cluster, collection: str, body: dict[str, Any]) -> None:
    """Create or change an object by server-side apply, as controllers do."""
    path = f"{collection}/{body['metadata']['name']}?fieldManager=test&force=true&fieldValidation=Strict"
    status, answer = request(cluster, "PATCH", path, body, "application/apply-patch+yaml")
    assert status in {200, 201}, answer


def listed(cluster: Cluster, path: str, selector: str = "", fields: str = "") -> list[dict[str, Any]]:
    """The objects of a collection; `selector` (labels) and `fields` in the form "a=b,c=d"."""
    status, body = request(cluster, "GET", f"{path}?labelSelector={quote(selector)}&fieldSelector={quote(fields)}")
    assert status == 200, body
    items: list[dict[str, Any]] = body["items"]
    return items


def new_namespace(cluster: Cluster) -> str:
    name = f"test-{uuid.uuid4().hex[:10]}"
    status, answer = request(cluster, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert status == 201, answer
    return name


def drop_namespace(cluster: Cluster, name: str) -> None:
    """Ask for the end of the namespace and of all that is in it, without waiting.

    Without a controller manager the namespace stays Terminating, and what is in it has to be deleted here. With one,
    its pods go at once, also those that were to take their time: they hold nodes that the next test asks for.
    """
    request(cluster, "DELETE", f"/api/v1/namespaces/{name}")
    for collection in COLLECTIONS:
        request(cluster, "DELETE", collection.format(name), DELETE_OPTIONS)


def empty(cluster: Cluster, namespace: str) -> bool:
    """Whether nothing is left there that could hold a node, or make something that does."""
    return not any(listed(cluster, collection.format(namespace)) for collection in COLLECTIONS[:3])


@contextlib.contextmanager
def lent(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster for the tests of one file, which must give back what they take: nodes, and what is cluster-wide.

    Waits at the end until no pod is left in it but those of the cluster itself and of the manager.
    """
    before = _inventory(cluster)
    yield cluster

    def pods_left() -> list[str]:
        found = [f"{p['metadata']['namespace']}/{p['metadata']['name']}" for p in listed(cluster, "/api/v1/pods")]
        return [name for name in found if not name.startswith(("kube-system/", "jobset-system/"))]

    def changed() -> dict[str, Any]:
        after = _inventory(cluster)
        pairs = {key: (before.get(key), after.get(key)) for key in before.keys() | after.keys()}
        return {key: (was, now) for key, (was, now) in pairs.items() if was != now}

    wait_for(lambda: not pods_left(), timeout=60, what="the end of the pods that these tests left", last=pods_left)
    wait_for(lambda: not changed(), what="the cluster to be as these tests found it", last=changed)


def _inventory(cluster: Cluster) -> dict[str, Any]:
    """What `lent` compares: names of what is cluster-wide, and what makes a node fit for pods, and its addresses."""
    found: dict[str, Any] = {
        path: sorted(body["metadata"]["name"] for body in listed(cluster, path)) for path in CLUSTER_WIDE
    }
    for node in listed(cluster, "/api/v1/nodes"):
        capacity = {key: amount for key, amount in node["status"]["capacity"].items() if amount != "0"}
        addresses = node["status"].get("addresses")
        found[node["metadata"]["name"]] = (node["metadata"]["labels"], node["spec"], capacity, addresses)
    return found


def finish_pod(cluster: Cluster, namespace: str, name: str, exit_code: int = 0) -> None:
    """End a fake pod now with this exit code in all its containers, whatever its template says."""
    annotations = {"kwok.jobset.dev/exit-code": str(exit_code), "kwok.jobset.dev/run-seconds": None}
    status, answer = request(
        cluster,
        "PATCH",
        f"/api/v1/namespaces/{namespace}/pods/{name}",
        {"metadata": {"annotations": annotations}},
        MERGE,
    )
    assert status == 200, answer


def pods(cluster: Cluster, namespace: str, selector: str = "") -> list[dict[str, Any]]:
    """The namespace's pods as JSON; `selector` in the form "a=b,c=d"."""
    return listed(cluster, f"/api/v1/namespaces/{namespace}/pods", selector)


def uids(objects: list[dict[str, Any]]) -> set[str]:
    return {of["metadata"]["uid"] for of in objects}


def version_now(cluster: Cluster, path: str) -> str:
    """The resourceVersion of a collection, to ask `history` from."""
    status, body = request(cluster, "GET", f"{path}?limit=1")
    assert status == 200, body
    version: str = body["metadata"]["resourceVersion"]
    return version


def history(cluster: Cluster, path: str, since: str) -> list[dict[str, Any]]:
    """Every change of a collection since a resourceVersion, in order, as watch events: what was, not what is."""
    answer = _send(cluster, "GET", f"{path}?watch=1&resourceVersion={since}&timeoutSeconds=1")
    assert answer.status == 200, answer.data
    events = [json.loads(line) for line in answer.data.splitlines()]
    assert all(event["type"] != "ERROR" for event in events), events
    return events


def serve(cluster: Cluster, kind: str, api_version: str) -> None:
    """A CRD of this kind that takes everything."""
    group, version = api_version.split("/")
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }
    kubectl(cluster, "apply", "-f", "-", stdin=json.dumps(definition))
    kubectl(cluster, "wait", "--for=condition=Established", "--timeout=30s", f"crd/{plural}.{group}")


@contextlib.contextmanager
def more_capacity(cluster: Cluster, nodes: list[str], resource: str, amount: str) -> Iterator[None]:
    """Fake nodes with a resource beside those they have, such as "8" of "nvidia.com/gpu"."""

    def set_to(value: str | None) -> None:
        body = {"status": {"capacity": {resource: value}, "allocatable": {resource: value}}}
        for node in nodes:
            path = f"/api/v1/nodes/{node}/status"
            status, answer = request(cluster, "PATCH", path, body, MERGE)
            assert status == 200, answer

    set_to(amount)
    try:
        yield
    finally:
        set_to(None)


def create_class(cluster: Cluster, name: str, value: int, preemption: str = "PreemptLowerPriority") -> None:
    """A PriorityClass."""
    body = {"metadata": {"name": name}, "value": value, "preemptionPolicy": preemption}
    status, answer = request(cluster, "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
    assert status == 201, answer


def create_volume(
    cluster: Cluster, namespace: str, claim: str, size: str, mode: str, *, path: str = "/fake", node: str = ""
) -> None:
    """A volume for this claim and no other, since the cluster has no provisioner: a folder, of one node if it is named."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-{claim}"},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": [mode],
            "claimRef": {"namespace": namespace, "name": claim},
            "hostPath": {"path": path},
            **({"nodeAffinity": affinity} if node else {}),
        },
    }
    status, answer = request(cluster, "POST", "/api/v1/persistentvolumes", body)
    assert status == 201, answer


def wait_for(
    probe: Callable[[], T], *, timeout: float = 30, what: str = "", last: Callable[[], object] | None = None
) -> T:
    """Call `probe` until it gives something true, and return that. Times out with what it gave last, or with `last`."""
    begun = time.monotonic()
    while not (found := probe()):
        waited = time.monotonic() - begun
        if waited > timeout:
            raise AssertionError(f"not within {timeout} s: {what or probe}; last: {last() if last else found!r}")
        time.sleep(pause(waited))
    return found


def pause(waited: float) -> float:
    """Seconds until the next look: what takes long is looked at less often, since each look costs the API server time."""
    return min(max(0.05, waited / 10), 0.25)


async def eventually(probe: Callable[[], Awaitable[T]], *, timeout: float = 30, what: str = "") -> T:
    """`wait_for` for asynchronous probes."""
    found: object = None
    begun = time.monotonic()
    try:
        async with asyncio.timeout(timeout):
            while not (found := await probe()):  # noqa: ASYNC110 - the state lives in another process
                await asyncio.sleep(pause(time.monotonic() - begun))
    except TimeoutError:
        raise AssertionError(f"not within {timeout} s: {what or probe}; last: {found!r}") from None
    return found
