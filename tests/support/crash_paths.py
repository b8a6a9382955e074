"""The paths of a JobSet's life that `crash.run` can play: for each, a manifest and what its user and its pods do."""

from __future__ import annotations

from typing import Any

from api.keys import IN_PLACE_RESTART_ATTEMPT, JOB_UID
from controllers.resources import JOBSETS
from kube.resources import JOBS, PODS, SERVICES
from simcluster.job_status import condition
from tests.support.jobs import group, manifest
from tests.support.kills import Path, Step
from tests.support.played import NOW, PlayedCluster, Snapshot

DNS = {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
FIRST, SECOND = "js-workers-0", "js-workers-1"
TPU, GPU = ({"nodeSelector": {"pool": pool}} for pool in ("tpu", "gpu"))


def complete(*names: str) -> Step:
    """The pods of these Jobs succeed, of all at once."""

    async def step(world: PlayedCluster, seen: Snapshot) -> None:
        world.at_once(JOBS, *names)
        for name in names:
            done = seen.one(JOBS, name)["spec"].get("completions", 1)
            await _end(world, seen, name, ("SuccessCriteriaMet", "Complete"), succeeded=done, completionTime=NOW)

    return step


def fail(*names: str) -> Step:
    """A pod of each of these Jobs fails, and with it the Job, of all at once."""

    async def step(world: PlayedCluster, seen: Snapshot) -> None:
        world.at_once(JOBS, *names)
        for name in names:
            await _end(world, seen, name, ("FailureTarget", "Failed"), failed=1)

    return step


def doom(name: str) -> Step:
    """A pod of the Job fails, and with it the Job, while its other pods still end."""

    async def step(world: PlayedCluster, _: Snapshot) -> None:
        status = {"conditions": [condition("FailureTarget", NOW, "BackoffLimitExceeded")]}
        await world.patch(JOBS, name, {"status": status}, "status")

    return step


def exit_with(pod: str, code: int) -> Step:
    """The one container of a pod ends."""

    async def step(world: PlayedCluster, _: Snapshot) -> None:
        ended = {"terminated": {"exitCode": code, "reason": "Error", "finishedAt": NOW, "startedAt": NOW}}
        main = {"name": "main", "image": "busybox", "imageID": "", "ready": False, "restartCount": 0, "state": ended}
        await world.patch(PODS, pod, {"status": {"phase": "Failed", "containerStatuses": [main]}}, "status")

    return step


def edit(**spec: Any) -> Step:
    """The user changes the spec."""

    async def step(world: PlayedCluster, _: Snapshot) -> None:
        await world.patch(JOBSETS, "js", {"spec": spec})

    return step


def delete_job(name: str) -> Step:
    """A person, or the Job's own time to live, deletes a Job."""

    async def step(world: PlayedCluster, _: Snapshot) -> None:
        await world.delete(JOBS, name, "Background")

    return step


async def delete_service(world: PlayedCluster, _: Snapshot) -> None:
    await world.delete(SERVICES, "js", "Background")


async def start_pods(world: PlayedCluster, seen: Snapshot) -> None:
    """Each Job's one pod comes up, with an in-place restart agent in it."""
    for job in seen.of(JOBS):
        await _start_pod(world, job)


async def start_on_no_node(world: PlayedCluster, seen: Snapshot) -> None:
    """The pod of the first Job comes up on a node that does not exist any more."""
    await _start_pod(world, seen.one(JOBS, FIRST), nodeName="gone")


async def replace_by_pending(world: PlayedCluster, seen: Snapshot) -> None:
    """The pod of the first Job is gone, and the one in its place pends."""
    await _start_pod(world, seen.one(JOBS, FIRST), phase="Pending")
    await world.patch(JOBS, FIRST, {"status": {"ready": 0}}, "status")


async def _start_pod(world: PlayedCluster, job: dict[str, Any], phase: str = "Running", **spec: str) -> None:
    meta = job["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
    labels = {**meta["labels"], JOB_UID: meta["uid"]}
    pod = {"name": meta["name"], "labels": labels, "ownerReferences": [owner]}
    await world.create(PODS, {"metadata": pod, "spec": {**job["spec"]["template"]["spec"], **spec}})
    await world.patch(PODS, meta["name"], {"status": {"phase": phase}}, "status")


def report(job: str, attempt: int) -> Step:
    """The agent in the pod of that Job is about to run an attempt."""

    async def step(world: PlayedCluster, _: Snapshot) -> None:
        await world.patch(PODS, job, {"metadata": {"annotations": {IN_PLACE_RESTART_ATTEMPT: str(attempt)}}})

    return step


async def _end(world: PlayedCluster, seen: Snapshot, name: str, kinds: tuple[str, str], **counts: Any) -> None:
    job = seen.one(JOBS, name)
    assert job["status"].get("active"), f"{name} runs no pods that could end"
    old = job["status"].get("conditions", [])
    status = {
        "active": 0,
        "ready": 0,
        "conditions": [*old, *(condition(kind, NOW, "BackoffLimitExceeded") for kind in kinds)],
        "uncountedTerminatedPods": {},
        **counts,
    }
    await world.patch(JOBS, name, {"status": status}, "status")


# The paths


def workers(name: str = "workers", replicas: int = 2, **extra: Any) -> dict[str, Any]:
    job = {"completionMode": "Indexed", **extra.pop("job", {})}
    return group(name, replicas=replicas, job=job, **extra)


def restarting(strategy: str = "Recreate", maximum: int = 2, action: str = "", **rule: Any) -> dict[str, Any]:
    rules = [{"name": "rule", "action": action, **rule}] if action else []
    return {"maxRestarts": maximum, "restartStrategy": strategy, "rules": rules}


def claim(name: str) -> dict[str, Any]:
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": size}


NODES = {"nodeFailure": {"afterSeconds": 1}, "avoidNodes": {"forSeconds": 8}}
STEPS = [{"afterRestarts": 1, "action": action} for action in ("RestartJobSet", "FailJobSet")]
ORDER = {"startupPolicyOrder": "InOrder"}
STAGES = (workers("first", 1), workers("workers"))
CHAIN = (
    workers("first", 1),
    workers("second", 1, dependsOn=[{"name": "first", "status": "Ready"}]),
    workers("third", 1, dependsOn=[{"name": "second", "status": "Complete"}]),
)
SEQUENCE = (workers("first", 1), workers("second", 1), workers("third", 1))
CLAIMS = [
    {"templates": [claim("scratch")], "retentionPolicy": {"whenDeleted": "Delete"}},
    {"templates": [claim("data")], "retentionPolicy": {"whenDeleted": "Retain"}},
]
BOTH = complete(FIRST), complete(SECOND)
RESTARTING = manifest(workers(), failurePolicy=restarting())
RESTARTED = "2 Jobs, 2 ready, 2 pods, 1 restarts"
TWICE = tuple(report(name, attempt) for attempt in (0, 1) for name in (FIRST, SECOND))


def in_stages(state: str = "Succeeded") -> dict[str, str]:
    return {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": state}


def by_exit_code(action: str) -> dict[str, Any]:
    """What to do on exit code 3; on any other the set fails."""
    rule = {"name": "three", "action": action, "onExitCodes": {"operator": "In", "values": [3]}, "maxRestarts": 1}
    return {"maxRestarts": 5, "rules": [rule, {"name": "other", "action": "FailJobSet"}]}


STOP, START = edit(suspend=True), edit(suspend=False)
MOVED = edit(suspend=False, replicatedJobs=[workers(pod=GPU)])
LARGER = {"containers": [{"name": "main", "image": "busybox", "resources": {"limits": {"cpu": "2"}}}]}

GANGS = frozenset({"JobSetWorkloadAwareSchedulingAPI", "JobSetGangOfGangs"})
CUBES = {
    "schedulingPolicy": {"gang": {}},
    "replicatedJobs": [{"targetReplicatedJobs": ["workers"], "job": {"disruptionMode": {"all": {}}}}],
}
"""A composite over a PodGroup for each Job."""
PATHS = (
    Path("create", "2 Jobs, 2 ready, 2 pods", manifest(workers(), network=DNS)),
    Path("create-suspended", "2 Jobs, 0 ready, 0 pods", manifest(workers(), network=DNS, suspend=True)),
    Path("create-in-order", "3 Jobs, 3 ready, 3 pods", manifest(*STAGES, startupPolicy=ORDER)),
    Path("create-claims", "2 Jobs, 2 ready, 2 pods", manifest(workers(), volumeClaimPolicies=CLAIMS)),
    Path("success", "Completed, 2 Jobs, 0 ready, 0 pods", manifest(workers()), BOTH),
    Path(
        "success-of-any",
        "Completed, 1 Jobs, 0 ready, 0 pods",
        manifest(workers(), successPolicy={"operator": "Any"}),
        (complete(SECOND),),
    ),
    Path("fail", "Failed, 1 Jobs, 0 ready, 0 pods", manifest(workers()), (fail(SECOND),)),
    Path("restart", RESTARTED, RESTARTING, (fail(FIRST),)),
    Path(
        "restart-blocking",
        RESTARTED,
        manifest(workers(), failurePolicy=restarting("BlockingRecreate")),
        (fail(FIRST),),
    ),
    Path("restart-after-success", RESTARTED, RESTARTING, (complete(FIRST), fail(SECOND))),
    Path(
        "restarts-used-up",
        "Failed, 1 Jobs, 0 ready, 0 pods, 1 restarts",
        manifest(workers(), failurePolicy=restarting(maximum=1)),
        (fail(FIRST), fail(SECOND)),
    ),
    Path(
        "restart-job",
        "Failed, 1 Jobs, 0 ready, 0 pods, 2 job restarts",
        manifest(workers(), failurePolicy=restarting(action="RestartJob")),
        (fail(FIRST), fail(FIRST), fail(SECOND)),
        frozenset({"RestartJob"}),
    ),
    Path(
        "restart-jobs-at-once",
        "Completed, 2 Jobs, 0 ready, 0 pods, 2 job restarts",
        manifest(workers(), failurePolicy=restarting(action="RestartJobAndIgnoreMaxRestarts")),
        (fail(FIRST, SECOND), *BOTH),
        frozenset({"RestartJob"}),
    ),
    Path("suspend", "2 Jobs, 0 ready, 0 pods", manifest(workers()), (STOP,)),
    Path("resume", "2 Jobs, 2 ready, 2 pods", manifest(workers(pod=TPU)), (STOP, START)),
    Path("resume-elsewhere", "2 Jobs, 2 ready, 2 pods", manifest(workers(pod=TPU)), (STOP, MOVED)),
    Path("created-suspended", "2 Jobs, 2 ready, 2 pods", manifest(workers(pod=TPU), suspend=True), (MOVED,)),
    Path(
        "in-order-restarted",
        "3 Jobs, 3 ready, 3 pods, 1 restarts",
        manifest(*STAGES, startupPolicy=ORDER, failurePolicy=restarting()),
        (fail("js-first-0"),),
    ),
    Path(
        "created-late",
        "2 Jobs, 2 ready, 2 pods",
        manifest(workers(), network=DNS, suspend=True),
        (START,),
        create_suspended=False,
    ),
    Path(
        "resume-larger",
        "2 Jobs, 2 ready, 2 pods",
        manifest(workers(), suspend=True),
        (edit(suspend=False, replicatedJobs=[workers(pod=LARGER)]),),
        frozenset({"MutablePodResourcesForSuspendedJobSets", "ExecutionAttemptsTracking"}),
    ),
    Path("in-order-resumed", "3 Jobs, 3 ready, 3 pods", manifest(*STAGES, startupPolicy=ORDER, suspend=True), (START,)),
    Path("depends-on", "3 Jobs, 2 ready, 2 pods", manifest(*CHAIN), (complete("js-second-0"),)),
    Path("depends-on-restarted", RESTARTED, manifest(*CHAIN, failurePolicy=restarting()), (fail("js-second-0"),)),
    Path(
        "deadline",
        "Failed, 0 Jobs, 0 ready, 0 pods",
        manifest(workers(), suspend=True, activeDeadlineSeconds=3),
        (START,),
        frozenset({"JobSetActiveDeadlineSeconds"}),
    ),
    Path("time-to-live", "gone", manifest(workers(), network=DNS, ttlSecondsAfterFinished=1), BOTH),
    Path("claims", "gone", manifest(workers(), volumeClaimPolicies=CLAIMS, ttlSecondsAfterFinished=0), BOTH),
    Path("service-deleted", "2 Jobs, 2 ready, 2 pods", manifest(workers(), network=DNS), (delete_service,)),
    Path("job-deleted", "2 Jobs, 2 ready, 2 pods", manifest(workers()), (delete_job(FIRST),)),
    Path(
        "done-job-deleted",
        "Completed, 1 Jobs, 0 ready, 0 pods",
        manifest(workers()),
        (complete(FIRST), delete_job(FIRST), complete(SECOND)),
    ),
    Path(
        "elastic-jobs",
        "2 Jobs, 2 ready, 4 pods",
        manifest(workers()),
        (edit(replicatedJobs=[workers(pods_per_job=3)]), edit(replicatedJobs=[workers(pods_per_job=2)])),
        frozenset({"ElasticJobSet"}),
    ),
    Path(
        "elastic-replicas",
        "2 Jobs, 2 ready, 2 pods",
        manifest(workers(replicas=1), workers("other", 1)),
        (
            edit(replicatedJobs=[workers(replicas=3), workers("other", 1)]),
            edit(replicatedJobs=[workers(replicas=1), workers("other", 1)]),
        ),
        frozenset({"ElasticJobSet"}),
    ),
    Path(
        "stages",
        "3 Jobs, 1 ready, 1 pods",
        manifest(*SEQUENCE, executionPolicy=in_stages()),
        (complete("js-first-0"), complete("js-second-0")),
    ),
    Path(
        "stages-restarted",
        "3 Jobs, 3 ready, 3 pods, 1 restarts",
        manifest(*SEQUENCE, executionPolicy=in_stages("Ready"), failurePolicy=restarting()),
        (fail("js-second-0"),),
    ),
    Path(
        "stages-resumed",
        "2 Jobs, 1 ready, 1 pods",
        manifest(*SEQUENCE, executionPolicy=in_stages()),
        (complete("js-first-0"), STOP, START),
    ),
    Path(
        "share",
        "Completed, 2 Jobs, 0 ready, 0 pods",
        manifest(workers(replicas=3), successPolicy={"operator": "All", "minSucceeded": "51%"}),
        (complete(SECOND), complete(FIRST)),
    ),
    Path(
        "restart-replicated-job",
        "3 Jobs, 3 ready, 3 pods, 2 job restarts",
        manifest(workers(), workers("other", 1), failurePolicy=restarting(action="RestartReplicatedJob")),
        (complete(SECOND), fail(FIRST)),
        frozenset({"RestartJob"}),
    ),
    Path(
        "doomed",
        RESTARTED,
        manifest(workers(), failurePolicy={**restarting(), "failOn": "FailureTarget"}),
        (doom(FIRST),),
    ),
    Path(
        "node-gone",
        RESTARTED,
        manifest(workers(), failurePolicy={**restarting(), **NODES}),
        (start_on_no_node,),
        frozenset({"JobSetNodeFailure", "JobSetAvoidNodes"}),
        timers=True,
    ),
    Path(
        "start-timeout",
        RESTARTED,
        manifest(workers(), failurePolicy={**restarting(), "startTimeoutSeconds": 1}),
        (replace_by_pending,),
        frozenset({"JobSetStartTimeout"}),
        timers=True,
    ),
    Path(
        "escalation",
        "Failed, 1 Jobs, 0 ready, 0 pods, 1 restarts, 1 job restarts",
        manifest(workers(), failurePolicy=restarting(action="RestartJob", then=STEPS)),
        (fail(FIRST), fail(FIRST), fail(SECOND)),
        frozenset({"RestartJob", "JobSetFailureEscalation", "JobSetRecoveryTimes"}),
    ),
    Path(
        "exit-codes",
        "Failed, 1 Jobs, 0 ready, 0 pods, 1 restarts",
        manifest(workers(), failurePolicy=by_exit_code("RestartJobSet")),
        (start_pods, exit_with(FIRST, 3), fail(FIRST), start_pods, exit_with(SECOND, 3), fail(SECOND)),
    ),
    Path(
        "restart-large",
        "3 Jobs, 3 ready, 3 pods, 1 restarts",
        manifest(workers(replicas=3), failurePolicy=restarting()),
        (start_pods, fail(FIRST)),
        large=3,
    ),
    Path(
        "blocking-restart-large",
        "3 Jobs, 3 ready, 3 pods, 1 restarts",
        manifest(workers(replicas=3), failurePolicy=restarting("BlockingRecreate")),
        (start_pods, fail(FIRST)),
        large=3,
    ),
    Path("gang", "2 Jobs, 2 ready, 2 pods", manifest(workers(), scheduling=CUBES), (), GANGS),
    Path(
        "gang-restarted",
        RESTARTED,
        manifest(workers(), scheduling=CUBES, failurePolicy=restarting()),
        (complete(FIRST), fail(SECOND)),
        GANGS,
    ),
    Path("gang-resumed", "2 Jobs, 2 ready, 2 pods", manifest(workers(), scheduling=CUBES), (STOP, START), GANGS),
    Path(
        "in-place-restart",
        "2 Jobs, 2 ready, 2 pods, 0 before 1 in place",
        manifest(workers(), failurePolicy=restarting("InPlaceRestart")),
        (start_pods, *TWICE),
        frozenset({"InPlaceRestart"}),
    ),
    Path(
        "in-place-restarts-used-up",
        f"{RESTARTED}, 0 before 1 in place",
        manifest(workers(), failurePolicy={**restarting("InPlaceRestart"), "inPlaceRestarts": 1}),
        (start_pods, *TWICE, report(FIRST, 2)),
        frozenset({"InPlaceRestart", "JobSetFailureEscalation"}),
    ),
)
