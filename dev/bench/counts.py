"""Requests to the API server, from the records of its audit log. Pure: records in, figures out."""

from collections import Counter
from collections.abc import Iterable

from dev.cluster.audit import WRITES, Call
from kube.model.meta import JSON

NOT_COUNTED = {"kubernetes-admin", "kwok"}
"""Users whose requests are the benchmark's own, or play the kubelets of fake nodes."""

CHILDREN = {"jobs", "pods"}
DELETIONS = {"delete", "deletecollection"}
CHANGES = {"update", "patch"}


def counts(calls: Iterable[Call], user: str) -> JSON:
    """Requests by client, requests about pods, and all calls of `user`; its dry runs are counted separately.

    `user` is the last part of a user name. Its `calls` are counted by verb, resource and code. Among them `refused` are
    those answered with 400 or more, `duplicate` those for a Job that existed already, and `conflict` writes of an
    object that had changed.
    """
    clients: Counter[str] = Counter()
    pods: Counter[str] = Counter()
    own: Counter[tuple[str, str, int]] = Counter()
    dry_runs = 0
    for call in calls:
        client = call.user.rpartition(":")[2]
        if call.dry_run and client == user:
            dry_runs += 1
        if client in NOT_COUNTED or call.dry_run:
            continue
        clients[client] += 1
        if client == user:
            own[call.verb, call.resource, call.code] += 1
        if call.resource == "pods" and call.verb == "create":
            pods["refused" if call.code >= 400 else "created"] += 1
    return {
        "pods_created": pods["created"],
        "pod_creates_refused": pods["refused"],
        "requests": clients.total(),
        "requests_by_client": dict(clients.most_common()),
        "manager": {**goal_figures(own), "dry_runs": dry_runs},
        "calls": [
            {"verb": verb, "resource": resource, "code": code, "count": count}
            for (verb, resource, code), count in sorted(own.items())
        ],
    }


def goal_figures(own: Counter[tuple[str, str, int]]) -> dict[str, int]:
    """The figures of goals, from calls by (verb, resource, code)."""

    def total(verbs: set[str], resources: set[str] | None = None, codes: range = range(1000)) -> int:
        return sum(
            count
            for (verb, resource, code), count in own.items()
            if verb in verbs and (resources is None or resource in resources) and code in codes
        )

    answered, refused = range(400), range(400, 1000)
    return {
        "requests": own.total(),
        "writes": total(WRITES),
        "refused": total(WRITES, None, refused),
        "creates": total({"create"}, {"jobs"}, answered),
        "duplicates": total({"create"}, {"jobs"}, range(409, 410)),
        "deletes": total(DELETIONS, CHILDREN),
        "conflicts": total(CHANGES, None, range(409, 410)),
        "status_writes": total(CHANGES, {"jobsets/status"}),
    }
