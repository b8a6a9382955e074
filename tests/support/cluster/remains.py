"""Everything that is in a namespace, of whatever kind the API server serves."""

from collections import Counter
from typing import Any

from dev.cluster.cluster import Cluster
from tests.support.cluster.requests import listed, request

JSON = dict[str, Any]
ITS_OWN = {("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default")}
"""What Kubernetes itself puts into every namespace."""


def collections(cluster: Cluster) -> dict[str, str]:
    """The path, with a place for the namespace, of each kind that can be listed; events, which expire, are left out."""
    groups = {"v1": "/api/v1"}
    for group in request(cluster, "GET", "/apis")[1]["groups"]:
        for version in group["versions"]:
            groups[version["groupVersion"]] = f"/apis/{version['groupVersion']}"
    found = {}
    for path in groups.values():
        for kind in request(cluster, "GET", path)[1]["resources"]:
            name = kind["name"]
            if kind["namespaced"] and "list" in kind["verbs"] and name != "events":
                found.setdefault(name, f"{path}/namespaces/{{}}/{name}")
    return found


def remains(cluster: Cluster, namespace: str, paths: dict[str, str]) -> set[tuple[str, str]]:
    """(plural, name) of what is in a namespace, without `ITS_OWN`."""
    found = {
        (plural, item["metadata"]["name"])
        for plural, path in paths.items()
        for item in listed(cluster, path.format(namespace))
    }
    return found - ITS_OWN


def counted(found: set[tuple[str, str]]) -> Counter[str]:
    """How many of each kind."""
    return Counter(plural for plural, _ in found)
