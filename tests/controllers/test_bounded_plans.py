"""The work of a plan goes with what exists and what may be created now, never with a number that somebody wrote.

Work is counted in lines of code and in bytes (tests/support/work.py). A list may cost in proportion to its length, as it
has to be written out in full.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from api.batch import Job
from api.children import build_job
from api.features import FeatureGates
from api.gang_api import Served
from api.gangs import MAX_JOBS
from api.jobset import JobSet
from api.keys import GROUPS_READY, RESTART_ATTEMPT
from api.layout import layout_of
from controllers.jobset.milestones import Stopwatch
from controllers.planning.actions import CreateGroup, CreateJob, Plan
from controllers.planning.limits import DEFAULT_LIMITS
from controllers.planning.observed import KnownGroups, Observed
from controllers.planning.plan import plan
from kube.model.meta import MAX_INT32, NO_OWNER, find
from tests.support.model.tally import Tally
from tests.support.objects.stored_sets import jobset, rjob
from tests.support.work import memory, steps

GATES = FeatureGates({"RestartJob": True, "ElasticJobSet": True, "ExecutionAttemptsTracking": True})
NOW = "2026-01-01T00:10:00Z"
SERVED = KnownGroups(served=Served(groups=True, composites=True, topology=True))
FAILED = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "boom"}]}
DONE = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}


def observed(js: JobSet, status: dict[str, Any] | None = None, jobs: tuple[Job, ...] = (), **known: Any) -> Observed:
    read = msgspec.structs.replace(js, status=msgspec.convert(status or {}, type(js.status)))
    seen = {"groups": SERVED} if js.spec.scheduling is not None else {}
    return Observed(read, jobs, None, frozenset(), NOW, **{"leftovers": {}, **seen, **known})


def children(js: JobSet, count: int, *, of: int = 0, attempt: int = 0, **status: Any) -> tuple[Job, ...]:
    """The first Jobs of a ReplicatedJob."""
    layout = layout_of(js)
    jobs = layout.ranges[of]
    out = []
    for index in range(count):
        position = jobs.position(js.metadata.name, index)
        body = build_job(js, layout, jobs, position)
        body["metadata"] |= {"uid": position.name}
        body["metadata"]["labels"][RESTART_ATTEMPT] = str(attempt)
        out.append(msgspec.convert({**body, "status": status}, Job))
    return tuple(out)


def decided(what: Observed) -> Plan:
    return plan(what, GATES)


def entry(**fields: Any) -> dict[str, Any]:
    counts = dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0)
    return {"name": "workers", **counts, **fields}


def workers(n: int, **spec: Any) -> JobSet:
    return jobset(rjob(replicas=n), **spec)


def with_jobs(n: int) -> Observed:
    """A few of the Jobs run, the first have completed, one was deleted as it had."""
    js = workers(n)
    running, done = children(js, 9, active=1, ready=1), children(js, 5, **DONE)
    return observed(js, {"restarts": 0}, (*done[:4], *running[5:]), departed=done[4:])


def with_a_failed_job(n: int) -> Observed:
    js = workers(n, failurePolicy={"maxRestarts": MAX_INT32})
    return observed(js, {}, (*children(js, 3, active=1), *children(js, 4, **FAILED)[3:]))


def restarted(n: int) -> Observed:
    js = workers(n)
    old = children(js, 20, attempt=0, active=1)
    return observed(js, {"restarts": 1}, old, leftovers={f"js-workers-{MAX_INT32 - 1}": frozenset({"old"})})


def restarted_alone(n: int) -> Observed:
    rule = {"name": "alone", "action": "RestartReplicatedJob"}
    js = workers(n, failurePolicy={"maxRestarts": 3, "rules": [rule]})
    return observed(js, {}, children(js, 3, **FAILED))


def completed(n: int) -> Observed:
    return observed(workers(n), {"replicatedJobsStatus": [entry(completedIndexes=f"0-{n - 3}")]})


def gangs(n: int, **scheduling: Any) -> Observed:
    return observed(workers(n, scheduling=scheduling))


EACH = {"targetReplicatedJobs": ["workers"], "job": {}}
NUMBERS: dict[str, Callable[[int], Observed]] = {
    "replicas": lambda n: observed(workers(n)),
    "replicas, suspended": lambda n: observed(workers(n, suspend=True)),
    "replicas beside others": lambda n: observed(jobset(rjob("a", n), rjob("b", n), rjob("c", n))),
    "replicas of a set that was restarted": restarted,
    "replicas of a set with Jobs": with_jobs,
    "replicas of a set with a failed Job": with_a_failed_job,
    "replicas where Jobs are restarted alone": restarted_alone,
    "replicas, all but two completed": completed,
    "replicas in a group": gangs,
    "replicas in groups": lambda n: gangs(n, replicatedJobs=[EACH]),
    "replicas in groups of groups": lambda n: gangs(n, schedulingPolicy={"gang": {}}, replicatedJobs=[EACH]),
    "replicas in order": lambda n: observed(workers(n, startupPolicy={"startupPolicyOrder": "InOrder"})),
    "replicas of a stage": lambda n: observed(workers(n, executionPolicy={"executionPolicyOrder": "InOrder"})),
    "parallelism": lambda n: observed(jobset(rjob(replicas=50, parallelism=n, completions=n))),
    "parallelism in a gang": lambda n: observed(jobset(rjob(replicas=5, parallelism=n, completions=n), scheduling={})),
    "minSucceeded": lambda n: observed(workers(9, successPolicy={"operator": "All", "minSucceeded": n, "unit": "Pod"})),
    "maxRestarts": lambda n: observed(workers(9, failurePolicy={"maxRestarts": n}), {"restarts": n - 1}),
    "sequentialReplicatedJobs": lambda n: observed(
        workers(9, executionPolicy={"executionPolicyOrder": "InOrder", "sequentialReplicatedJobs": n})
    ),
    "completedIndexes": lambda n: observed(
        workers(9), {"replicatedJobsStatus": [entry(completedIndexes=f"0-{n},1-{n},5-{n}")]}
    ),
    "the time to live": lambda n: observed(workers(9, ttlSecondsAfterFinished=n)),
    "the job index of the coordinator": lambda n: observed(
        workers(9, coordinator={"replicatedJob": "workers", "jobIndex": n, "podIndex": n})
    ),
}
"""A set by a number that a user can write."""


@pytest.mark.no_cover
@pytest.mark.parametrize("what", NUMBERS)
def test_no_number_makes_a_plan_longer(what: str):
    some, most = NUMBERS[what](20_000), NUMBERS[what](MAX_INT32)
    assert len(decided(most).actions) <= DEFAULT_LIMITS.suspended_jobs + 30
    assert steps(lambda: decided(most)) <= 1.05 * steps(lambda: decided(some))
    assert memory(lambda: decided(most)) <= 1.05 * memory(lambda: decided(some)) + 16_384


def names(n: int) -> list[str]:
    return [f"r{number}" for number in range(n)]


def many(n: int, **spec: Any) -> JobSet:
    """That many ReplicatedJobs of one Job."""
    return jobset(*map(rjob, names(n)), **spec)


def all_running(n: int, **spec: Any) -> Observed:
    js = many(n, **spec)
    return observed(js, {}, tuple(job for of in range(n) for job in children(js, 1, of=of, active=1, ready=1)))


def chained(n: int) -> JobSet:
    """Each waits for those before it, as many as may be named."""
    before = {name: names(number)[-5:] for number, name in enumerate(names(n))}
    waits = {name: [{"name": other, "status": "Ready"} for other in of] for name, of in before.items()}
    return jobset(*(rjob(name, dependsOn=of) if of else rjob(name) for name, of in waits.items()))


def failed(n: int, *rules: dict[str, Any], **fields: Any) -> Observed:
    """That many failed Jobs under those rules."""
    named = [{"name": f"rule{number}", "action": "RestartJobSet", **rule} for number, rule in enumerate(rules)]
    js = jobset(rjob(replicas=1024), failurePolicy={"maxRestarts": 5000, "rules": named})
    return observed(js, fields, children(js, n, **FAILED))


def taken(n: int) -> Observed:
    """The names of all Jobs are held: of every second one by a Job that cannot be read."""
    held = [f"js-{name}-0" for name in names(n)]
    return observed(
        many(n),
        {},
        foreign_owners=dict.fromkeys(held[::2], NO_OWNER),
        undecodable_jobs=dict.fromkeys(held[1::2], "why"),
    )


def in_place(n: int) -> Observed:
    policy = {"maxRestarts": MAX_INT32, "restartStrategy": "InPlaceRestart"}
    return observed(many(n, failurePolicy=policy), {"restarts": MAX_INT32 - 1})


def claims(policies: int, templates: int) -> JobSet:
    made = [
        {"templates": [{"metadata": {"name": f"c{p}-{t}"}, "spec": {}} for t in range(templates)]}
        for p in range(policies)
    ]
    return jobset(rjob(), volumeClaimPolicies=made)


STAGES = {"executionPolicyOrder": "InOrder"}
LISTS: dict[str, Callable[[int], Observed]] = {
    "ReplicatedJobs": lambda n: observed(many(n)),
    "ReplicatedJobs, suspended": lambda n: observed(many(n, suspend=True)),
    "ReplicatedJobs in order": lambda n: observed(many(n, startupPolicy={"startupPolicyOrder": "InOrder"})),
    "ReplicatedJobs in order, running": lambda n: all_running(n, startupPolicy={"startupPolicyOrder": "InOrder"}),
    "ReplicatedJobs in order, in groups": lambda n: observed(
        many(n, startupPolicy={"startupPolicyOrder": "InOrder"}, scheduling={})
    ),
    "ReplicatedJobs that wait for others": lambda n: observed(chained(n)),
    "ReplicatedJobs that are restarted in place": in_place,
    "stages": lambda n: observed(many(n, executionPolicy=STAGES)),
    "stages without Jobs": lambda n: observed(jobset(*(rjob(name, 0) for name in names(n)), executionPolicy=STAGES)),
    "ReplicatedJobs of a stage": lambda n: all_running(n, executionPolicy={**STAGES, "sequentialReplicatedJobs": 1}),
    "stages, running": lambda n: all_running(n, executionPolicy=STAGES),
    "ReplicatedJobs whose names are taken": taken,
    "failed Jobs": failed,
    "failed Jobs that are restarted alone": lambda n: failed(n, {"action": "RestartJob"}),
    "failed Jobs whose ReplicatedJob is restarted": lambda n: failed(n, {"action": "RestartReplicatedJob"}),
    "failed Jobs and rules": lambda n: failed(n, *[{"targetReplicatedJobs": ["other"]}] * n),
    "failed Jobs and patterns": lambda n: failed(n, {"onJobFailureMessagePatterns": [f"x{k}" for k in range(n // 4)]}),
    "failed Jobs, targets and rules": lambda n: failed(n, *[{"targetReplicatedJobs": names(50)}] * n),
    "failed Jobs and reasons": lambda n: failed(n, {"onJobFailureReasons": names(n)}),
    "targets of the success policy": lambda n: observed(
        many(n, successPolicy={"operator": "All", "targetReplicatedJobs": names(n)})
    ),
    "volume claims": lambda n: observed(claims(n, 5)),
    "templates of volume claims": lambda n: observed(claims(5, n)),
    "indexes that have completed": lambda n: observed(
        workers(3 * n), {"replicatedJobsStatus": [entry(completedIndexes=",".join(map(str, range(0, 2 * n, 2))))]}
    ),
    "indexes named again": lambda n: observed(
        workers(9), {"replicatedJobsStatus": [entry(completedIndexes="0-8," * n)]}
    ),
    "counters of restarts": lambda n: failed(
        9, {"action": "RestartJob"}, replicatedJobsStatus=[entry(jobRestarts=[1] * n)]
    ),
    "counters of rules": lambda n: failed(
        9, failurePolicyRestarts=[{"name": name, "restarts": 1} for name in names(n)]
    ),
    "entries of the status": lambda n: observed(
        workers(9), {"replicatedJobsStatus": [entry(name=name) for name in names(n)]}
    ),
    "conditions": lambda n: observed(
        workers(9), {"conditions": [{"type": name, "status": "True", "lastTransitionTime": NOW} for name in names(n)]}
    ),
}
"""A set by the length of a list that a user can write."""


@pytest.mark.no_cover
@pytest.mark.parametrize("what", LISTS)
def test_a_longer_list_takes_work_in_proportion(what: str):
    few, some, most = (LISTS[what](length) for length in (150, 300, 600))
    decided(most)  # What is compiled or imported once is not of interest.
    assert steps(lambda: decided(most)) <= 2.1 * steps(lambda: decided(some))
    # Dictionaries and sets grow in leaps of up to four times; what is kept for each pair takes sixteen times as much.
    assert memory(lambda: decided(most)) <= 8 * memory(lambda: decided(few))


def test_what_is_measured_of_a_set_goes_with_what_exists():
    def look(n: int) -> Callable[[], object]:
        what = completed(n)
        return lambda: Stopwatch(Tally()).note(None, what.jobset, children(what.jobset, 9), 0.0)

    look(20_000)()  # What is imported once is not of interest.
    assert steps(look(MAX_INT32)) <= 1.05 * steps(look(20_000))


@pytest.mark.parametrize("more", [{}, {"schedulingPolicy": {"gang": {}}}])
def test_so_many_groups_are_created_at_once(more: dict[str, Any]):
    first, *others = created(gangs(5000, replicatedJobs=[EACH], **more))
    assert first.kind == "Workload"
    assert len(others) == DEFAULT_LIMITS.new_groups
    assert [group.kind for group in others].count("CompositePodGroup") == len(more)
    assert len(created(gangs(500, replicatedJobs=[EACH], **more))) == 501 + len(more)


def created(what: Observed) -> list[CreateGroup]:
    return [action for action in decided(what).actions if isinstance(action, CreateGroup)]


@pytest.mark.parametrize("suspend", [False, True])
def test_a_set_with_too_many_jobs_for_groups_gets_neither(suspend: bool):
    js = workers(MAX_JOBS + 1, scheduling={}, suspend=suspend)
    found = decided(observed(js))
    assert not [action for action in found.actions if isinstance(action, CreateJob | CreateGroup)]
    condition = find(found.status.conditions, GROUPS_READY)
    assert (condition.status, condition.reason) == ("False", "TooManyJobs")
    assert created(observed(workers(MAX_JOBS, scheduling={})))
