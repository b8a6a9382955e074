"""The paths of a JobSet's life that `crash.run` can play: for each, a manifest and what its user and its pods do."""

from typing import Any

from api.keys import EXCLUSIVE_TOPOLOGY
from tests.support.cluster.jobs import group, manifest
from tests.support.played.crash_steps import (
    FIRST,
    MAINTENANCE_TAINT,
    SECOND,
    acknowledge,
    bind_first_pod,
    bind_to_domain,
    complete,
    delete_job,
    delete_service,
    doom,
    edit,
    end_deleted_pods,
    evict_first_pod,
    exit_with,
    fail,
    has_notice,
    hold_domain,
    hold_place,
    lead_follower,
    lose_node_of_first_pod,
    replace_by_held_back,
    replace_by_pending,
    replace_by_unschedulable,
    replace_domain_by_held_back,
    report,
    start_alone_on_no_node,
    start_domain_on_no_node,
    start_first_pod,
    start_on_no_node,
    start_on_node,
    start_pods,
    taint_node,
)
from tests.support.played.kills import Early, Path, Step

DNS = {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
TPU, GPU = ({"nodeSelector": {"pool": pool}} for pool in ("tpu", "gpu"))


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
DROPPED = NODES | {"avoidNodes": {"forSeconds": 3600, "dropAfterSeconds": 1}}
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
IN_PLACE = "2 Jobs, 2 ready, 2 pods, 0 before 1 in place"
TWICE = tuple(report(name, attempt) for attempt in (0, 1) for name in (FIRST, SECOND))


def in_stages(state: str = "Succeeded") -> dict[str, str]:
    return {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": state}


def by_exit_code(action: str) -> dict[str, Any]:
    """What to do on exit code 3; on any other the set fails."""
    rule = {"name": "three", "action": action, "onExitCodes": {"operator": "In", "values": [3]}, "maxRestarts": 1}
    return {"maxRestarts": 5, "rules": [rule, {"name": "other", "action": "FailJobSet"}]}


def leaves_node(name: str, announce: Step, move: Early | None = None) -> Path:
    """The set leaves the node of its first pod by a restart that does not count: in place when `move` has happened."""
    strategy = "InPlaceRestart" if move else "Recreate"
    notice = {"signal": "SIGUSR1", "waitSeconds": 600 if move else 1}
    policy = {"maintenance": {"taintKeys": [MAINTENANCE_TAINT], "notice": notice}, **restarting(strategy, 0)}
    steps = (start_on_node, announce, end_deleted_pods)
    if move:
        steps = (start_on_node, *TWICE[:2], announce, move, end_deleted_pods, start_first_pod, *TWICE[2:])
    gates = frozenset({"JobSetNodeMaintenance", "InPlaceRestart"})
    ends = IN_PLACE if move else RESTARTED
    return Path(name, ends, manifest(workers(), failurePolicy=policy), steps, gates, timers=True)


SPARES = frozenset({"JobSetNodeFailure", "JobSetSpares"})
TAKES_PLACE = replace_by_held_back, bind_first_pod
TAKES_DOMAIN = bind_to_domain(0), lead_follower, bind_to_domain(1)


def with_spare(pods_per_job: int = 1, **spec: Any) -> dict[str, Any]:
    """Two workers and a spare for them, each a Job of so many pods: of two, alone in a domain."""
    made = manifest(
        workers(pods_per_job=pods_per_job), workers("spare", 1, pods_per_job=pods_per_job, spareFor="workers"), **spec
    )
    if pods_per_job > 1:
        made["metadata"]["annotations"] = {EXCLUSIVE_TOPOLOGY: "rack"}
    return made


def takes_place(name: str, *steps: Step, pods_per_job: int = 1, **spec: Any) -> Path:
    """The node of the first Job is lost, and the next pods of that Job come to the place of the spare."""
    made = with_spare(pods_per_job, failurePolicy={**restarting(), **NODES}, **spec)
    ends = f"3 Jobs, 3 ready, {3 * pods_per_job} pods, 1 restarts"
    return Path(name, ends, made, steps, SPARES | GANGS if "scheduling" in spec else SPARES, timers=True)


STOP, START = edit(suspend=True), edit(suspend=False)
MOVED = edit(suspend=False, replicatedJobs=[workers(pod=GPU)])
LARGER = {"containers": [{"name": "main", "image": "busybox", "resources": {"limits": {"cpu": "2"}}}]}

GANGS = frozenset({"JobSetWorkloadAwareSchedulingAPI", "JobSetGangOfGangs"})
CUBES = {
    "schedulingPolicy": {"gang": {}},
    "replicatedJobs": [{"targetReplicatedJobs": ["workers"], "job": {"disruptionMode": {"all": {}}}}],
}
"""A composite over a PodGroup for each Job."""
DOMAINS = {
    "schedulingPolicy": {"gang": {}},
    "replicatedJobs": [
        {"targetReplicatedJobs": ["workers"], "job": {"schedulingConstraints": {"topology": [{"key": "rack"}]}}}
    ],
}
"""Each Job has a domain of its own, so a spare stands in for the Job with its index alone."""
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
    takes_place("spares", hold_place, start_on_no_node, *TAKES_PLACE),
    takes_place(
        "spares-domain",
        hold_domain,
        start_domain_on_no_node,
        replace_domain_by_held_back,
        *TAKES_DOMAIN,
        pods_per_job=2,
    ),
    takes_place("spares-gang", hold_place, start_on_no_node, *TAKES_PLACE, scheduling=CUBES),
    takes_place("spares-gang-domains", hold_place, start_alone_on_no_node, *TAKES_PLACE, scheduling=DOMAINS),
    Path(
        "spares-gang-unschedulable",
        "3 Jobs, 3 ready, 3 pods",
        with_spare(scheduling=CUBES),
        (hold_place, replace_by_unschedulable, end_deleted_pods, bind_first_pod),
        SPARES | GANGS,
        timers=True,
    ),
    Path(
        "avoided-node-dropped",
        RESTARTED,
        manifest(workers(), failurePolicy={**restarting(), **DROPPED}),
        (start_on_no_node, replace_by_pending),
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
        IN_PLACE,
        manifest(workers(), failurePolicy=restarting("InPlaceRestart")),
        (start_pods, *TWICE),
        frozenset({"InPlaceRestart"}),
    ),
    Path(
        "in-place-node-gone",
        IN_PLACE,
        manifest(workers(), failurePolicy={**restarting("InPlaceRestart"), "nodeFailure": {"afterSeconds": 1}}),
        (start_pods, *TWICE[:2], lose_node_of_first_pod, start_first_pod, *TWICE[2:]),
        frozenset({"InPlaceRestart", "JobSetNodeFailure"}),
        timers=True,
    ),
    Path(
        "in-place-restarts-used-up",
        f"{RESTARTED}, 0 before 1 in place",
        manifest(workers(), failurePolicy={**restarting("InPlaceRestart"), "inPlaceRestarts": 1}),
        (start_pods, *TWICE, report(FIRST, 2)),
        frozenset({"InPlaceRestart", "JobSetFailureEscalation"}),
    ),
    leaves_node("pod-evicted", evict_first_pod),
    leaves_node("node-tainted", taint_node),
    leaves_node("in-place-pod-evicted", evict_first_pod, Early(acknowledge, has_notice)),
    leaves_node("in-place-pod-evicted-ended", evict_first_pod, Early(end_deleted_pods, has_notice)),
    leaves_node("in-place-node-tainted", taint_node, Early(acknowledge, has_notice)),
)
