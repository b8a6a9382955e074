"""Reads a cluster's audit log: exact counts of API calls by who, what and outcome. It must not write it.

The log is at Metadata level (unless the cluster was asked for bodies) without the RequestReceived stage; one line per
request (two for a watch).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Call:
    """One finished API request. `resource` is the plural, "/status" and the like appended; `group` "" is the core one.

    `permitted` is the answer of the authorizer; quotas and admission may refuse what it permitted. `received` and
    `answered` are times as in the log (RFC 3339 with microseconds): as texts they are in the order of time.
    """

    verb: str
    resource: str
    namespace: str
    name: str
    user: str
    agent: str
    code: int
    dry_run: bool
    group: str = ""
    permitted: bool = True
    received: str = ""
    answered: str = ""


def calls(path: Path, start: int = 0, about: str = "") -> Iterator[Call]:
    """Finished requests from byte `start` of the log on; take `size(path)` before an act to count only what follows.

    A last line that is still being written is left out. Watches are left out until they end. Lines without the text
    `about`, such as a namespace or a user, are left out undecoded: decoding is most of the work.
    """
    text = about.encode()
    with path.open("rb") as log:
        log.seek(start)
        for line in log:
            if not line.endswith(b"\n"):
                return
            if text not in line:
                continue
            event = json.loads(line)
            if event["stage"] == "ResponseComplete" and "objectRef" in event:
                yield _call(event)


def size(path: Path) -> int:
    """The log's length in bytes, 0 before the first request."""
    return path.stat().st_size if path.exists() else 0


def _call(event: dict[str, Any]) -> Call:
    target = event["objectRef"]
    subresource = target.get("subresource")
    return Call(
        verb=event["verb"],
        resource=target.get("resource", "") + (f"/{subresource}" if subresource else ""),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        user=event["user"].get("username", ""),
        agent=event.get("userAgent", ""),
        code=event.get("responseStatus", {}).get("code", 0),
        dry_run="dryRun=" in event.get("requestURI", "").partition("?")[2],
        group=target.get("apiGroup", ""),
        permitted=event.get("annotations", {}).get("authorization.k8s.io/decision") != "forbid",
        received=event.get("requestReceivedTimestamp", ""),
        answered=event.get("stageTimestamp", ""),
    )
