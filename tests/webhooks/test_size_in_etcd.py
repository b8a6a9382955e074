"""A JobSet for which etcd may have no room once it has a status: a warning, and never more."""

import copy

import pytest

from api.features import FeatureGates
from api.status_size import ETCD_LIMIT
from app.engine import engine
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from webhooks.jobset.answers import MAX_WARNING_LENGTH, warning_texts
from webhooks.jobset.engine import Findings

KIB = 1024
RULE = "size-in-etcd"
RESTART_JOB = {"rules": [{"name": "r", "action": "RestartJob"}]}


def large(kib: int, groups: int = 1, replicas: int = 1, **spec: object) -> JSON:
    """A JobSet whose first template has so many KiB of arguments."""
    container = {"name": "main", "image": "busybox", "args": ["x" * KIB] * kib}
    first = rjob("group-0", replicas=replicas, pod={"containers": [container]})
    others = (rjob(f"group-{n}", replicas=replicas) for n in range(1, groups))
    return stored(jobset(first, *others, **spec))


def create(js: JSON, **gates: bool) -> Findings:
    return engine(FeatureGates(gates)).findings_about_new(js, defaults=False)


def warnings(findings: Findings) -> list[str]:
    return [warning.rule.id for warning in findings.warnings if warning.rule]


@pytest.mark.parametrize(("kib", "warned"), [(1, []), (1_200, []), (1_400, [RULE]), (1_500, [RULE]), (2_000, [RULE])])
def test_a_large_template_is_warned_of(kib, warned):
    findings = create(large(kib))
    assert findings.errors == ()
    assert warnings(findings) == warned


def test_the_warning_says_how_much_why_and_what_to_do():
    [text] = warning_texts(create(large(1_400)).warnings)
    assert text == (
        "spec.replicatedJobs: with its status this JobSet may take 1,484 KiB, and etcd stores at most 1,536: then the"
        " status cannot be written, and the set never ends; split it, or move scripts to ConfigMaps [size-in-etcd]"
    )
    assert len(text) <= MAX_WARNING_LENGTH
    assert ETCD_LIMIT == 1_536 * KIB


def test_what_the_status_will_need_counts():
    assert warnings(create(large(1_200, groups=400, replicas=2))) == [RULE]


def test_restarts_of_single_jobs_count_where_there_can_be_some():
    js = large(700, groups=97, replicas=1_024, failurePolicy=RESTART_JOB)
    assert warnings(create(js, RestartJob=True)) == [RULE]
    del js["spec"]["failurePolicy"]
    assert warnings(create(js, RestartJob=True)) == []


def test_what_clients_own_counts():
    js = large(700)
    js["metadata"]["managedFields"] = [{"manager": "kubectl", "fieldsV1": {f"f:{n}": {} for n in range(60_000)}}]
    assert warnings(create(js)) == [RULE]


def test_a_change_that_brings_it_near_the_limit_is_warned_of():
    old = large(1_200)
    new = copy.deepcopy(old)
    new["metadata"]["annotations"] = {"note": "x" * 250 * KIB}
    findings = engine(FeatureGates()).findings_about_update(old, new)
    assert findings.errors == ()
    assert warnings(findings) == [RULE]
