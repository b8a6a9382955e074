"""Stuck situations of restarts that wait, or never end, and of queues; see `tests/support/explain/stuck.py`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from diagnose.facts import Facts
from tests.support.explain.objects import NOW, a_set, at, facts, lease, running
from tests.support.explain.stuck import JSON, POD, node, restarting, row, stuck
from tests.support.objects.jobsets import rjob

row(
    "a restart that waits for pods that do not end on a node that works",
    (
        "it restarts (1 of at most 3 restarts counted): 1 Job of an earlier attempt still exists, 1 in deletion"
        f" (train-workers-0); each has to go first: pod {POD} on node node-3 and 1 more there are being deleted, overdue by"
        " 1 min: the grace period of 0 s is over"
    ),
    f"kubectl delete pod -n team-a {POD} --grace-period=0 --force",
    lambda: restarting(node("node-3")),
)


@stuck(
    "restarts by a rule that counts none of them",
    "restarted 3 times, 3 not counted towards maxRestarts by rule free (RestartJobSetAndIgnoreMaxRestarts, without a"
    " limit); attempt 2: Job train-workers-0, container main of pod train-workers-0-0-x on node node-3, exit code 1",
    "restarts by rule free never end: give it a maxRestarts, or let it match less, in a new JobSet",
)
def _() -> Facts:
    return restarted_for_free()


def restarted_for_free(counted: int = 0, **rule: Any) -> Facts:
    """Three attempts have failed, and a rule has restarted the set each time, but for those that were `counted`."""
    free = {"name": "free", "action": "RestartJobSetAndIgnoreMaxRestarts", **rule}
    ended = {"failedJob": "train-workers-0", "pod": f"{POD}-x", "node": "node-3", "container": "main", "exitCode": 1}
    attempts = [
        {"attempt": number, "reason": "FailurePolicy_free", "time": at(NOW - timedelta(minutes=9 - number)), **ended}
        for number in range(3)
    ]
    done = [{"name": "free", "restarts": 3 - counted}] if "maxRestarts" in rule else []
    status = {"restarts": 3, "restartsCountTowardsMax": counted, "attemptHistory": attempts}
    status |= {"failurePolicyRestarts": done}
    js = a_set(failurePolicy={"maxRestarts": 6, "rules": [free]}, status=status)
    return facts(js, [running(js, 0)], lease=lease())


row(
    "a label of a queue on the template in place of the JobSet",
    (
        "spec.suspend is true: its Jobs run no pods; the label kueue.x-k8s.io/queue-name is on the template of workers:"
        " Kueue looks for it on the JobSet"
    ),
    "kubectl label jobset train -n team-a kueue.x-k8s.io/queue-name=gpus; or jobset resume train -n team-a",
    lambda: facts(a_set(queued_template(), suspend=True)),
)


def queued_template() -> JSON:
    body = rjob()
    body["template"]["metadata"] = {"labels": {"kueue.x-k8s.io/queue-name": "gpus"}}
    return body
