"""A minimal typed object for tests of `kube`, and helpers to read a MemoryApi like a store."""

from typing import Any

import msgspec

from kube.resources import Resource
from kube.store import Store
from tests.support.model.memory_api import MemoryApi

THINGS = Resource("test.dev", "v1", "Thing", "things")


class Meta(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}


class Thing(msgspec.Struct, frozen=True, kw_only=True):
    """`size` is typed so that a test can store an object that does not decode."""

    metadata: Meta
    size: int = 0


def thing(name: str, version: int, *, uid: str = "", size: int = 0, namespace: str = "ns") -> Thing:
    meta = Meta(name=name, namespace=namespace, uid=uid or f"uid-{name}", resource_version=str(version))
    return Thing(metadata=meta, size=size)


def versions(store: Store[Any]) -> dict[tuple[str, str], str]:
    """What a store shows, as key -> resourceVersion."""
    return {(o.metadata.namespace, o.metadata.name): o.metadata.resource_version for o in store.list()}


def server_versions(api: MemoryApi, plural: str = "things") -> dict[tuple[str, str], str]:
    return {key: obj["metadata"]["resourceVersion"] for key, obj in api.objects(plural).items()}
