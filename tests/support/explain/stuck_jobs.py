"""Stuck situations of Jobs that lack pods, or wait for others or for a name; see `tests/support/explain/stuck.py`."""

from dataclasses import replace

import msgspec

from diagnose.facts import Facts, SeenPod, SeenQuota
from diagnose.nodes import SeenNode
from kube.model.meta import Owner
from tests.support.explain.objects import MOMENT, at, event, facts, job_of, lease, made, pod_of
from tests.support.explain.stuck import JSON, POD, a_set, row, silent_node, started, stuck
from tests.support.objects.jobsets import rjob


def refused(note: str, jobs: int = 1, pods: int = 1, there: int = 0) -> Facts:
    """Jobs whose pods admission refuses; `there`: of each Job so many run."""
    js = a_set(rjob(replicas=jobs, parallelism=pods, completions=pods))
    made_jobs = [started(js, index, active=there) for index in range(jobs)]
    notes = [event("FailedCreate", note, about=job["metadata"]["uid"]) for job in made_jobs]
    return facts(js, made_jobs, [], job_warnings=notes, lease=lease())


@stuck(
    "a quota that is used up",
    "3 Jobs (train-workers-0, train-workers-1, train-workers-2): lack 6 of 6 pods: need 24 cpu, quota compute has 2"
    " left of 26",
    'kubectl patch quota compute -n team-a --type=merge -p \'{"spec":{"hard":{"requests.cpu":"48"}}}\'',
)
def _() -> Facts:
    amounts = "requested: requests.cpu=4, used: requests.cpu=24, limited: requests.cpu=26"
    return refused(f'Error creating: pods "{POD}-x" is forbidden: exceeded quota: compute, {amounts}', 3, 2)


@stuck(
    "a quota that the set uses up itself",
    "Job train-workers-0: lacks 4 of 8 pods: need 4 nvidia.com/gpu, quota gpus has 0 left of 4; its 8 pods need 8"
    " nvidia.com/gpu in all: they never run all at once",
    'raise it: kubectl patch quota gpus -n team-a --type=merge -p \'{"spec":{"hard":{"requests.nvidia.com/gpu":"8"}}}\';'
    " or request less, or run fewer pods, in a new JobSet",
)
def _() -> Facts:
    gpu = "requests.nvidia.com/gpu"
    amounts = f"requested: {gpu}=1, used: {gpu}=4, limited: {gpu}=4"
    return refused(f'Error creating: pods "{POD}-x" is forbidden: exceeded quota: gpus, {amounts}', pods=8, there=4)


def raised(note: str, hard: str, used: str) -> Facts:
    """A Job whose pod a quota has refused that allows this now."""
    quota = msgspec.convert({"status": {"hard": {"pods": hard}, "used": {"pods": used}}}, SeenQuota)
    return replace(refused(note), quotas={"few": quota})


FEW = f'Error creating: pods "{POD}-x" is forbidden: exceeded quota: few, requested: pods=1, used: pods=3, limited: pods=3'
row(
    "a quota that was raised after it refused pods",
    "Job train-workers-0: lacks 1 of 1 pod: needs 1 pods, quota few has 3 left of 6 and allows that now",
    "wait: the Job controller tries again by itself soon",
    lambda: raised(FEW, "6", "3"),
)


@stuck(
    "a quota of Jobs",
    "1 Job does not exist (yet): train-workers-0: each needs 1 count/jobs.batch, quota jobs has 0 left of 2",
    '{"spec":{"hard":{"count/jobs.batch":"3"}}}',
)
def _() -> Facts:
    amounts = "requested: count/jobs.batch=1, used: count/jobs.batch=2, limited: count/jobs.batch=2"
    note = f'jobs.batch "train-workers-0" is forbidden: exceeded quota: jobs, {amounts}'
    return facts(a_set(), warnings=[event("JobCreationFailed", note)], lease=lease())


NO_RIGHT = (
    'job "train-workers-0" creation failed with error: jobs.batch is forbidden: User "system:serviceaccount:jobset-system:'
    'jobset-controller-manager" cannot create resource "jobs" in API group "batch" in the namespace "team-a"'
)
row(
    "a manager without the right to create Jobs",
    f"1 Job does not exist (yet): train-workers-0: {NO_RIGHT}",
    "kubectl apply --server-side --force-conflicts -k manifests/rbac gives it its rights back; it tries again by itself",
    lambda: facts(a_set(), warnings=[event("JobCreationFailed", NO_RIGHT)], lease=lease()),
)


def lacks(note: str) -> str:
    return f"Job train-workers-0: lacks 1 of 1 pod: FailedCreate: {note}"


NO_ACCOUNT = (
    f'Error creating: pods "{POD}-" is forbidden: error looking up service account team-a/trainer: serviceaccount'
    ' "trainer" not found'
)
NO_PRIORITY = f'Error creating: pods "{POD}-" is forbidden: no PriorityClass with name high was found'
TOO_OPEN = f'Error creating: pods "{POD}-" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'
NO_RUNTIME = f'Error creating: pods "{POD}-" is forbidden: pod rejected: RuntimeClass "gvisor" not found'
row(
    "a ServiceAccount that is missing",
    lacks(NO_ACCOUNT),
    "kubectl create serviceaccount trainer -n team-a",
    lambda: refused(NO_ACCOUNT),
)
row(
    "a PriorityClass that is missing",
    lacks(NO_PRIORITY),
    "an administrator of the cluster run kubectl create priorityclass high",
    lambda: refused(NO_PRIORITY),
)
row(
    "a RuntimeClass that is missing",
    lacks(NO_RUNTIME),
    "create RuntimeClass gvisor",
    lambda: refused(NO_RUNTIME),
)
row(
    "a pod that the namespace's pod security refuses",
    lacks(TOO_OPEN),
    "kubectl label ns team-a pod-security",
    lambda: refused(TOO_OPEN),
)


def failed_pod(job: JSON, index: int = 0, code: int = 1, reason: str = "Error", **ended: str) -> JSON:
    """A pod that has failed because of its container."""
    end = {"exitCode": code, "reason": reason, "finishedAt": at(MOMENT), **ended}
    status = {"name": "main", "ready": False, "state": {"terminated": end}}
    return made(pod_of(job, index, node="node-1", phase="Failed", containers=[status]))


AGAIN = (
    "kubectl get jobset train -n team-a -o yaml | sed '/^  resourceVersion:/d' > train-new.yaml, change train-new.yaml, and kubectl replace --force -f train-new.yaml"
    " deletes the JobSet and creates it again"
)
TOO_LARGE = f'pods "{POD}-" is forbidden: maximum cpu usage per Container is 2, but limit is 4'
NO_REQUESTS = f'Error creating: pods "{POD}-" is forbidden: failed quota: compute: must specify requests.cpu for: main'
row(
    "a pod that is larger than a LimitRange allows",
    lacks(TOO_LARGE),
    f"request as much as they allow: {AGAIN}",
    lambda: refused(TOO_LARGE),
)
row(
    "a pod without the requests that a quota counts",
    lacks(NO_REQUESTS),
    f"that the message names: {AGAIN}",
    lambda: refused(NO_REQUESTS),
)


@stuck(
    "a Job that the Job controller has not taken up", "Job train-workers-0: has no pods (yet), and no Warning says why"
)
def _() -> Facts:
    js = a_set()
    return facts(js, [started(js, active=0)], [], lease=lease())


@stuck(
    "pods that fail, with a pause before the next one",
    f"Job train-workers-0: 0 of 1 pod ready; pod {POD} has failed: container main, exit code 1; 3 failures, backoffLimit"
    " allows 6",
    "jobset logs train -n team-a --job train-workers-0 shows what it wrote; the Job controller makes the next pod after",
)
def _() -> Facts:
    js = a_set()
    job = started(js, active=0, failed=3)
    job["spec"]["backoffLimit"] = 6
    return facts(js, [job], [failed_pod(job)], lease=lease())


NO_SERVICE = (
    'services is forbidden: User "system:serviceaccount:jobset-system:jobset-controller-manager" cannot create resource'
    ' "services" in API group "" in the namespace "team-a"'
)
row(
    "a manager without the right to create the Service",
    f"1 Job does not exist (yet): train-workers-0: {NO_SERVICE}",
    "kubectl apply --server-side --force-conflicts -k manifests/rbac gives it its rights back; it tries again by itself",
    lambda: facts(a_set(), warnings=[event("HeadlessServiceCreationFailed", NO_SERVICE)], lease=lease()),
)


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
    lambda: facts(a_set(), foreign_owners={"train-workers-0": Owner("CronJob", "nightly")}, lease=lease()),
)


def earlier(state: JSON | None) -> Facts:
    """A set whose only Job's name has a Job of an earlier set, the pod of which is being deleted on such a node."""
    js = a_set()
    pod = made(pod_of(started(js), node="node-3"))
    pod["metadata"]["deletionTimestamp"] = at(MOMENT)
    known = {"node-3": None if state is None else msgspec.convert(state, SeenNode)}
    taken = {"train-workers-0": Owner("JobSet", "train")}
    pods = (msgspec.convert(pod, SeenPod),)
    return facts(js, foreign_owners=taken, lease=lease(), namesake_pods=pods, nodes_by_name=known)


row(
    "a Job of an earlier JobSet of this name whose pod is on a node that no longer answers",
    (
        "Job train-workers-0: cannot be created yet, the Job of an earlier JobSet of this name is still there:"
        f" pod {POD} is being deleted on node node-3, which has the taint node.kubernetes.io/unreachable"
    ),
    f"or kubectl delete pod -n team-a {POD} --grace-period=0 --force, which risks two processes for one rank",
    lambda: earlier(silent_node(300)),
)


CONTESTED = (
    "Job train-workers-0 was resumed and is suspended again by field manager kueue: the manager resumes such Jobs after a"
    " pause, which grows to 5 min while this goes on"
)


@stuck(
    "a Job that another controller suspends again and again",
    f"Job train-workers-0: is still suspended: {CONTESTED}",
    "To suspend the set, set spec.suspend of the JobSet; else have that controller leave the Jobs of JobSets alone",
)
def _() -> Facts:
    js = a_set()
    job = started(js, active=0)
    job["spec"]["suspend"] = True
    advice = (
        "To suspend the set, set spec.suspend of the JobSet; else have that controller leave the Jobs of JobSets alone"
    )
    return facts(js, [job], [], warnings=[event("JobsSuspendedAgain", f"{CONTESTED}. {advice}")], lease=lease())
