"""Reads a cluster's audit log, for exact counts of API calls by user, resource and outcome.

The log has the level Metadata, or RequestResponse for resources of `ClusterSpec.audit_bodies`. Without the stage
RequestReceived, it has one line for each request, and two for a watch.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec

from kube.model.meta import JSON

WRITES = {"create", "update", "patch", "delete", "deletecollection"}
CREDENTIAL = "authentication.kubernetes.io/credential-id"


@dataclass(frozen=True, slots=True)
class Call:
    """One finished API request. `resource` is the plural, with a subresource such as "/status". `group` "" is core.

    `permitted`: whether the authorizer allowed the request, which quotas and admission may still refuse. `started` and
    `ended` are seconds since 1970. `credential` names the client certificate. `selector` is the label selector of a
    deletion of a collection. `request_body` and `response_body` are the bodies of a write, or empty if the log lacks
    them.
    """

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""
    user: str = ""
    agent: str = ""
    code: int = 200
    dry_run: bool = False
    group: str = ""
    permitted: bool = True
    started: float = 0.0
    ended: float = 0.0
    credential: str = ""
    message: str = ""
    selector: str = ""
    request_body: JSON = field(default_factory=dict)
    response_body: JSON = field(default_factory=dict)

    @property
    def is_stored(self) -> bool:
        """Whether the request changed something."""
        return self.verb in WRITES and self.code < 400 and not self.dry_run

    @property
    def version(self) -> int:
        """The resourceVersion in the answer to a stored write; 0 if the answer has none."""
        return int((self.response_body.get("metadata") or {}).get("resourceVersion") or 0)


class _Target(msgspec.Struct, rename="camel"):
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    api_group: str = ""


class _User(msgspec.Struct):
    username: str = ""
    extra: dict[str, list[str]] = {}


class _Status(msgspec.Struct):
    code: int = 0
    message: str = ""


class _Line(msgspec.Struct, rename="camel"):
    stage: str
    verb: str
    user: _User
    stage_timestamp: datetime
    request_received_timestamp: datetime
    request_uri: str = msgspec.field(name="requestURI", default="")
    user_agent: str = ""
    object_ref: _Target | None = None
    response_status: _Status = msgspec.field(default_factory=_Status)
    annotations: dict[str, str] = {}
    request_object: Any = None
    response_object: Any = None


_decoder = msgspec.json.Decoder(_Line)


def calls(path: Path, start: int = 0, about: str = "") -> Iterator[Call]:
    """Yield the finished requests from byte `start` of the log on, such as `log_size` before an action.

    Leaves out incomplete lines at the start and at the end, and watches that have not ended. Lines without the text
    `about`, such as a namespace or a user, are left out without decoding them, since decoding is most of the work.
    """
    text = about.encode()
    with path.open("rb") as log:
        if start:
            log.seek(start - 1)
            log.readline()
        for line in log:
            if not line.endswith(b"\n"):
                return
            if text not in line:
                continue
            event = _decoder.decode(line)
            if event.stage == "ResponseComplete" and event.object_ref is not None:
                yield _call(event, event.object_ref)


def log_size(path: Path) -> int:
    """The log's length in bytes, 0 before the first request."""
    return path.stat().st_size if path.exists() else 0


def _call(event: _Line, target: _Target) -> Call:
    query = parse_qs(event.request_uri.partition("?")[2])
    return Call(
        verb=event.verb,
        resource=target.resource + (f"/{target.subresource}" if target.subresource else ""),
        namespace=target.namespace,
        name=target.name,
        user=event.user.username,
        agent=event.user_agent,
        code=event.response_status.code,
        dry_run="dryRun" in query,
        group=target.api_group,
        permitted=event.annotations.get("authorization.k8s.io/decision") != "forbid",
        started=event.request_received_timestamp.timestamp(),
        ended=event.stage_timestamp.timestamp(),
        credential=event.user.extra.get(CREDENTIAL, [""])[0],
        message=event.response_status.message,
        selector=query.get("labelSelector", [""])[0],
        request_body=_body(event.request_object),
        response_body=_body(event.response_object),
    )


def _body(body: Any) -> JSON:
    """The body as a dict; empty for a JSON patch, which is a list."""
    return body if isinstance(body, dict) else {}
