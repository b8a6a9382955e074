"""JSON schemas of kinds that an API server serves, made of its own OpenAPI documents, as kubeconform reads them.

They are strict: a field that is not in the document is a fault, also where an API server would drop it without a word.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dev.cluster.cluster import Cluster
from tests.support.cluster.requests import kubectl, wait_for

NAMES = "{{.ResourceKind}}{{.KindSuffix}}.json"
"""Files in the folder, in the words of kubeconform: kind, first word of the group, version; all in lower case."""

Object = dict[str, Any]


def write_schemas(cluster: Cluster, api_versions: Iterable[str], folder: Path) -> None:
    """One file for each kind of these, such as `apps/v1`. Waits until the API server has published them all."""
    for api_version in api_versions:
        group, _, version = api_version.rpartition("/")
        schemas = _published(cluster, f"apis/{api_version}" if group else f"api/{version}")
        strict = {name: _strict(schema) for name, schema in schemas.items()}
        for name, schema in schemas.items():
            for served in schema.get("x-kubernetes-group-version-kind", ()):
                words = (served["kind"], *filter(None, (group.split(".")[0], version)))
                if (served["group"], served["version"]) == (group, version) and not served["kind"].endswith("List"):
                    root = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": strict}}
                    (folder / f"{'-'.join(words).lower()}.json").write_text(json.dumps(root))


def _published(cluster: Cluster, name: str) -> dict[str, Object]:
    """The schemas of one group and version."""

    def paths() -> Object:
        found: Object = json.loads(kubectl(cluster, "get", "--raw", "/openapi/v3"))["paths"]
        return found

    wait_for(lambda: name in paths(), what=f"the OpenAPI document of {name}")
    document = json.loads(kubectl(cluster, "get", "--raw", paths()[name]["serverRelativeURL"]))
    schemas: dict[str, Object] = document["components"]["schemas"]
    return schemas


def _strict(schema: Object) -> Object:
    """The same, closed wherever it names fields. Parts of `allOf` and its like stay: they describe the same object."""
    found = dict(schema)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            found[key] = _strict(schema[key])
    if "properties" in schema:
        found["properties"] = {name: _strict(inner) for name, inner in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            found.setdefault("additionalProperties", False)
    return found
