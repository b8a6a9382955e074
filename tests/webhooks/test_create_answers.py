"""The answer to a JobSet with several faults: all of them, in order, each with a way to correct it."""

import pytest

from api.features import FeatureGates
from kube.model.field import ErrorType, FieldError, Path, Rule
from tests.support.objects.creates import create_errors, rules
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from webhooks.jobset.answers import jobset_answer
from webhooks.jobset.engine import Findings


def test_all_faults_come_at_once_by_path():
    js = jobset(
        rjob("A", dependsOn=[], groupName="G"),
        failurePolicy=rules({"name": "?"}, restartStrategy="InPlaceRestart"),
        successPolicy={"operator": "All", "targetReplicatedJobs": ["x"]},
        network={"subdomain": "a.b"},
        managedBy="",
        coordinator={"replicatedJob": "x"},
        ttlSecondsAfterFinished=-1,
        startupPolicy={"startupPolicyOrder": "InOrder"},
    )
    assert [str(e.path) for e in create_errors(stored(js), FeatureGates())] == [
        "spec.coordinator.replicatedJob",
        "spec.failurePolicy.restartStrategy",
        "spec.failurePolicy.rules[0].name",
        "spec.managedBy",
        "spec.network.subdomain",
        "spec.replicatedJobs[0].dependsOn",
        "spec.replicatedJobs[0].dependsOn",
        "spec.replicatedJobs[0].groupName",
        "spec.replicatedJobs[0].name",
        "spec.replicatedJobs[0].template.spec.backoffLimit",
        "spec.replicatedJobs[0].template.spec.podReplacementPolicy",
        "spec.successPolicy.targetReplicatedJobs[0]",
        "spec.ttlSecondsAfterFinished",
    ]


@pytest.mark.parametrize(
    ("js", "words"),
    [
        (jobset(successPolicy={"operator": "All", "targetReplicatedJobs": ["werkers"]}), 'did you mean "workers"?'),
        (jobset(coordinator={"replicatedJob": "driver"}), 'the ReplicatedJobs are: "workers"'),
        (jobset(rjob("a"), rjob("b", dependsOn=[{"name": "c", "status": "Ready"}])), 'the others are: "a"'),
        (jobset(rjob("a"), rjob("b", dependsOn=[{"name": "b", "status": "Ready"}])), "it would never start"),
        (jobset(failurePolicy=rules({"onJobFailureReasons": ["OOMKilled"]})), "a reason of containers: write it into onPodReasons"),
        (jobset(failurePolicy=rules({"onJobFailureReasons": ["evicted"]})), "a reason of pods: write it into onPodReasons"),
        (jobset(failurePolicy=rules({"onJobFailureReasons": ["DeadlineExceed"]})), 'did you mean "DeadlineExceeded"?'),
        (jobset(network={"subdomain": "My_Net"}), 'such as "my-net"'),
        (jobset(rjob(replicas=101, completions=None), name="n" * 52), "shorten metadata.name by 1, such as to"),
        (jobset(coordinator={"replicatedJob": "workers", "jobIndex": 4}), "use a number below 1"),
        (jobset(managedBy="a" * 64), "shorten it by 1 bytes"),
    ],
)  # fmt: skip
def test_the_answer_says_how_to_fix_it(js: JSON, words: str):
    assert words in " ".join(error.fix for error in create_errors(stored(js), FeatureGates()))


def test_each_broken_rule_is_named_once_for_metrics():
    """`other` stands for all faults of rules without an id."""
    path = Path("spec")
    rule = Rule("some-rule", ErrorType.INVALID, "", "", "")
    unnamed = FieldError(path, ErrorType.INVALID)
    found = Findings((rule.at(path), rule.at(path), unnamed, unnamed), (), {})
    assert jobset_answer(found, {}).rule_ids == ("other", "some-rule")
    assert jobset_answer(Findings((), (rule.at(path),), {}), {}).rule_ids == ()


NAMED = "Jobs are named <JobSet>-<ReplicatedJob>-<index>: change "


@pytest.mark.parametrize(
    ("js", "fix"),
    [
        (jobset(name="llama3.1"), f'{NAMED}metadata.name to "llama3-1"'),
        (jobset(name="3d-unet"), f'{NAMED}metadata.name to "js-3d-unet"'),
        (jobset(rjob("My_Workers")), f"{NAMED}the ReplicatedJob's name to \"my-workers\""),
        (jobset(rjob("W"), name="a.b"), f'{NAMED}metadata.name to "a-b" and the ReplicatedJob\'s name to "w"'),
        (jobset(rjob("\N{LATIN SMALL LETTER E WITH ACUTE}")), f"{NAMED}the ReplicatedJob's name, which may have lower case letters, digits and '-'"),
        (jobset(rjob(completions=None), name=f"{'n' * 50}-abcdef"), f'shorten metadata.name by 4, such as to "{"n" * 50}-ab"'),
        (jobset(rjob("w" * 60, completions=None), name="ab"), f"shorten the ReplicatedJob's name by 2, such as to \"{'w' * 58}\""),
    ],
)  # fmt: skip
def test_the_name_that_is_to_blame_is_the_one_to_change(js: JSON, fix: str):
    (error,) = create_errors(stored(js), FeatureGates())
    assert (str(error.path), error.fix) == ("spec.replicatedJobs[0].name", fix)


def test_of_a_set_that_gets_its_name_later_the_prefix_is_to_blame():
    js = jobset(rjob(completions=None))
    js["metadata"] = {"generateName": "llama3.1-", "namespace": "default"}
    (error,) = create_errors(stored(js), FeatureGates())
    assert error.fix == f'{NAMED}metadata.generateName to "llama3-1"'
