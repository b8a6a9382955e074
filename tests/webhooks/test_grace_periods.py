"""A warning where a restart may wait for one grace period after the other."""

from typing import Any

import pytest

from api.features import FeatureGates
from app.engine import engine
from tests.support.objects.jobsets import JSON, jobset, rjob, stored

ENGINE = engine(FeatureGates({"AllAlpha": True}))
TWO = {"parallelism": 2, "completions": 2}


def seconds(js: JSON) -> str:
    """How long the restart may wait, as the warning says; empty without one."""
    found = [
        warning
        for warning in ENGINE.findings_about_new(stored(js)).warnings
        if warning.rule.id == "grace-periods-in-a-row"
    ]
    return found[0].detail.partition(" by ")[2].partition(" s:")[0] if found else ""


def workers(name: str = "workers", replicas: int = 2, grace: Any = None, **job: Any) -> JSON:
    pod = {} if grace is None else {"terminationGracePeriodSeconds": grace}
    return rjob(name, replicas=replicas, job={**TWO, **job}, pod=pod)


@pytest.mark.parametrize(
    ("entries", "policy", "expected"),
    [
        ([workers(grace=100)], {"maxRestarts": 1}, "200"),
        ([workers(replicas=1, grace=45), rjob("driver")], {"maxRestarts": 1}, "90"),
        ([workers()], {"maxRestarts": 1}, ""),
        ([workers(grace=30)], {"maxRestarts": 1}, ""),
        ([workers(grace=100, replicas=1)], {"maxRestarts": 1}, ""),
        ([workers(grace=100, parallelism=1)], {"maxRestarts": 1}, ""),
        ([workers(grace=100)], {"maxRestarts": 0}, ""),
        ([workers(grace=100)], {"maxRestarts": 1, "failOn": "FailureTarget"}, ""),
        ([workers(grace=100)], {"maxRestarts": 1, "restartStrategy": "BlockingRecreate"}, "200"),
        ([workers(grace=100)], {"maxRestarts": 1, "restartStrategy": "InPlaceRestart"}, ""),
    ],
)
def test_two_in_a_row(entries, policy, expected):
    assert seconds(jobset(*entries, failurePolicy=policy)) == expected
