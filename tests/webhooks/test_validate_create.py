"""Every rule of docs/reference/validation.md that refuses and needs no cluster: path, type, value, words."""

from typing import Any

import pytest

from api.features import FeatureGates
from app.engine import engine
from kube.model import validation as v
from tests.support.objects.creates import create_errors, rules
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from webhooks.jobset.subject import SetLimits

DEFAULT = FeatureGates()
ALL_GATES = FeatureGates({"AllAlpha": True})
MAX = 2147483647


def errors(js: JSON, gates: FeatureGates = DEFAULT) -> list[str]:
    return [f"{error.path}: {error.complaint}" for error in create_errors(stored(js), gates)]


def claim(*names: str) -> list[JSON]:
    return [{"templates": [{"metadata": {"name": name}, "spec": {}}], "retentionPolicy": {}} for name in names]


def mounting(*names: str, **pod: Any) -> JSON:
    mounts = [{"name": name, "mountPath": "/x"} for name in names]
    return rjob(pod={"containers": [{"name": "c", "image": "i", "volumeMounts": mounts}], **pod})


PATH = "spec.replicatedJobs[0]"
RULE = "spec.failurePolicy.rules[0]"

REFUSED: dict[str, tuple[JSON, list[str]]] = {
    "managedBy without a host": (
        jobset(managedBy="/foo"),
        ['spec.managedBy: Invalid value: "/foo": must be a domain-prefixed path (such as "acme.io/foo")'],
    ),
    "group name": (
        jobset(rjob(groupName="")),
        [f'{PATH}.groupName: Invalid value: "": {v.DNS1035_FORMAT}'],
    ),
    "rule name empty": (
        jobset(failurePolicy=rules({"name": ""})),
        [
            f'{RULE}.name: Invalid value: "": invalid failure policy rule name of length 0, the rule name must be at least 1 characters long and at most 128 characters long',
            f"{RULE}.name: Invalid value: \"\": invalid failure policy rule name '', a failure policy rule name must start with an alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'",
        ],
    ),
    "rule name ends in a colon": (
        jobset(failurePolicy=rules({"name": "a:"})),
        [
            f"{RULE}.name: Invalid value: \"a:\": invalid failure policy rule name 'a:', a failure policy rule name must start with an alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'"
        ],
    ),
    "repeated rule names, in the order found": (
        jobset(failurePolicy=rules({"name": "b"}, {"name": "a"}, {"name": "b"}, {"name": "a"}, {"name": "b"})),
        [
            "spec.failurePolicy.rules[2].name: Duplicate value: \"b\": rule names are not unique, rules with indices [0 2 4] all have the same name 'b'",
            "spec.failurePolicy.rules[3].name: Duplicate value: \"a\": rule names are not unique, rules with indices [1 3] all have the same name 'a'",
        ],
    ),
    "negative job index": (
        jobset(coordinator={"replicatedJob": "workers", "jobIndex": -1}),
        [
            "spec.coordinator.jobIndex: Invalid value: -1: coordinator job index -1 is invalid for replicatedJob workers",
        ],
    ),
}


LARGE = (
    rjob("few", replicas=40_000, parallelism=5, completions=5),
    rjob("many", replicas=60_001, parallelism=5, completions=None),
)


def test_a_set_may_have_100000_jobs():
    assert errors(jobset(*LARGE)) == [
        "spec.replicatedJobs[1].replicas: Forbidden: a JobSet may have 100000 Jobs, and this one has 100001"
    ]


def test_the_manager_may_allow_more_jobs_and_fewer_pods():
    findings = engine(FeatureGates(), SetLimits(jobs=200_000, pods=500_000)).findings_about_new(jobset(*LARGE))
    [error] = findings.errors
    assert str(error) == (
        "spec.replicatedJobs[1].replicas: Forbidden: a JobSet may have 500000 pods at once, and this one has 500005;"
        " split it, or raise limits.podsPerSet in the manager's configuration"
    )


@pytest.mark.parametrize("row", REFUSED)
def test_refused(row: str):
    js, expected = REFUSED[row]
    assert errors(js) == expected


def test_9e_a_mount_of_an_init_container_counts():
    init = {"name": "i", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}
    assert errors(jobset(rjob(pod={"initContainers": [init]}), volumeClaimPolicies=claim("data"))) == []


@pytest.mark.parametrize("replicas", [1024, 1025])
def test_7b_restarting_jobs_limits_the_replicas(replicas: int):
    js = jobset(rjob(replicas=replicas), failurePolicy=rules({"action": "RestartJobAndIgnoreMaxRestarts"}))
    expected = f"{PATH}.replicas: Invalid value: 1025: JobSet cannot have a failure policy rule with RestartJob or RestartJobAndIgnoreMaxRestarts action and a replicated job with replicas > 1024"
    assert errors(js, ALL_GATES) == ([expected] if replicas > 1024 else [])


ACCEPTED = {
    "the longest pod name": stored(jobset(rjob(replicas=10, parallelism=10, completions=10), name="n" * 45)),
    "plain": jobset(),
    "no replicated jobs": {**jobset(), "spec": {"replicatedJobs": []}},
    "replicas 0": jobset(rjob(replicas=0, completions=None)),
    "subdomain of 63": jobset(network={"subdomain": "s" * 63}),
    "managedBy of 63 bytes": jobset(managedBy="acme.io/" + "f" * 55),
    "multikueue": jobset(managedBy="kueue.x-k8s.io/multikueue"),
    "pods up to the limit": jobset(rjob(replicas=1, parallelism=MAX, completions=None)),
    "two dependencies": jobset(
        rjob("a"),
        rjob("b"),
        rjob("c", dependsOn=[{"name": "a", "status": "Ready"}, {"name": "b", "status": "Complete"}]),
    ),
    "coordinator": stored(jobset(coordinator={"replicatedJob": "workers"})),
    "negative maxRestarts": jobset(failurePolicy={"maxRestarts": -1}),
    "a pattern that is not a regular expression": jobset(failurePolicy=rules({"onJobFailureMessagePatterns": ["("]})),
    "rule name of 128": jobset(failurePolicy=rules({"name": "r" * 128})),
    "rule name with all signs": jobset(failurePolicy=rules({"name": "a:,_9_"})),
    "claim": jobset(mounting("data"), volumeClaimPolicies=claim("data")),
    "no dependsOn, as null": jobset(rjob(dependsOn=None)),
    "every policy null": {
        **jobset(),
        "spec": dict.fromkeys(
            (
                "successPolicy",
                "failurePolicy",
                "network",
                "startupPolicy",
                "coordinator",
                "managedBy",
                "volumeClaimPolicies",
            )
        ),
    },
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepted(case: str):
    assert [str(e) for e in create_errors(ACCEPTED[case], FeatureGates())] == []
    assert [str(e) for e in create_errors(ACCEPTED[case], ALL_GATES)] == []


def test_a_generated_name_is_checked_with_a_suffix_that_is_always_the_same():
    js = stored(jobset(rjob("W", completions=None)))
    js["metadata"] = {"generateName": "train-"}
    assert [e.value for e in create_errors(js, FeatureGates())] == ["train-xxxxx-W-0"]
    js["metadata"] = {"generateName": "g" * 70}
    assert create_errors(js, FeatureGates())[0].value == "g" * 58 + "xxxxx-W-0"
