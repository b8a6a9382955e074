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
LONG = "l" * 64


def errors(js: JSON, gates: FeatureGates = DEFAULT) -> list[str]:
    return [f"{error.path}: {error.complaint}" for error in create_errors(stored(js), gates)]


def claim(*names: str) -> list[JSON]:
    return [{"templates": [{"metadata": {"name": name}, "spec": {}}], "retentionPolicy": {}} for name in names]


def mounting(*names: str, **pod: Any) -> JSON:
    mounts = [{"name": name, "mountPath": "/x"} for name in names]
    return rjob(pod={"containers": [{"name": "c", "image": "i", "volumeMounts": mounts}], **pod})


JOB_TOO_LONG = "JobSet name is too long, job names generated for this JobSet will exceed 63 characters"
POD_TOO_LONG = "JobSet name is too long, pod names generated for this JobSet will exceed 63 characters"
PATH = "spec.replicatedJobs[0]"
RULE = "spec.failurePolicy.rules[0]"

REFUSED: dict[str, tuple[JSON, list[str]]] = {
    "in-place restart without its gate": (
        jobset(failurePolicy={"restartStrategy": "InPlaceRestart"}),
        [
            "spec.failurePolicy.restartStrategy: Forbidden: InPlaceRestart restart strategy cannot be set when InPlaceRestart feature gate is disabled"
        ],
    ),
    "dependsOn on the first, even empty": (
        jobset(rjob(dependsOn=[])),
        [f"{PATH}.dependsOn: Forbidden: DependsOn can't be set for the first ReplicatedJob"],
    ),
    "subdomain is neither subdomain nor label": (
        jobset(network={"subdomain": "A_b"}),
        [
            f'spec.network.subdomain: Invalid value: "A_b": {v.DNS1123_SUBDOMAIN_FORMAT}',
            f'spec.network.subdomain: Invalid value: "A_b": {v.DNS1035_FORMAT}',
        ],
    ),
    "subdomain with a dot": (
        jobset(network={"subdomain": "a.b"}),
        [f'spec.network.subdomain: Invalid value: "a.b": {v.DNS1035_FORMAT}'],
    ),
    "subdomain too long": (
        jobset(network={"subdomain": LONG}),
        [
            f'spec.network.subdomain: Invalid value: "{LONG}": .spec.network.subdomain is too long, must be less than 63 characters'
        ],
    ),
    "managedBy empty": (jobset(managedBy=""), ["spec.managedBy: Required value"]),
    "managedBy without a path": (
        jobset(managedBy="acme.io"),
        ['spec.managedBy: Invalid value: "acme.io": must be a domain-prefixed path (such as "acme.io/foo")'],
    ),
    "managedBy without a host": (
        jobset(managedBy="/foo"),
        ['spec.managedBy: Invalid value: "/foo": must be a domain-prefixed path (such as "acme.io/foo")'],
    ),
    "managedBy with a bad host and a bad path": (
        jobset(managedBy="Acme/a b"),
        [
            f'spec.managedBy: Invalid value: "Acme": {v.DNS1123_SUBDOMAIN_FORMAT}',
            f'spec.managedBy: Invalid value: "a b": {v.HTTP_PATH_FORMAT}',
        ],
    ),
    "managedBy too long": (
        jobset(managedBy="acme.io/" + "f" * 56),
        ["spec.managedBy: Too long: may not be more than 63 bytes"],
    ),
    "too many pods": (
        jobset(rjob(replicas=65536, parallelism=32768, completions=None)),
        [
            f"{PATH}.replicas: Invalid value: 65536: the product of replicas and parallelism must not exceed {MAX} for replicatedJob 'workers'"
        ],
    ),
    "group name": (
        jobset(rjob(groupName="")),
        [f'{PATH}.groupName: Invalid value: "": {v.DNS1035_FORMAT}'],
    ),
    "group name too long": (
        jobset(rjob(groupName=LONG)),
        [
            f'{PATH}.groupName: Invalid value: "{LONG}": .spec.replicatedJob[].groupName is too long, must be less than 63 characters'
        ],
    ),
    "job name": (
        jobset(rjob("W", completions=None)),
        [f'{PATH}.name: Invalid value: "train-W-0": {v.DNS1035_FORMAT}'],
    ),
    "job name too long": (
        jobset(rjob(replicas=101, completions=None), name="n" * 52),
        [f'{PATH}.name: Invalid value: "{"n" * 52}-workers-100": {JOB_TOO_LONG}'],
    ),
    "pod name too long shows the job name": (
        jobset(rjob(completions=1), name="n" * 46),
        [f'{PATH}.name: Invalid value: "{"n" * 46}-workers-0": {POD_TOO_LONG}'],
    ),
    "dependsOn forward, unknown and self": (
        jobset(
            rjob("a"),
            rjob("b", dependsOn=[{"name": n, "status": "Ready"} for n in ("a", "b", "c", "nobody")]),
            rjob("c"),
        ),
        [
            f'spec.replicatedJobs[1].dependsOn[{k}].name: Invalid value: "{n}": replicatedJob: b cannot depend on replicatedJob: {n}'
            for k, n in ((1, "b"), (2, "c"), (3, "nobody"))
        ],
    ),
    "success policy target": (
        jobset(successPolicy={"operator": "All", "targetReplicatedJobs": ["workers", "x"]}),
        [
            "spec.successPolicy.targetReplicatedJobs[1]: Invalid value: \"x\": invalid replicatedJob name 'x' does not appear in .spec.ReplicatedJobs"
        ],
    ),
    "RestartJob without its gate hides nothing": (
        jobset(failurePolicy=rules({"action": "RestartJob"}, {"targetReplicatedJobs": ["x"]})),
        [
            f"{RULE}.action: Forbidden: RestartJob and RestartJobAndIgnoreMaxRestarts failure policy actions are not allowed when RestartJob feature gate is disabled",
            "spec.failurePolicy.rules[1].targetReplicatedJobs[0]: Invalid value: \"x\": invalid replicatedJob name 'x' in failure policy does not appear in .spec.ReplicatedJobs",
        ],
    ),
    "rule name empty": (
        jobset(failurePolicy=rules({"name": ""})),
        [
            f'{RULE}.name: Invalid value: "": invalid failure policy rule name of length 0, the rule name must be at least 1 characters long and at most 128 characters long',
            f"{RULE}.name: Invalid value: \"\": invalid failure policy rule name '', a failure policy rule name must start with an alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'",
        ],
    ),
    "rule name too long": (
        jobset(failurePolicy=rules({"name": "r" * 129})),
        [
            f'{RULE}.name: Invalid value: "{"r" * 129}": invalid failure policy rule name of length 129, the rule name must be at least 1 characters long and at most 128 characters long'
        ],
    ),
    "rule name ends in a colon": (
        jobset(failurePolicy=rules({"name": "a:"})),
        [
            f"{RULE}.name: Invalid value: \"a:\": invalid failure policy rule name 'a:', a failure policy rule name must start with an alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'"
        ],
    ),
    "rule target": (
        jobset(failurePolicy=rules({"targetReplicatedJobs": ["x"]})),
        [
            f"{RULE}.targetReplicatedJobs[0]: Invalid value: \"x\": invalid replicatedJob name 'x' in failure policy does not appear in .spec.ReplicatedJobs"
        ],
    ),
    "reason": (
        jobset(failurePolicy=rules({"onJobFailureReasons": ["PodFailurePolicy", "Boredom"]})),
        [
            f"{RULE}.onJobFailureReasons[1]: Invalid value: \"Boredom\": invalid job failure reason 'Boredom' in failure policy is not a recognized job failure reason"
        ],
    ),
    "repeated rule names, in the order found": (
        jobset(failurePolicy=rules({"name": "b"}, {"name": "a"}, {"name": "b"}, {"name": "a"}, {"name": "b"})),
        [
            "spec.failurePolicy.rules[2].name: Duplicate value: \"b\": rule names are not unique, rules with indices [0 2 4] all have the same name 'b'",
            "spec.failurePolicy.rules[3].name: Duplicate value: \"a\": rule names are not unique, rules with indices [1 3] all have the same name 'a'",
        ],
    ),
    "coordinator of nobody": (
        jobset(coordinator={"replicatedJob": "x"}),
        ['spec.coordinator.replicatedJob: Invalid value: "x": coordinator replicatedJob x does not exist'],
    ),
    "job index and pod index": (
        jobset(coordinator={"replicatedJob": "workers", "jobIndex": 1, "podIndex": 9}),
        [
            "spec.coordinator.jobIndex: Invalid value: 1: coordinator job index 1 is invalid for replicatedJob workers",
            "spec.coordinator.podIndex: Invalid value: 9: coordinator pod index 9 is invalid for replicatedJob workers job index 1",
        ],
    ),
    "negative job index": (
        jobset(coordinator={"replicatedJob": "workers", "jobIndex": -1}),
        [
            "spec.coordinator.jobIndex: Invalid value: -1: coordinator job index -1 is invalid for replicatedJob workers",
        ],
    ),
    "not indexed": (
        jobset(rjob(job={"completionMode": "NonIndexed"}), coordinator={"replicatedJob": "workers"}),
        [
            f'{PATH}.template.spec.completionMode: Invalid value: "NonIndexed": job for coordinator pod must be indexed completion mode, and completions number must be set'
        ],
    ),
    "no completions": (
        jobset(rjob(completions=None), coordinator={"replicatedJob": "workers"}),
        [
            f"{PATH}.template.spec.completions: Required value: job for coordinator pod must be indexed completion mode, and completions number must be set"
        ],
    ),
    "pod index": (
        jobset(rjob(completions=2, parallelism=2), coordinator={"replicatedJob": "workers", "podIndex": 2}),
        [
            "spec.coordinator.podIndex: Invalid value: 2: coordinator pod index 2 is invalid for replicatedJob workers job index 0"
        ],
    ),
    "endpoint is no label value": (
        jobset(coordinator={"replicatedJob": "workers"}, network={"subdomain": "s" * 60}),
        [
            f'spec.coordinator: Invalid value: "train-workers-0-0.{"s" * 60}": spec will lead to invalid label value "train-workers-0-0.{"s" * 60}" for coordinator label "jobset.sigs.k8s.io/coordinator" (long JobSet / ReplicatedJob / SubDomain name?): must be no more than 63 bytes'
        ],
    ),
    "repeated claim": (
        jobset(mounting("data"), volumeClaimPolicies=claim("data", "data")),
        [
            'spec.volumeClaimPolicies[1].templates[0].metadata.name: Invalid value: "data": names must be unique for VolumeClaimPolicies template'
        ],
    ),
    "claim name": (
        jobset(mounting("Data"), volumeClaimPolicies=claim("Data")),
        [
            f'spec.volumeClaimPolicies[0].templates[0].metadata.name: Invalid value: "Data": {v.DNS1123_SUBDOMAIN_FORMAT}'
        ],
    ),
    "claim name too long with the JobSet's": (
        jobset(mounting("d" * 58), volumeClaimPolicies=claim("d" * 58)),
        [
            f'spec.volumeClaimPolicies[0].templates[0].metadata.name: Invalid value: "{"d" * 58}": VolumeClaimPolicies template name is too long'
        ],
    ),
    "claim and volume of one name": (
        jobset(mounting("data", volumes=[{"name": "other"}, {"name": "data"}]), volumeClaimPolicies=claim("data")),
        [
            f'{PATH}.template.spec.template.spec.volumes[1].name: Invalid value: "data": volume name conflicts with VolumeClaimPolicy template name: data'
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
    findings = engine(FeatureGates(), SetLimits(jobs=200_000, pods=500_000)).create(jobset(*LARGE))
    [error] = findings.errors
    assert str(error) == (
        "spec.replicatedJobs[1].replicas: Forbidden: a JobSet may have 500000 pods at once, and this one has 500005;"
        " split it, or raise limits.podsPerSet in the manager's configuration"
    )


@pytest.mark.parametrize("row", REFUSED)
def test_refused(row: str):
    js, expected = REFUSED[row]
    assert errors(js) == expected


def test_9e_an_unmounted_claim_is_named_where_it_stands():
    js = stored(jobset(volumeClaimPolicies=claim("data")))
    [error] = create_errors(js, FeatureGates())
    assert str(error.path) == "spec.volumeClaimPolicies[0].templates[0].metadata.name"
    assert error.value == "data"
    assert error.detail == "replicatedJob containers don't have a matching volumeMount: data from VolumeClaimPolicies"


def test_9e_a_mount_of_an_init_container_counts():
    init = {"name": "i", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}
    assert errors(jobset(rjob(pod={"initContainers": [init]}), volumeClaimPolicies=claim("data"))) == []


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ({"backoffLimit": MAX, "podReplacementPolicy": "Failed"}, []),
        (
            {"backoffLimit": 6, "podReplacementPolicy": "Failed"},
            [
                f"{PATH}.template.spec.backoffLimit: Invalid value: 6: replicatedJob workers: must be set to 2147483647 (MaxInt32) when in-place restart is enabled"
            ],
        ),
        (
            {"podReplacementPolicy": "Failed"},
            [
                f"{PATH}.template.spec.backoffLimit: Required value: replicatedJob workers: must be set to 2147483647 (MaxInt32) when in-place restart is enabled"
            ],
        ),
        (
            {"backoffLimit": MAX, "podReplacementPolicy": "TerminatingOrFailed"},
            [
                f'{PATH}.template.spec.podReplacementPolicy: Invalid value: "TerminatingOrFailed": replicatedJob workers: must be set to Failed when in-place restart is enabled'
            ],
        ),
        (
            {"backoffLimit": MAX, "podReplacementPolicy": "Failed", "parallelism": 2},
            [
                f"{PATH}.template.spec.completions: Invalid value: 1: replicatedJob workers: completions and parallelism must be set and equal to each other when in-place restart is enabled"
            ],
        ),
    ],
)
def test_5f_to_5h_in_place_restart(job: JSON, expected: list[str]):
    js = jobset(rjob(), failurePolicy={"restartStrategy": "InPlaceRestart"})
    js["spec"]["replicatedJobs"][0]["template"]["spec"] |= job
    assert errors(js, ALL_GATES) == expected


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
    "a pattern that is no regular expression": jobset(failurePolicy=rules({"onJobFailureMessagePatterns": ["("]})),
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


def test_every_fault_has_a_fix():
    for js, _ in REFUSED.values():
        assert all(error.fix and "{" not in error.fix for error in create_errors(stored(js), FeatureGates()))
