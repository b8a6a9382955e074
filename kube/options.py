"""The options of a call of `kube.client`, and how they are written in a request."""

from collections.abc import Mapping
from typing import Any, TypedDict

import msgspec

from kube.transport import Request

TIMEOUT = 30.0
"""Default seconds for one exchange."""

COMMAND_TIMEOUT = 15.0
"""Seconds for one exchange while a user waits for a command."""

JSON_FORM = "application/json"
"""Media type of a whole object."""

METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""Media type that asks for only the metadata of an object, also in the events of a watch."""

METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Media type that asks for only the metadata of the objects of a list."""


class ReadOptions(TypedDict, total=False):
    """`namespace` for namespaced resources; `timeout` in seconds. `accept`: media type of the answer."""

    namespace: str | None
    subresource: str
    accept: str
    timeout: float


class ListOptions(TypedDict, total=False):
    """`limit` 0 means no limit. `continue_token` comes from the previous page. `accept`: media type of the answer."""

    namespace: str | None
    label_selector: str
    field_selector: str
    resource_version: str
    resource_version_match: str
    limit: int
    continue_token: str
    accept: str
    timeout: float


class WriteOptions(TypedDict, total=False):
    """`force` (apply only) takes over fields of other managers. `field_validation`: Strict, Warn or Ignore.

    `accept`: media type of the answer. `warnings` gets the texts of the API server's warnings, also of a refusal.
    """

    namespace: str | None
    subresource: str
    dry_run: bool
    field_manager: str
    force: bool
    field_validation: str
    warnings: list[str]
    accept: str
    timeout: float


class DeleteOptions(TypedDict, total=False):
    """`propagation_policy`: Foreground, Background or Orphan. `uid` and `resource_version` are preconditions."""

    namespace: str | None
    propagation_policy: str
    grace_period_seconds: int
    uid: str
    resource_version: str
    dry_run: bool
    timeout: float


# Query parameters by option.
LIST_QUERY = {
    "label_selector": "labelSelector",
    "field_selector": "fieldSelector",
    "resource_version": "resourceVersion",
    "resource_version_match": "resourceVersionMatch",
    "limit": "limit",
    "continue_token": "continue",
}
WRITE_QUERY = {
    "dry_run": "dryRun",
    "field_manager": "fieldManager",
    "force": "force",
    "field_validation": "fieldValidation",
}


def query_of(options: Mapping[str, Any], names: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Query parameters of the options that are set; True is "All" for dryRun and "true" elsewhere."""
    pairs = []
    for option, name in names.items():
        value = options.get(option)
        if not value:
            continue
        if value is True:
            value = "All" if option == "dry_run" else "true"
        pairs.append((name, str(value)))
    return tuple(pairs)


def delete_request(path: str, options: DeleteOptions, selectors: tuple[tuple[str, str], ...]) -> Request:
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if policy := options.get("propagation_policy"):
        body["propagationPolicy"] = policy
    if (grace := options.get("grace_period_seconds")) is not None:
        body["gracePeriodSeconds"] = grace
    preconditions = {"uid": options.get("uid"), "resourceVersion": options.get("resource_version")}
    if set_preconditions := {key: value for key, value in preconditions.items() if value}:
        body["preconditions"] = set_preconditions
    if options.get("dry_run"):
        body["dryRun"] = ["All"]
    return Request(
        method="DELETE",
        path=path,
        verb="delete",
        query=selectors,
        body=msgspec.json.encode(body),
        timeout=options.get("timeout", TIMEOUT),
    )
