"""Stuck situations of restarts that wait or never end, of queues, devices and pools of 0 nodes; see `tests/support/explain/stuck.py`."""

from datetime import timedelta
from typing import Any

import msgspec

from api.pod import Pod
from diagnose.facts import Facts
from diagnose.nodes import Nodes, SeenNode
from tests.support.explain.objects import (
    NOW,
    RACK,
    a_set,
    at,
    event,
    exclusive,
    facts,
    job_of,
    leader_of,
    lease,
    made,
    pod_of,
    running,
)
from tests.support.explain.stuck import JSON, POD, node, restarting, row, started, stuck
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


def waiting_for_device(claim: JSON, *warnings: JSON, there: dict[str, bool] | None = None) -> Facts:
    """A pod with such an entry in resourceClaims, at which no scheduler has looked."""
    body = rjob()
    body["template"]["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "rdma", **claim}]
    js = a_set(body)
    job = started(js)
    pod = made(pod_of(job, resourceClaims=[{"name": "rdma", **claim}]))
    notes = [{**warning, "regarding": {"name": POD}} for warning in warnings]
    return facts(js, [job], [pod], pod_warnings=notes, device_claim_exists=there or {}, lease=lease())


NO_TEMPLATE = (
    'PodResourceClaim rdma: resource claim template "rdma": resourceclaimtemplate.resource.k8s.io "rdma" not found'
)
row(
    "a ResourceClaimTemplate that is missing",
    f"Job train-workers-0: pod {POD} is not scheduled: there is no ResourceClaimTemplate rdma",
    "create ResourceClaimTemplate rdma, or see why what makes it, such as a ComputeDomain, has not",
    lambda: waiting_for_device(
        {"resourceClaimTemplateName": "rdma"}, event("FailedResourceClaimCreation", NO_TEMPLATE)
    ),
)
row(
    "a ResourceClaim that is missing",
    f"Job train-workers-0: pod {POD} is not scheduled: there is no ResourceClaim rdma",
    "kubectl get resourceclaims -n team-a lists those there are",
    lambda: waiting_for_device({"resourceClaimName": "rdma"}, there={"rdma": False}),
)
REFUSED = "PodResourceClaim rdma: resourceclaims.resource.k8s.io is forbidden: exceeded quota: devices"
row(
    "a ResourceClaim that cannot be created",
    f"Job train-workers-0: pod {POD} is not scheduled: FailedResourceClaimCreation: {REFUSED}",
    f"kubectl describe pod -n team-a {POD} says more",
    lambda: waiting_for_device({"resourceClaimTemplateName": "rdma"}, event("FailedResourceClaimCreation", REFUSED)),
)
AFFINITY = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector"


@stuck(
    "an exclusive Job whose pool has no nodes",
    "Job train-workers-0: waits for a rack of its own: no node has the label pool=tpu7x of its nodeSelector; nodes"
    " have pool=a100",
    "then it sees all pods (docs/concepts/exclusive-placement.md#nodes-that-an-autoscaler-adds)",
)
def _() -> Facts:
    return without_pool()


def without_pool(gated: int = 3) -> Facts:
    """A leader for which no node has the label, with gated followers."""
    js = a_set(exclusive())
    job = made(job_of(js, 0), active=gated + 1, ready=0)
    leader = made(leader_of(job, unscheduled=AFFINITY, nodeSelector={"pool": "tpu7x"}))
    offers = [node("node-0", labels={"pool": "a100", RACK: "rack-0"}), node("node-1", labels={"pool": "a100"})]
    return facts(
        js,
        [job],
        [leader],
        gated_followers={job["metadata"]["uid"]: gated} if gated else {},
        node_labels={"node-0": {RACK: "rack-0"}},
        holder_pods=(),
        node_offers=Nodes(msgspec.convert(offers, list[SeenNode])),
        lease=lease(),
    )


@stuck(
    "an agent of restarts in place that cannot report",
    "1 pod has not reported the attempt in place (train-workers-0-1): the workers of all pods wait for that",
    "kubectl logs -n team-a train-workers-0-1 shows what its agent says; its ServiceAccount needs patch on pods",
)
def _() -> Facts:
    js = a_set(failurePolicy={"restartStrategy": "InPlaceRestart"})
    job = made(job_of(js, 0), active=1, ready=1)
    return facts(
        js, [job], lease=lease(), pods_without_agent_report=(msgspec.convert(pod_of(job, 1, node="node-3"), Pod),)
    )
