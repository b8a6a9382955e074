"""Stuck situations and what `jobset explain` says of each, as `docs/reference/stuck.md` and `stuck-pods.md` list them.

Objects have the conditions, messages and events that kube-scheduler, the kubelet, the Job controller and the API server
write. Those that a real cluster can be brought into are made for real in `tests/e2e/test_stuck.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from diagnose.facts import Facts, SeenConditions, SeenPod
from diagnose.nodes import Nodes, SeenNode
from tests.support.explain.objects import MOMENT, NOW, a_set, at, condition, event, facts, lease, made, pod_of, running
from tests.support.objects.jobsets import rjob

JSON = dict[str, Any]
POD = "train-workers-0-0"
ADMITTED = msgspec.convert({"status": {"conditions": [condition("Admitted", "Admitted")]}}, SeenConditions)


@dataclass(frozen=True)
class Stuck:
    """`says`: the cause in one line, as `jobset explain` without a name shows it. `fix`: part of a fix."""

    title: str
    says: str
    fix: str
    make: Callable[[], Facts]
    in_words_of_kubelet: bool = False


TABLE: list[Stuck] = []


def row(title: str, says: str, fix: str, make: Callable[[], Facts]) -> None:
    """Adds a situation to the table."""
    TABLE.append(Stuck(title, says, fix, make))


def stuck(title: str, says: str, fix: str = "") -> Callable[[Callable[[], Facts]], Callable[[], Facts]]:
    """Adds the situation that a function makes to the table."""

    def add(make: Callable[[], Facts]) -> Callable[[], Facts]:
        TABLE.append(Stuck(title, says, fix, make))
        return make

    return add


def started(js: JSON, index: int = 0, **status: Any) -> JSON:
    return running(js, index, **{"ready": 0, **status})


def about_pod(
    *,
    js: JSON | None = None,
    jobs: Sequence[JSON] = (),
    containers: tuple[JSON, ...] = (),
    known: JSON | None = None,
    **pod: Any,
) -> Facts:
    """A set of which the first Job has one such pod; `jobs` are the others, `containers` those of the pod's spec."""
    js = js or a_set()
    job = started(js)
    body = made(pod_of(job, **{"containers": pod.pop("statuses", None), **pod}))
    if containers:
        body["spec"]["containers"] = list(containers)
    return facts(js, [job, *jobs], [body], lease=lease(), **(known or {}))


def node(name: str, *taints: JSON, labels: JSON | None = None, gpus: int = 8) -> JSON:
    devices = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110", **devices}},
    }


def unscheduled(reason: str, *nodes: JSON, needs: JSON | None = None, **pod: Any) -> Facts:
    """A pod that finds none of these nodes. `reason`: what the scheduler counts of all of them."""
    there = nodes or (node("node-0", labels={"pool": "a100"}), node("node-1", labels={"pool": "a100"}))
    number = len(there)
    message = f"0/{number} nodes are available: {number} {reason}. preemption: 0/{number} nodes are available"
    container = {"name": "main", "resources": {"requests": needs or {"cpu": "1"}}}
    offers = Nodes(msgspec.convert(list(there), list[SeenNode]))
    return about_pod(containers=(container,), unscheduled=message, known={"node_offers": offers}, **pod)


def waiting(reason: str, message: str = "", name: str = "main", **status: Any) -> JSON:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"name": name, "ready": False, "state": state, **status}


AFFINITY = "node(s) didn't match Pod's node affinity/selector"


row(
    "suspended by hand",
    "spec.suspend is true: its Jobs run no pods",
    "jobset resume train -n team-a",
    lambda: facts(a_set(suspend=True)),
)
row(
    "suspended until Kueue admits it",
    "spec.suspend is true: its Jobs run no pods; it is in the Kueue queue gpus",
    "kubectl get workloads.kueue.x-k8s.io -n team-a -l kueue.x-k8s.io/job-uid=",
    lambda: facts(a_set(suspend=True, labels={"kueue.x-k8s.io/queue-name": "gpus"})),
)
row(
    "suspended although Kueue has admitted it",
    "spec.suspend is true: its Jobs run no pods; it is in the Kueue queue gpus; Kueue has admitted it and holds quota for"
    " it, but has not resumed it",
    "if this lasts, Kueue's log says what refuses its update; kubectl get workloads.kueue.x-k8s.io -n team-a -l",
    lambda: facts(a_set(suspend=True, labels={"kueue.x-k8s.io/queue-name": "gpus"}), workloads=[ADMITTED]),
)
row(
    "managed by another controller",
    "spec.managedBy is kueue.x-k8s.io/multikueue: that controller creates its Jobs, this one leaves it alone",
    "ask that controller",
    lambda: facts(a_set(managedBy="kueue.x-k8s.io/multikueue"), None),
)


@stuck(
    "finished: completed",
    "AllJobsCompleted: jobset completed successfully",
)
def _() -> Facts:
    done = condition("Completed", "AllJobsCompleted", "jobset completed successfully")
    return facts(a_set(status={"terminalState": "Completed", "conditions": [done]}), None)


@stuck(
    "finished: failed",
    "FailedJobs: jobset failed due to one or more job failures",
    "spec.failurePolicy.maxRestarts allows retries",
)
def _() -> Facts:
    why = condition("Failed", "FailedJobs", "jobset failed due to one or more job failures")
    return facts(a_set(status={"terminalState": "Failed", "conditions": [why]}), None)


def deleted(*finalizers: str) -> Facts:
    js = a_set()
    js["metadata"] |= {"deletionTimestamp": at(MOMENT), "finalizers": list(finalizers)}
    return facts(js, [started(js)], None)


row(
    "a deletion that another controller's finalizer holds",
    (
        "it has been deleted, and stays until nothing holds it any more: finalizer example.com/keep holds it: whoever set"
        " it has to remove it"
    ),
    "look at the controller that the finalizer is named after",
    lambda: deleted("example.com/keep"),
)
row(
    "a foreground deletion that waits for pods",
    (
        "it has been deleted, and stays until nothing holds it any more: 1 Job (train-workers-0) and all pods of them have"
        " to go first"
    ),
    "kubectl delete pod NAME --force",
    lambda: deleted("foregroundDeletion"),
)


@stuck(
    "its namespace is being deleted",
    "its namespace team-a is being deleted with all that is in it, and nothing can be created there",
    "once the namespace is gone, kubectl create namespace team-a and kubectl create -f train.yaml",
)
def _() -> Facts:
    remains = condition("NamespaceContentRemaining", "SomeResourcesRemain", "Some resources are remaining: pods. has 1")
    body = {"metadata": {"deletionTimestamp": at(MOMENT)}, "status": {"conditions": [remains]}}
    return facts(a_set(), namespace=msgspec.convert(body, SeenConditions), lease=lease())


def failed(attempt: int, minutes: float, **more: Any) -> JSON:
    """An attempt that failed so many minutes ago."""
    body = {
        "attempt": attempt,
        "failedJob": "train-workers-0",
        "reason": "DefaultFailurePolicy",
        "message": "too often",
    }
    return {**body, "time": at(NOW - timedelta(minutes=minutes)), **more}


def looping(*history: JSON, **known: Any) -> Facts:
    status = {"restarts": len(history), "restartsCountTowardsMax": len(history), "attemptHistory": list(history)}
    js = a_set(rjob(replicas=2, pod={"restartPolicy": "Never"}), failurePolicy={"maxRestarts": 20}, status=status)
    jobs = [running(js, index, attempt=len(history)) for index in range(2)]
    return facts(js, jobs, [], lease=lease(), **known)


PLACE = {"pod": f"{POD}-x", "node": "node-3", "container": "main", "exitCode": 137}


row(
    "a crash loop, all Jobs ready again",
    (
        "restarted 3 times, 17 of 20 restarts left; attempt 2: Job train-workers-0, container main of pod"
        f" {POD}-x on node node-3, exit code 137"
    ),
    "jobset logs train -n team-a --job train-workers-0",
    lambda: looping(failed(0, 30), failed(1, 20), failed(2, 10, **PLACE)),
)


def gone(reason: str, note: str, **more: Any) -> JSON:
    return {**event(reason, note), "regarding": {"name": f"{POD}-x", "namespace": "team-a"}, **more}


@stuck(
    "restarted again and again because of preemption",
    "restarted 2 times, 18 of 20 restarts left; attempt 1: Job train-workers-0;"
    f" pod {POD}-x was preempted by pod team-b/urgent-workers-0-0-k8x2p",
)
def _() -> Facts:
    by = {"name": "urgent-workers-0-0-k8x2p", "namespace": "team-b"}
    ends = [gone("Preempted", "Preempted by pod 1234 on node node-3", related=by)]
    return looping(failed(0, 20), failed(1, 10), disruption_events=ends)


def replaced(*ends: JSON) -> Facts:
    return about_pod(unscheduled="0/2 nodes are available: 2 Insufficient cpu", known={"disruption_events": list(ends)})


row(
    "restarted after its pod was drained",
    (
        "restarted once, 19 of 20 restarts left; attempt 0: Job train-workers-0; its failed pod was gone by then, as one that"
        " is drained, preempted, evicted or deleted"
    ),
    "action: RestartJobSetAndIgnoreMaxRestarts, onJobFailureReasons: [PodFailurePolicy]",
    lambda: looping(failed(0, 10, message="BackoffLimitExceeded: Job has reached the specified backoff limit")),
)


@stuck(
    "a pod was preempted, and the next one waits",
    f"pod {POD}-x was preempted by pod team-b/urgent-workers-0-0-k8x2p",
    "a higher priorityClassName",
)
def _() -> Facts:
    by = {"name": "urgent-workers-0-0-k8x2p", "namespace": "team-b"}
    return replaced(gone("Preempted", "Preempted by pod 1234 on node node-3", related=by))


row(
    "a pod was evicted by the kubelet",
    f"pod {POD}-x was evicted: The node was low on resource: memory",
    f"kubectl describe pod -n team-a {POD}-x",
    lambda: replaced(gone("Evicted", "The node was low on resource: memory. ")),
)
row(
    "a pod was evicted because of a taint",
    f"pod {POD}-x was evicted, because its node got a taint with the effect NoExecute",
    "kubectl describe node NODE",
    lambda: replaced(gone("TaintManagerEviction", f"Marking for deletion Pod team-a/{POD}-x")),
)


def on_node(state: JSON | None, **spec: Any) -> Facts:
    """A pod that runs and is not ready, on a node in that state; None: it is gone."""
    js = a_set(**spec)
    job = started(js)
    pod = made(pod_of(job, node="node-3", containers=[{"name": "main", "ready": False, "state": {"running": {}}}]))
    found = None if state is None else msgspec.convert(state, SeenNode)
    return facts(js, [job], [pod], lease=lease(), nodes_by_name={"node-3": found})


def silent_node(ago: float) -> JSON:
    since = at(NOW - timedelta(seconds=ago))
    return node("node-3", {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": since})


row(
    "a node that no longer answers",
    f"Job train-workers-0: pod {POD} is on node node-3, which is unreachable",
    "kubectl delete pods -n team-a -l jobset.sigs.k8s.io/jobset-name=train --field-selector spec.nodeName=",
    lambda: on_node(silent_node(300)),
)
row(
    "a node that was deleted",
    f"Job train-workers-0: pod {POD} is on node node-3, which does not exist any more",
    "",
    lambda: on_node(None),
)
row(
    "a failed node, before failurePolicy.nodeFailure acts",
    f"Job train-workers-0: pod {POD} is on node node-3, which is unreachable",
    "",
    lambda: on_node(silent_node(60), failurePolicy={"maxRestarts": 3, "nodeFailure": {"afterSeconds": 120}}),
)


def restarting(state: JSON | None, *warnings: JSON, gone: bool = False, seconds: float = -60, **failed: Any) -> Facts:
    """A restart that waits for two pods on such a node, whose grace period is over in `seconds`. `gone`: their Job is."""
    policy = {"maxRestarts": 3, **({"nodeFailure": failed} if failed else {})}
    last = {"reason": "DefaultFailurePolicy", "startTime": at(MOMENT + timedelta(minutes=1))}
    js = a_set(failurePolicy=policy, status={"restarts": 1, "restartsCountTowardsMax": 1, "lastRestart": last})
    job = started(js)
    job["metadata"]["deletionTimestamp"] = at(MOMENT)
    pods = [made(pod_of(job, index, node="node-3")) for index in range(2)]
    for pod in pods:
        pod["metadata"]["deletionTimestamp"] = at(NOW + timedelta(seconds=seconds))
    known: JSON = {"leftover_pods": {"train-workers-0": tuple(pod["metadata"]["name"] for pod in pods)}} if gone else {}
    known |= {"ending_pods": tuple(msgspec.convert(pods, list[SeenPod])), "warnings": warnings}
    known["nodes_by_name"] = {"node-3": None if state is None else msgspec.convert(state, SeenNode)}
    return facts(js, [] if gone else [job], lease=lease(), **known)


row(
    "a restart that waits for pods on a node that no longer answers",
    (
        "it restarts (1 of at most 3 restarts counted): 1 Job of an earlier attempt still exists, 1 in deletion"
        f" (train-workers-0); each has to go first: pod {POD} and 1 more are being deleted on node node-3, which has the"
        " taint node.kubernetes.io/unreachable"
    ),
    (
        "once the machine is off or fenced: kubectl taint nodes node-3 node.kubernetes.io/out-of-service=nodeshutdown:"
        f"NoExecute; or kubectl delete pod -n team-a {POD} train-workers-0-1 --grace-period=0 --force, which risks two"
    ),
    lambda: restarting(silent_node(300)),
)
row(
    "a restart that waits for pods on a node that was deleted",
    (
        "2 pods of an earlier attempt are still ending (train-workers-0-0, train-workers-0-1), and 1 Job cannot be created"
        f" again yet; each waits for its own: pod {POD} and 1 more are being deleted on node node-3, which does not exist any"
        " more"
    ),
    "wait: Kubernetes deletes such pods within two minutes; or kubectl delete pod",
    lambda: restarting(None, gone=True),
)


@stuck(
    "stored while the webhooks were off",
    "stored without defaults, as no webhook was called: its pods have no DNS names and its pods have no index"
    " (spec.network.enableDNSHostnames, spec.replicatedJobs[0].template.spec.completionMode)",
    "kubectl get jobset train -n team-a -o yaml | sed '/^  resourceVersion:/d' | kubectl replace --force -f -",
)
def _() -> Facts:
    js = a_set()
    del js["spec"]["network"], js["spec"]["replicatedJobs"][0]["template"]["spec"]["completionMode"]
    return facts(js, [running(js, 0)], lease=lease())


row(
    "no manager runs",
    (
        "no manager holds the lease in namespace jobset-system (none runs, or one that runs may not take it): Jobs are"
        " neither created nor restarted nor placed"
    ),
    "kubectl -n jobset-system rollout restart deployment",
    lambda: facts(a_set(), lease=lease(ago=10800)),
)


@stuck(
    "a manager runs and lacks a right",
    "1 Job does not exist (yet): train-workers-0: a manager runs (manager-0 holds the lease) and has done nothing for"
    " 12 min; it is not ready: a right is missing, or a cache is not filled",
    "readyz?verbose",
)
def _() -> Facts:
    pod = {"metadata": {"name": "manager-0"}, "status": {"conditions": [condition("Ready", "", "", "False")]}}
    held = lease(holder="manager-0_1234")
    return facts(a_set(), lease=held, manager_pods=(msgspec.convert(pod, SeenPod),))
