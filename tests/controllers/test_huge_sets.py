"""Plans of sets with as many Jobs as a number can say: a walk over their indexes would not end in time.

Admission refuses such sets; one that is stored already must not take the time of all others.
"""

import msgspec
import pytest

from api.features import FeatureGates
from api.jobset import JobSet
from controllers.planning.actions import CreateJob
from controllers.planning.limits import DEFAULT_LIMITS
from controllers.planning.observed import Observed
from controllers.planning.plan import plan
from kube.model.meta import MAX_INT32, NO_OWNER
from tests.support.model.lives import of_type
from tests.support.objects.jobsets import JSON, jobset, rjob, stored

SHAPES = {
    "plain": {},
    "failure policy": {"failurePolicy": {"maxRestarts": MAX_INT32, "rules": [{"name": "r", "action": "RestartJob"}]}},
    "in order": {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
    "stages": {"executionPolicy": {"executionPolicyOrder": "InOrder"}},
    "share": {"successPolicy": {"minSucceeded": MAX_INT32}},
}
GATES = FeatureGates({"RestartJob": True, "ElasticJobSet": True, "ExecutionAttemptsTracking": True})


def observed(js: JSON, **known) -> Observed:
    read = msgspec.convert(js, JobSet)
    return Observed(read, (), service=None, claims=frozenset(), now="2026-01-01T00:00:00Z", leftovers={}, **known)


@pytest.mark.parametrize("restarts", [0, 1])
@pytest.mark.parametrize("suspend", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_plan_creates_as_many_jobs_as_its_limit_allows(shape: str, suspend: bool, restarts: int):
    huge = rjob(replicas=MAX_INT32, parallelism=MAX_INT32, completions=MAX_INT32)
    js = stored(jobset(huge, rjob("b", replicas=MAX_INT32), suspend=suspend, **SHAPES[shape]))
    js["status"] = {"restarts": restarts}
    limit = DEFAULT_LIMITS.suspended_jobs if suspend else DEFAULT_LIMITS.queued_jobs
    created = of_type(plan(observed(js), GATES), CreateJob)
    assert [job.name for job in created] == [f"train-workers-{index}" for index in range(limit)]


def test_names_that_others_hold_are_found_wherever_they_are():
    js = stored(jobset(rjob(replicas=MAX_INT32)))
    last = f"train-workers-{MAX_INT32 - 1}"
    decided = plan(
        observed(js, foreign_owners={last: NO_OWNER, "train-workers-1": NO_OWNER, "train-other-1": NO_OWNER}), GATES
    )
    [warning] = decided.warnings
    assert last in warning.note
    assert "train-workers-1" in warning.note
    assert "train-other-1" not in warning.note
    assert "train-workers-1" not in {job.name for job in of_type(decided, CreateJob)}
