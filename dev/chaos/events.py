"""The audit log as the checks read it: each finished request with times, and the bodies of writes. Pure over lines.

The API server gives each stored write a resourceVersion, which it counts up over all kinds of objects: so the order of
two stored writes is certain, whatever clocks say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs

import msgspec

from manifests import NAMESPACE, SERVICE_ACCOUNT

JSON = dict[str, Any]

MANAGER = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
WRITES = {"create", "update", "patch", "delete", "deletecollection"}
CREDENTIAL = "authentication.kubernetes.io/credential-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A finished request. `resource` is the plural, "/status" and the like appended.

    `started` and `ended` are seconds since 1970. `credential` names the client certificate: each life of a replica has
    its own. `asked` and `answer` are the bodies of a write, empty where the log does not hold them.
    """

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""
    user: str = MANAGER
    credential: str = ""
    code: int = 200
    message: str = ""
    started: float = 0.0
    ended: float = 0.0
    dry_run: bool = False
    selector: str = ""
    """Labels of the objects that a deletion of a collection is about."""
    asked: JSON = field(default_factory=dict)
    answer: JSON = field(default_factory=dict)

    @property
    def stored(self) -> bool:
        """Whether the request changed something."""
        return self.verb in WRITES and self.code < 400 and not self.dry_run

    @property
    def version(self) -> int:
        """The resourceVersion that a stored write was given; 0 where the answer has none."""
        return int((self.answer.get("metadata") or {}).get("resourceVersion") or 0)


class _Target(msgspec.Struct):
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


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
    object_ref: _Target | None = None
    response_status: _Status = msgspec.field(default_factory=_Status)
    request_object: Any = None
    response_object: Any = None


_decoder = msgspec.json.Decoder(_Line)


def events(lines: Iterable[bytes]) -> Iterator[Event]:
    """The finished requests for objects. A last line that is still being written is left out."""
    for line in lines:
        if not line.endswith(b"\n"):
            return
        read = _decoder.decode(line)
        target = read.object_ref
        if read.stage != "ResponseComplete" or target is None:
            continue
        query = parse_qs(read.request_uri.partition("?")[2])
        yield Event(
            verb=read.verb,
            resource=target.resource + (f"/{target.subresource}" if target.subresource else ""),
            namespace=target.namespace,
            name=target.name,
            user=read.user.username,
            credential=read.user.extra.get(CREDENTIAL, [""])[0],
            code=read.response_status.code,
            message=read.response_status.message,
            started=read.request_received_timestamp.timestamp(),
            ended=read.stage_timestamp.timestamp(),
            dry_run="dryRun" in query,
            selector=query.get("labelSelector", [""])[0],
            asked=_object(read.request_object),
            answer=_object(read.response_object),
        )


def _object(body: Any) -> JSON:
    """A JSON patch is a list, and no check looks into one."""
    return body if isinstance(body, dict) else {}
