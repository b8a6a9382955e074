"""Creates the first objects of a new cluster: fake nodes and fake volumes."""

import ssl
from typing import Any

from dev.cluster.errors import DevclusterError
from dev.cluster.nodes import create_nodes
from dev.cluster.rest import Connection, reason_of
from dev.cluster.spec import ClusterSpec

STORAGE_CLASS = "fake"
_DEFAULT_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": STORAGE_CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "kubernetes.io/no-provisioner",
}
CLASSES_PATH = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES_PATH = "/api/v1/persistentvolumes"


def create_contents(spec: ClusterSpec, port: int, tls: ssl.SSLContext) -> None:
    """Create the nodes and volumes that the spec asks for, and wait until the nodes are usable."""
    if spec.nodes.count:
        create_nodes(port, tls, spec.nodes, beside_real_nodes=spec.real_nodes > 0)
    if spec.volumes:
        with Connection(port, tls) as connection:
            create_volumes(connection, spec.volumes)


def create_volumes(connection: Connection, count: int) -> None:
    """Create the default StorageClass, and `count` volumes of that class. Each is large enough for any claim.

    kube-controller-manager binds claims to the volumes. kwok releases a volume when its claim is gone.
    """
    _create(connection, CLASSES_PATH, _DEFAULT_CLASS)
    for index in range(count):
        _create(connection, VOLUMES_PATH, _volume(index))


def _create(connection: Connection, path: str, body: dict[str, Any]) -> None:
    status, answer = connection.request("POST", path, body)
    if status not in (201, 409):
        raise DevclusterError(
            f"{body['kind']} {body['metadata']['name']} was refused with status {status}: {reason_of(answer)}"
        )


def _volume(index: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{STORAGE_CLASS}-{index:02d}"},
        "spec": {
            "capacity": {"storage": "1Pi"},
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"],
            "storageClassName": STORAGE_CLASS,
            "hostPath": {"path": "/fake"},
        },
    }
