"""Turns lines of an audit log into requests that can be sent again: what differs from run to run becomes a variable.

Plain data in, plain data out.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

JSON = dict[str, Any]

WRITES = {"create", "update", "patch", "delete", "deletecollection"}
VERSION = "$resourceVersion"
UID = "$uid"
NAMESPACE = "$namespace"
PARAMETERS = ("fieldManager", "force", "dryRun", "fieldValidation")
WORKLOAD = re.compile(r"\b((?:jobset|trainjob)-[a-z]+)-[0-9a-f]{5}\b")
"""The name of a Workload of Kueue's ends in a hash of its owner's uid."""


def events(lines: Iterable[bytes]) -> Iterator[JSON]:
    """Requests that were answered."""
    for line in lines:
        event = json.loads(line)
        if event["stage"] == "ResponseComplete" and "objectRef" in event:
            yield event


def writes(found: Iterable[JSON], users: Iterable[str], namespace: str) -> list[JSON]:
    """Accepted writes to JobSets by these users, in order, dry runs included; equal ones in a row are one, counted."""
    known, written = set(users), list[JSON]()
    for event in found:
        about = event["objectRef"]
        mine = event["user"]["username"] in known and event["verb"] in WRITES
        if not (mine and about.get("resource") == "jobsets" and about.get("namespace") == namespace):
            continue
        if event["responseStatus"]["code"] >= 400:
            continue
        request = _request(event, namespace)
        if written and written[-1]["request"] == request:
            written[-1]["times"] += 1
        else:
            entry = {"times": 1, "code": event["responseStatus"]["code"], "request": request}
            written.append(entry | ({"suspendedByWebhook": True} if _suspended_by_webhook(event) else {}))
    return written


def refusals(found: Iterable[JSON], user: str, namespace: str) -> list[JSON]:
    """Answers of webhooks that refused dry runs of Jobs by this user: each once."""
    answers = []
    for event in found:
        about = event["objectRef"]
        asked = about.get("resource") == "jobs" and event["verb"] == "create" and "dryRun=" in event["requestURI"]
        status = event["responseStatus"]
        if not asked or event["user"]["username"] != user or about.get("namespace") != namespace:
            continue
        if "webhook" in status.get("message", ""):
            owners = event["requestObject"]["metadata"].get("ownerReferences", [])
            answer = {"owners": len(owners), **{key: status[key] for key in ("code", "reason", "message")}}
            if answer not in answers:
                answers.append(answer)
    return answers


def _request(event: JSON, namespace: str) -> JSON:
    body = event.get("requestObject")
    agent = event["userAgent"].partition("/")[0]
    query = {key: value for key, value in parse_qsl(urlsplit(event["requestURI"]).query) if key in PARAMETERS}
    about = event["objectRef"]
    return {
        "client": event["user"]["username"],
        "userAgent": agent,
        "verb": event["verb"],
        **({"contentType": _content(body)} if event["verb"] == "patch" else {}),
        "name": about["name"] if "name" in about else body["metadata"]["name"],
        **({"subresource": about["subresource"]} if "subresource" in about else {}),
        # What is not said is the first part of the user agent.
        "query": {"fieldManager": agent, **query},
        "body": _plain(body, namespace),
    }


def _suspended_by_webhook(event: JSON) -> bool:
    """Whether the set was stored suspended though nobody asked for that: Kueue's webhook does so."""
    asked = event["requestObject"].get("spec", {}) if event["verb"] == "create" else {"suspend": None}
    return "suspend" not in asked and bool(event["responseObject"]["spec"].get("suspend"))


def _content(body: Any) -> str:
    """Not in the log: only what is applied names its kind, and only a JSON patch is a list."""
    if isinstance(body, list):
        return "application/json-patch+json"
    applied = isinstance(body, dict) and "kind" in body
    return "application/apply-patch+yaml" if applied else "application/merge-patch+json"


def _plain(node: Any, namespace: str, key: str = "") -> Any:
    """Without what differs from run to run."""
    if isinstance(node, dict):
        return {
            name: _plain(member, namespace, name)
            for name, member in node.items()
            if name not in {"managedFields", "generation", "status"} or (name == "status" and member)
        }
    if isinstance(node, list):
        return [_plain(member, namespace) for member in node]
    if isinstance(node, str):
        if key in {"resourceVersion", "uid", "namespace"}:
            return {"resourceVersion": VERSION, "uid": UID, "namespace": NAMESPACE}[key]
        return WORKLOAD.sub(r"\1-00000", node)
    return node
