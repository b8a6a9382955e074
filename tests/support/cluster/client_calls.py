"""JobSets written and read as the real clients do."""

from functools import partial
from typing import Any

from tests.support.cluster import requests as cluster
from tests.support.cluster.jobs import JOBSETS
from tests.support.cluster.requests import replace_object, request

PREFIX = "jobset.sigs.k8s.io/"
COUNTERS = {"active", "failed", "ready", "succeeded", "suspended"}


def path(sets, name: str = "") -> str:
    return JOBSETS.format(sets.namespace) + (f"/{name}" if name else "")


def post(sets, body: dict[str, Any]) -> tuple[int, Any]:
    return request(sets.cluster, "POST", path(sets), body)


def update(sets, change, name: str = "js") -> tuple[int, Any]:
    """Read, change and write the whole object, as clients in Go do; again where somebody was faster."""
    return replace_object(partial(request, sets.cluster), path(sets, name), change)


def history(sets, since: str) -> list[dict[str, Any]]:
    """Every state of the namespace's JobSets that was ever stored after a resourceVersion."""
    events = cluster.history(sets.cluster, path(sets), since)
    return [event["object"] for event in events if event["type"] in {"ADDED", "MODIFIED"}]


def now(sets) -> str:
    return request(sets.cluster, "GET", path(sets))[1]["metadata"]["resourceVersion"]


def idle(sets, name: str = "js") -> bool:
    """What Kueue calls not active."""
    return all(entry["active"] == 0 for entry in sets.status(name)["replicatedJobsStatus"])


def annotations_of(obj: dict[str, Any]) -> dict[str, str]:
    return obj["metadata"].get("annotations", {})
