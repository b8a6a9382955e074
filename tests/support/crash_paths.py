"""The paths of a JobSet's life that `crash.run` can play: for each, a manifest and what its user and its pods do."""

from __future__ import annotations

from typing import Any

from controllers.jobset.execute import JOBSETS
from kube.resources import JOBS, SERVICES
from tests.support.crash import Path, Step
from tests.support.jobs import group, manifest
from tests.support.played import NOW, Played, Snapshot, condition

DNS = {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
FIRST, SECOND = "js-workers-0", "js-workers-1"
TPU, GPU = ({"nodeSelector": {"pool": pool}} for pool in ("tpu", "gpu"))


# What a step does


def complete(*names: str) -> Step:
    """The pods of these Jobs succeed, of all at once."""

    async def step(world: Played, seen: Snapshot) -> None:
        for name in names:
            done = seen.one(JOBS, name)["spec"].get("completions", 1)
            await _end(world, seen, name, ("SuccessCriteriaMet", "Complete"), succeeded=done, completionTime=NOW)

    return step


def fail(*names: str) -> Step:
    """A pod of each of these Jobs fails, and with it the Job, of all at once."""

    async def step(world: Played, seen: Snapshot) -> None:
        for name in names:
            await _end(world, seen, name, ("FailureTarget", "Failed"), failed=1)

    return step


def edit(**spec: Any) -> Step:
    """The user changes the spec."""

    async def step(world: Played, _: Snapshot) -> None:
        await world.patch(JOBSETS, "js", {"spec": spec})

    return step


def delete_job(name: str) -> Step:
    """A person, or the Job's own time to live, deletes a Job."""

    async def step(world: Played, _: Snapshot) -> None:
        await world.delete(JOBS, name, "Background")

    return step


async def delete_service(world: Played, _: Snapshot) -> None:
    await world.delete(SERVICES, "js", "Background")


async def _end(world: Played, seen: Snapshot, name: str, kinds: tuple[str, str], **counts: Any) -> None:
    job = seen.one(JOBS, name)
    assert job["status"].get("active"), f"{name} runs no pods that could end"
    old = job["status"].get("conditions", [])
    status = {
        "active": 0,
        "ready": 0,
        "conditions": [*old, *(condition(kind, "BackoffLimitExceeded") for kind in kinds)],
        "uncountedTerminatedPods": {},
        **counts,
    }
    await world.patch(JOBS, name, {"status": status}, "status")


# The paths


def workers(name: str = "workers", replicas: int = 2, **extra: Any) -> dict[str, Any]:
    job = {"completionMode": "Indexed", **extra.pop("job", {})}
    return group(name, replicas=replicas, job=job, **extra)


def restarting(strategy: str = "Recreate", maximum: int = 2, action: str = "") -> dict[str, Any]:
    rules = [{"name": "rule", "action": action}] if action else []
    return {"maxRestarts": maximum, "restartStrategy": strategy, "rules": rules}


def claim(name: str) -> dict[str, Any]:
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": size}


ORDER = {"startupPolicyOrder": "InOrder"}
STAGES = (workers("first", 1), workers("workers"))
CHAIN = (
    workers("first", 1),
    workers("second", 1, dependsOn=[{"name": "first", "status": "Ready"}]),
    workers("third", 1, dependsOn=[{"name": "second", "status": "Complete"}]),
)
CLAIMS = [
    {"templates": [claim("scratch")], "retentionPolicy": {"whenDeleted": "Delete"}},
    {"templates": [claim("data")], "retentionPolicy": {"whenDeleted": "Retain"}},
]
BOTH = complete(FIRST), complete(SECOND)
STOP, START = edit(suspend=True), edit(suspend=False)
MOVED = edit(suspend=False, replicatedJobs=[workers(pod=GPU)])

PATHS = (
    Path("create", manifest(workers(), network=DNS)),
    Path("create-suspended", manifest(workers(), network=DNS, suspend=True)),
    Path("create-in-order", manifest(*STAGES, startupPolicy=ORDER)),
    Path("create-claims", manifest(workers(), volumeClaimPolicies=CLAIMS)),
    Path("success", manifest(workers()), BOTH),
    Path("success-of-any", manifest(workers(), successPolicy={"operator": "Any"}), (complete(SECOND),)),
    Path("fail", manifest(workers()), (fail(SECOND),)),
    Path("restart", manifest(workers(), failurePolicy=restarting()), (fail(FIRST),)),
    Path("restart-blocking", manifest(workers(), failurePolicy=restarting("BlockingRecreate")), (fail(FIRST),)),
    Path("restart-after-success", manifest(workers(), failurePolicy=restarting()), (complete(FIRST), fail(SECOND))),
    Path("restarts-used-up", manifest(workers(), failurePolicy=restarting(maximum=1)), (fail(FIRST), fail(SECOND))),
    Path(
        "restart-job",
        manifest(workers(), failurePolicy=restarting(action="RestartJob")),
        (fail(FIRST), fail(FIRST), fail(SECOND)),
        frozenset({"RestartJob"}),
    ),
    Path(
        "restart-jobs-at-once",
        manifest(workers(), failurePolicy=restarting(action="RestartJobAndIgnoreMaxRestarts")),
        (fail(FIRST, SECOND), *BOTH),
        frozenset({"RestartJob"}),
    ),
    Path("suspend", manifest(workers()), (STOP,)),
    Path("resume", manifest(workers(pod=TPU)), (STOP, START)),
    Path("resume-elsewhere", manifest(workers(pod=TPU)), (STOP, MOVED)),
    Path("created-suspended", manifest(workers(pod=TPU), suspend=True), (MOVED,)),
    Path(
        "in-order-restarted", manifest(*STAGES, startupPolicy=ORDER, failurePolicy=restarting()), (fail("js-first-0"),)
    ),
    Path("in-order-resumed", manifest(*STAGES, startupPolicy=ORDER, suspend=True), (START,)),
    Path("depends-on", manifest(*CHAIN), (complete("js-second-0"),)),
    Path("depends-on-restarted", manifest(*CHAIN, failurePolicy=restarting()), (fail("js-second-0"),)),
    Path("time-to-live", manifest(workers(), network=DNS, ttlSecondsAfterFinished=1), BOTH),
    Path("claims", manifest(workers(), volumeClaimPolicies=CLAIMS, ttlSecondsAfterFinished=0), BOTH),
    Path("service-deleted", manifest(workers(), network=DNS), (delete_service,)),
    Path("job-deleted", manifest(workers()), (delete_job(FIRST),)),
)
