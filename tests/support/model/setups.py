"""The JobSets that random histories run on: every policy, order and gate, and what a queue changes while one is suspended.

Small on purpose: at most three ReplicatedJobs of three Jobs. Must not do anything to a cluster.
"""

from hypothesis import strategies as st
from msgspec.structs import replace

from api import keys
from api.failure_actions import ACTIONS
from api.jobset import JobSet, ReplicatedJob
from tests.support.model.failing_nodes import DRAIN
from tests.support.objects.stored_sets import jobset, rjob

NAMES = ("a", "b", "c")
ACTION = st.sampled_from([*ACTIONS])
THEN = st.lists(
    st.fixed_dictionaries(
        {"afterRestarts": st.sampled_from([1, 1, 2]), "action": ACTION},
        optional={"withinSeconds": st.sampled_from([3, 20])},
    ),
    min_size=1,
    max_size=2,
)
"""Steps of a rule, those that admission would refuse included."""
RULES = st.fixed_dictionaries(
    {
        "action": ACTION,
        "targetReplicatedJobs": st.sampled_from([[], [], ["a"], ["b"]]),
        "onJobFailureReasons": st.sampled_from([[], [], ["PodFailurePolicy"]]),
        "onJobFailureMessagePatterns": st.sampled_from([[], [], ["^boo"]]),
    },
    optional={
        "onExitCodes": st.fixed_dictionaries({"operator": st.sampled_from(["In", "NotIn"]), "values": st.just([3])}),
        "onPodReasons": st.just(["Evicted"]),
        "maxRestarts": st.sampled_from([0, 1, 2]),
        "then": THEN,
    },
)
RULES_FOR_A_PART = st.fixed_dictionaries(
    {"action": st.sampled_from(["RestartReplicatedJob", "RestartReplicatedJob", "RestartJob"])},
    optional={
        "targetReplicatedJobs": st.just(["a"]),
        "onExitCodes": st.fixed_dictionaries({"operator": st.sampled_from(["In", "NotIn"]), "values": st.just([3])}),
        "maxRestarts": st.sampled_from([1, 2]),
        "then": THEN,
    },
)
NODE_FAILURES = st.fixed_dictionaries(
    {"afterSeconds": st.sampled_from([0, 2]), "forceDeletePods": st.booleans()},
    optional={
        "action": ACTION,
        "whenNoCapacity": st.sampled_from([{"shrinkAfterSeconds": 2}, {"shrinkAfterSeconds": 4}]),
    },
)
AVOIDED = st.fixed_dictionaries(
    {"dropAfterSeconds": st.just(3)},
    optional={
        "afterFailures": st.just(2),
        "forSeconds": st.sampled_from([1, 5]),
        "maxNodes": st.just(1),
        "scope": st.just("Domain"),
        "onExitCodes": st.just({"operator": "In", "values": [3]}),
        "onPodReasons": st.just(["Evicted"]),
    },
)
MAINTENANCE = st.fixed_dictionaries(
    {"taintKeys": st.just([DRAIN])},
    optional={
        "notice": st.sampled_from([{"waitSeconds": 0}, {"waitSeconds": 3}, {"waitSeconds": 9, "signal": "SIGUSR1"}])
    },
)
BACK_IN_SECONDS = {
    "maintenance": MAINTENANCE,
    "nodeFailure": NODE_FAILURES,
    "avoidNodes": AVOIDED,
    "startTimeoutSeconds": st.sampled_from([2, 5]),
    "inPlaceRestarts": st.sampled_from([1, 2]),
}
"""What a failure policy may say about nodes, late pods and restarts in place."""
POLICIES = st.fixed_dictionaries(
    {
        "maxRestarts": st.sampled_from([0, 1, 2, 5, 9]),
        "restartStrategy": st.sampled_from(["Recreate", "BlockingRecreate", "InPlaceRestart"]),
        "rules": st.lists(RULES, max_size=2),
        "failOn": st.sampled_from(["", "JobFailed", "FailureTarget"]),
    },
    optional=BACK_IN_SECONDS,
)
SUCCESS = st.fixed_dictionaries(
    {"operator": st.sampled_from(["All", "Any"]), "targetReplicatedJobs": st.sampled_from([[], ["a"], ["b"]])}
)
GATES = (
    "RestartJob",
    "ElasticJobSet",
    "ExecutionAttemptsTracking",
    "MutablePodResourcesForSuspendedJobSets",
    "JobSetActiveDeadlineSeconds",
    "JobSetNodeFailure",
    "JobSetNodeMaintenance",
    "JobSetStartTimeout",
    "JobSetFailureEscalation",
    "JobSetRecoveryTimes",
    "JobSetAvoidNodes",
    "JobSetElasticReplicas",
)
SOME_GATES = st.frozensets(st.sampled_from(GATES)) | st.just(frozenset(GATES))
"""Any of them, and often all."""
STAGES = {"Stages Succeeded": "Succeeded", "Stages Ready": "Ready", "Stages Active": "Active"}
ORDERS = ("AnyOrder", "AnyOrder", "InOrder", "Ready", "Complete", *STAGES)
SETUPS = st.fixed_dictionaries(
    {
        "replicas": st.lists(st.sampled_from([0, 1, 1, 2, 3]), min_size=1, max_size=3),
        "order": st.sampled_from(ORDERS),
        "alone": st.sampled_from([None, None, 1]),
        "policy": st.none() | POLICIES | POLICIES | POLICIES,
        "success": st.none() | st.none() | SUCCESS,
        "suspend": st.sampled_from([False, False, True]),
        "claims": st.booleans(),
        "ttl": st.sampled_from([None, None, None, 0, 20]),
        "deadline": st.sampled_from([None, None, None, 5, 20]),
        "exit_codes": st.sampled_from([None, None, {}, {"permanent": [3]}]),
        "exclusive": st.sampled_from([False, False, True]),
        "deletes": st.booleans(),
    }
)

RULED = st.fixed_dictionaries(
    {
        "replicas": st.lists(st.sampled_from([1, 2, 3, 3]), min_size=1, max_size=2),
        "order": st.sampled_from(ORDERS),
        "alone": st.sampled_from([None, None, 1]),
        "policy": st.fixed_dictionaries(
            {
                "maxRestarts": st.sampled_from([2, 9, 9]),
                "restartStrategy": st.sampled_from(["Recreate", "Recreate", "BlockingRecreate"]),
                "rules": st.lists(RULES | RULES_FOR_A_PART | RULES_FOR_A_PART, min_size=1, max_size=3),
                "failOn": st.sampled_from(["", "FailureTarget"]),
            },
            optional=BACK_IN_SECONDS,
        ),
        "success": st.none(),
        "suspend": st.just(False),
        "claims": st.just(False),
        "ttl": st.none(),
        "deadline": st.sampled_from([None, None, None, 10]),
        "exit_codes": st.sampled_from([None, {"permanent": [3]}]),
        "exclusive": st.sampled_from([False, False, True]),
    }
)
"""Sets whose failures are decided by rules, most of them about single Jobs or ReplicatedJobs."""
IN_PLACE = st.fixed_dictionaries(
    {
        "replicas": st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=2),
        "order": st.sampled_from(["AnyOrder", "AnyOrder", "AnyOrder", "InOrder", "Ready", "Complete"]),
        "alone": st.none(),
        "policy": st.fixed_dictionaries(
            {
                "maxRestarts": st.sampled_from([1, 2, 9, 9]),
                "restartStrategy": st.just("InPlaceRestart"),
                "rules": st.lists(RULES | RULES_FOR_A_PART, max_size=1),
                "nodeFailure": st.fixed_dictionaries(
                    {"afterSeconds": st.just(1), "forceDeletePods": st.booleans()},
                    optional={"whenNoCapacity": st.just({"shrinkAfterSeconds": 2})},
                ),
            },
            optional={name: of for name, of in BACK_IN_SECONDS.items() if name != "nodeFailure"},
        ),
        "success": st.none() | st.none() | SUCCESS,
        "suspend": st.sampled_from([False, False, True]),
        "claims": st.just(False),
        "ttl": st.none(),
        "deadline": st.sampled_from([None, None, None, 10]),
        "exit_codes": st.sampled_from([None, {"permanent": [3]}]),
        "exclusive": st.sampled_from([False, False, True]),
    }
)
"""Sets whose pods restart in place."""
CROWDED = st.fixed_dictionaries(
    {
        "replicas": st.lists(st.sampled_from([1, 2, 3, 3]), min_size=1, max_size=2),
        "order": st.sampled_from(ORDERS),
        "alone": st.none(),
        "policy": st.fixed_dictionaries(
            {
                "maxRestarts": st.sampled_from([2, 9]),
                "restartStrategy": st.sampled_from(["Recreate", "BlockingRecreate", "InPlaceRestart"]),
                "rules": st.lists(RULES_FOR_A_PART, max_size=1),
                "nodeFailure": st.just({"afterSeconds": 1, "whenNoCapacity": {"shrinkAfterSeconds": 2}}),
            },
            optional={name: of for name, of in BACK_IN_SECONDS.items() if name != "nodeFailure"},
        ),
        "success": st.none() | SUCCESS,
        "suspend": st.sampled_from([False, False, True]),
        "claims": st.just(False),
        "ttl": st.none(),
        "deadline": st.sampled_from([None, None, 20]),
        "exit_codes": st.none(),
        "exclusive": st.sampled_from([False, False, True]),
    }
)
"""Elastic sets in a cluster without room."""

SHAPES = ("whole", "whole", "basic", "entries", "jobs", "gangs", "levels", "mixed", "one")


def in_groups(shape, names) -> dict:
    """`spec.scheduling` over some ReplicatedJobs that any order of stages allows."""
    gang, zone = {"schedulingPolicy": {"gang": {}}}, {"schedulingConstraints": {"topology": [{"key": "zone"}]}}
    plain = [{"targetReplicatedJobs": [name]} for name in names]
    nested = [{**of, **gang, "job": {}} for of in plain]
    return {
        "whole": {},
        "basic": {"schedulingPolicy": {"basic": {}}, **zone},
        "entries": {"replicatedJobs": plain},
        "jobs": {"replicatedJobs": [{**of, "job": {}} for of in plain]},
        "gangs": {"replicatedJobs": nested},
        "levels": {**zone, "replicatedJobs": nested[:1]},
        "mixed": {"replicatedJobs": [*plain[:1], *nested[1:]]},
        "one": {"schedulingPolicy": {"basic": {}}, "replicatedJobs": [{"targetReplicatedJobs": [*names], "job": {}}]},
    }[shape]


def spec_of(
    *,
    replicas,
    order,
    alone,
    policy,
    success,
    suspend,
    claims,
    ttl,
    deadline,
    exit_codes,
    exclusive,
    deletes=False,
    shape=None,
) -> JobSet:
    """A JobSet of up to three ReplicatedJobs; each but the first waits for the one before it where `order` says so.

    `alone`: how many are a stage each where there are stages. `exclusive`: whether each Job has a topology domain of its
    own. `deletes`: whether a suspension deletes Jobs. `shape`: of the groups, if there are to be any.
    """
    rjobs = []
    for number, count in enumerate(replicas):
        extra = {} if exit_codes is None else {"exitCodePolicy": exit_codes}
        if order in {"Ready", "Complete"} and number:
            extra["dependsOn"] = [{"name": NAMES[number - 1], "status": order}]
        if count and policy and "whenNoCapacity" in policy.get("nodeFailure", {}):
            extra["elastic"] = {"min": 1, "max": 3}
        rjobs.append(rjob(NAMES[number], count, parallelism=1, completions=1, **extra))
    extra = {} if shape is None else {"scheduling": in_groups(shape, NAMES[: len(replicas)])}
    if policy:
        rules = [{"name": f"r{i}", **r} for i, r in enumerate(policy["rules"])]
        extra["failurePolicy"] = {**policy, "rules": rules}
        if order in STAGES and policy["restartStrategy"] == "InPlaceRestart":
            extra["failurePolicy"]["restartStrategy"] = "Recreate"
    if order in STAGES:
        stages = {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": STAGES[order]}
        extra["executionPolicy"] = stages | ({} if alone is None else {"sequentialReplicatedJobs": alone})
    if success:
        some = {name for name, count in zip(NAMES, replicas, strict=False) if count}
        targets = [t for t in success["targetReplicatedJobs"] if t in some]
        extra["successPolicy"] = {**success, "targetReplicatedJobs": targets}
    if claims:
        extra["volumeClaimPolicies"] = [{"templates": [{"metadata": {"name": "data"}, "spec": {}}]}]
    if ttl is not None:
        extra["ttlSecondsAfterFinished"] = ttl
    if deadline is not None:
        extra["activeDeadlineSeconds"] = deadline
    start = {"startupPolicyOrder": "InOrder" if order == "InOrder" else "AnyOrder"}
    annotations = {keys.EXCLUSIVE_TOPOLOGY: "rack"} if exclusive else {}
    if deletes:
        annotations[keys.DELETE_ON_SUSPEND] = "true"
    return jobset(*rjobs, annotations=annotations, startupPolicy=start, suspend=suspend, **extra)


def with_placement(rjob_: ReplicatedJob, zone: str, *, resources: bool) -> ReplicatedJob:
    """The ReplicatedJob with its pods sent to a zone; "" to any."""
    pods = rjob_.template["spec"]["template"]
    spec = {k: v for k, v in pods["spec"].items() if k not in {"nodeSelector", "tolerations", "schedulingGates"}}
    if zone:
        spec |= {"nodeSelector": {"zone": zone}, "tolerations": [{"key": zone}], "schedulingGates": [{"name": zone}]}
    if resources:
        spec["containers"] = [{**c, "resources": {"limits": {"cpu": zone}}} for c in spec["containers"]]
    pods = {**pods, "spec": spec, "metadata": {"labels": {"zone": zone}} if zone else {}}
    return replace(rjob_, template={**rjob_.template, "spec": {**rjob_.template["spec"], "template": pods}})
