"""Discovery of a simulated API server: its version, its API groups, and their resources.

`/version`, `/api`, `/apis`, `/api/v1` and `/apis/GROUP/VERSION` are answered. There is no aggregated discovery and no
OpenAPI; each group has one version.
"""

from collections.abc import Collection

from dev.simulator.patches import JSON
from kube.resources import Resource

VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def discovery(path: str, served: Collection[Resource]) -> JSON | None:
    """The body of the answer to a GET of `path`, by a server of the `served` resources. None if it is not found."""
    if path == "/version":
        return {"major": "1", "minor": "37", "gitVersion": "v1.37.1"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": _groups(served)}
    return _resources(path, served)


def _groups(served: Collection[Resource]) -> list[JSON]:
    names = sorted({(resource.group, resource.version) for resource in served if resource.group})
    versions = [(group, {"groupVersion": f"{group}/{version}", "version": version}) for group, version in names]
    return [{"name": group, "versions": [version], "preferredVersion": version} for group, version in versions]


def _resources(path: str, served: Collection[Resource]) -> JSON | None:
    """The resources of the version with this path; None if there is no such version."""
    found = [
        resource for resource in served if path in {f"/apis/{resource.api_version}", f"/api/{resource.api_version}"}
    ]
    if not found:
        return None
    resources = [
        {"name": r.plural, "kind": r.kind, "namespaced": r.namespaced, "singularName": "", "verbs": VERBS}
        for r in found
    ]
    version = found[0].api_version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}
