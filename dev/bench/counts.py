"""Counts requests to the API server, from the records of its audit log. Pure."""

from collections import Counter
from collections.abc import Iterable

from dev.cluster.audit import WRITES, Call
from kube.model.meta import JSON

UNCOUNTED_USERS = {"kubernetes-admin", "kwok"}
"""Users whose requests are not counted: the benchmark itself, and kwok, which acts as the kubelet of fake nodes."""

CHILD_RESOURCES = {"jobs", "pods"}
DELETE_VERBS = {"delete", "deletecollection"}
UPDATE_VERBS = {"update", "patch"}


def counts(calls: Iterable[Call], user: str) -> JSON:
    """Numbers of requests by client, of creations of pods, and of calls of `user`, the last part of a user name.

    In the result, `calls` are the calls of `user` by verb, resource and code, without dry runs. `manager` has the
    `goal_figures` of these calls, and the number of dry runs of `user`.
    """
    clients: Counter[str] = Counter()
    pods: Counter[str] = Counter()
    user_calls: Counter[tuple[str, str, int]] = Counter()
    dry_runs = 0
    for call in calls:
        client = call.user.rpartition(":")[2]
        if call.dry_run and client == user:
            dry_runs += 1
        if client in UNCOUNTED_USERS or call.dry_run:
            continue
        clients[client] += 1
        if client == user:
            user_calls[call.verb, call.resource, call.code] += 1
        if call.resource == "pods" and call.verb == "create":
            pods["refused" if call.code >= 400 else "created"] += 1
    return {
        "pods_created": pods["created"],
        "pod_creates_refused": pods["refused"],
        "requests": clients.total(),
        "requests_by_client": dict(clients.most_common()),
        "manager": {**goal_figures(user_calls), "dry_runs": dry_runs},
        "calls": [
            {"verb": verb, "resource": resource, "code": code, "count": count}
            for (verb, resource, code), count in sorted(user_calls.items())
        ],
    }


def goal_figures(user_calls: Counter[tuple[str, str, int]]) -> dict[str, int]:
    """The figures for which there are goals, from the number of calls by (verb, resource, code).

    `refused`: writes answered with 400 or more. `duplicates`: creations of a Job that existed already. `conflicts`:
    updates and patches of an object that had changed.
    """

    def total(verbs: set[str], resources: set[str] | None = None, codes: range = range(1000)) -> int:
        return sum(
            count
            for (verb, resource, code), count in user_calls.items()
            if verb in verbs and (resources is None or resource in resources) and code in codes
        )

    answered, refused = range(400), range(400, 1000)
    return {
        "requests": user_calls.total(),
        "writes": total(WRITES),
        "refused": total(WRITES, None, refused),
        "creates": total({"create"}, {"jobs"}, answered),
        "duplicates": total({"create"}, {"jobs"}, range(409, 410)),
        "deletes": total(DELETE_VERBS, CHILD_RESOURCES),
        "conflicts": total(UPDATE_VERBS, None, range(409, 410)),
        "status_writes": total(UPDATE_VERBS, {"jobsets/status"}),
    }
