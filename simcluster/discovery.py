"""What a simulated API server says about itself: versions, groups, resources, health."""

from collections.abc import Collection

from kube.resources import Resource
from simcluster.patches import JSON

VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def discovery(path: str, served: Collection[Resource]) -> JSON | None:
    """The answer to a GET of that path, None for one that is not served."""
    of_version = [kind for kind in served if path in {f"/apis/{kind.api_version}", f"/api/{kind.api_version}"}]
    if of_version:
        found = [
            {"name": of.plural, "kind": of.kind, "namespaced": of.namespaced, "singularName": "", "verbs": VERBS}
            for of in of_version
        ]
        version = of_version[0].api_version
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": found}
    if path == "/version":
        return {"major": "1", "minor": "37", "gitVersion": "v1.37.1"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": _groups(served)} if path == "/apis" else None


def _groups(served: Collection[Resource]) -> list[JSON]:
    places = sorted({(kind.group, kind.version) for kind in served if kind.group})
    versions = [(group, {"groupVersion": f"{group}/{version}", "version": version}) for group, version in places]
    return [{"name": group, "versions": [one], "preferredVersion": one} for group, one in versions]
