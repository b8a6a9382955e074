"""Stuck situations of sets whose Jobs wait for others, or for a name; see `tests/support/explain/stuck.py`."""

from __future__ import annotations

import msgspec

from diagnose.facts import Facts, SeenPod
from diagnose.nodes import SeenNode
from kube.model.meta import Owner
from tests.support.explain.objects import MOMENT, at, facts, job_of, lease, made, pod_of
from tests.support.explain.stuck import JSON, POD, a_set, row, silent_node, started, stuck
from tests.support.objects.jobsets import rjob


@stuck(
    "a Job waits for dependsOn",
    "Job train-driver-0: pod train-driver-0-0 is not scheduled: 0/2 nodes are available: 2 Insufficient cpu",
    "see above why those wait",
)
def _() -> Facts:
    js = a_set(rjob("driver"), rjob("workers", dependsOn=[{"name": "driver", "status": "Ready"}]))
    driver = made(job_of(js, 0, "driver"), active=1, ready=0)
    pod = made(pod_of(driver, unscheduled="0/2 nodes are available: 2 Insufficient cpu"))
    return facts(js, [driver], [pod], lease=lease())


@stuck(
    "a Job runs that another one waits for",
    "ReplicatedJob workers (1 Job): waits for server to be complete (0 of 1); train-server-0 runs",
    "for servers, which do not end, write status: Ready in dependsOn",
)
def _() -> Facts:
    js = a_set(rjob("server"), rjob("workers", dependsOn=[{"name": "server", "status": "Complete"}]))
    return facts(js, [made(job_of(js, 0, "server"), active=1, ready=1)], [], lease=lease())


@stuck(
    "the next stage waits for the one before",
    "it runs stage 1 of 2: ReplicatedJob b (1 Job): waits for a to have succeeded (0 of 1); train-a-0 runs",
    "for servers, which do not end, write replicatedJobsStatus: Ready in executionPolicy",
)
def _() -> Facts:
    js = a_set(
        rjob("a"), rjob("b"), executionPolicy={"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"}
    )
    return facts(js, [made(job_of(js, 0, "a"), active=1, ready=1)], [], lease=lease())


row(
    "the name of a Job is taken",
    "Job train-workers-0: cannot be created, a Job of that name belongs to CronJob nightly",
    "delete or rename that one",
    lambda: facts(a_set(), foreign={"train-workers-0": Owner("CronJob", "nightly")}, lease=lease()),
)


def earlier(state: JSON | None) -> Facts:
    """A set whose only Job's name has a Job of an earlier set, the pod of which is being deleted on such a node."""
    js = a_set()
    pod = made(pod_of(started(js), node="node-3"))
    pod["metadata"]["deletionTimestamp"] = at(MOMENT)
    known = {"node-3": None if state is None else msgspec.convert(state, SeenNode)}
    taken = {"train-workers-0": Owner("JobSet", "train")}
    pods = (msgspec.convert(pod, SeenPod),)
    return facts(js, foreign=taken, lease=lease(), earlier=pods, nodes_by_name=known)


row(
    "a Job of an earlier JobSet of this name whose pod is on a node that no longer answers",
    (
        "Job train-workers-0: cannot be created yet, the Job of an earlier JobSet of this name is still there:"
        f" pod {POD} is being deleted on node node-3, which has the taint node.kubernetes.io/unreachable"
    ),
    f"or kubectl delete pod -n team-a {POD} --grace-period=0 --force, which risks two processes for one rank",
    lambda: earlier(silent_node(300)),
)
