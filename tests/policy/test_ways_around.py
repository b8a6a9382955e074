"""What went by a rule: it stood in another field than the rule looked at, or said the same in another way."""

from typing import Any

import pytest

from tests.support.objects.jobsets import rjob
from tests.support.objects.policies import judged, of_pod, places, policy, texts

JOB = "spec.replicatedJobs[0].template."
AGENT = "spec.failurePolicy.agent"


def with_agent(**rjobs: Any) -> Any:
    """Two ReplicatedJobs whose pods restart in place; of the first the second may wait."""
    policy = {"restartStrategy": "InPlaceRestart", "agent": {"image": "evil.example/agent:1"}}
    return judged(rjob("a"), rjob("b", **rjobs), failurePolicy=policy)


def test_what_the_agent_adds_to_pods_is_judged_once_where_its_author_names_it():
    js = with_agent()
    good = {"allowed": ["docker.io"]}
    assert places(js, imageRegistries=good) == [f"{AGENT}.image"]
    assert [place for place in places(js, imagesByDigest=True) if "agent" in place] == [f"{AGENT}.image"]
    memory = {"resources": [{"name": "memory", "max": "63Mi"}]}
    assert places(js, maxTotals=memory) == [AGENT]
    assert places(js, requiredLimits={"resources": ["cpu"]}, forbid=["hostPath", "capabilities", "seccomp"]) == [
        f"{JOB}spec.template.spec.containers[0].resources.limits.cpu".replace(
            "[0].template", f"[{i}].template", 1
        ).removeprefix("spec.replicatedJobs[0].template.spec.template.spec.")
        for i in range(2)
    ]


def test_the_image_of_an_agent_that_is_a_volume_is_judged_where_its_author_names_it():
    agent = {"image": "evil.example/agent:1", "mode": "MainContainer", "imageVolume": True}
    js = judged(rjob("a"), rjob("b"), failurePolicy={"restartStrategy": "InPlaceRestart", "agent": agent})
    assert places(js, imageRegistries={"allowed": ["docker.io"]}) == [f"{AGENT}.image"]


def test_a_template_of_which_no_pod_can_be_built_is_judged_as_it_is_written():
    nameless = {"containers": [{"image": "evil.example/x", "volumeMounts": [{"mountPath": "/d"}]}]}
    claims = [{"templates": [{"metadata": {"name": "data"}}]}]
    js = judged(rjob(pod=nameless), volumeClaimPolicies=claims)
    assert places(js, imageRegistries={"allowed": ["docker.io"]}) == ["containers[0].image"]


def test_pods_that_get_no_agent_do_not_have_its_image():
    own = {"initContainers": [{"name": "jobset-agent", "image": "x"}]}
    waits = [{"name": "b", "status": "Complete"}]
    policy = {"restartStrategy": "InPlaceRestart", "agent": {"image": "evil.example/agent:1"}}
    js = judged(rjob("a", pod=own, dependsOn=waits), rjob("b"), failurePolicy=policy)
    assert places(js, imageRegistries={"allowed": ["docker.io"]}) == []
    recreated = judged(failurePolicy={"agent": {"image": "evil.example/agent:1"}})
    assert places(recreated, imageRegistries={"allowed": ["docker.io"]}) == []


FREE, STEP = "RestartJobSetAndIgnoreMaxRestarts", {"afterRestarts": 1, "action": "RestartJobSetAndIgnoreMaxRestarts"}


@pytest.mark.parametrize(
    ("failure_policy", "found"),
    [
        ({"maxRestarts": 3, "rules": [{"action": "RestartJobSet", "maxRestarts": 9}]}, []),
        ({"maxRestarts": 2, "rules": [{"action": FREE, "maxRestarts": 1}]}, []),
        ({"maxRestarts": 2, "rules": [{"action": FREE, "maxRestarts": 2}]}, ["spec.failurePolicy.maxRestarts"]),
        ({"rules": [{"action": FREE, "maxRestarts": 2}] * 2}, ["spec.failurePolicy.rules[0].maxRestarts"]),
        (
            {"rules": [{"action": "RestartJob", "maxRestarts": 4, "then": [STEP]}]},
            ["spec.failurePolicy.rules[0].maxRestarts"],
        ),
        (
            {"maxRestarts": -9, "rules": [{"action": FREE, "maxRestarts": 4}]},
            ["spec.failurePolicy.rules[0].maxRestarts"],
        ),
    ],
)
def test_restarts_that_do_not_count_are_added(failure_policy: dict[str, Any], found: list[str]):
    assert places(judged(failurePolicy=failure_policy), maxRestarts={"max": 3}) == found


def test_the_restarts_in_all_are_told_with_what_they_are_made_of():
    js = judged(failurePolicy={"maxRestarts": 2, "rules": [{"action": FREE, "maxRestarts": 5}]})
    (said,) = texts(js, policy(maxRestarts={"max": 3}))
    assert said == (
        "spec.failurePolicy.rules[0].maxRestarts: Forbidden: policy limits: 7 restarts in all, and at most 3 allowed;"
        " write smaller numbers: spec.failurePolicy.maxRestarts has 2; spec.failurePolicy.rules[0].maxRestarts has 5"
    )


def test_an_unlimited_action_is_found_wherever_it_is_named():
    rules = [
        {"action": FREE},
        {"action": FREE, "maxRestarts": 1, "then": [STEP]},
        {"action": "RestartJob", "then": [STEP]},
    ]
    js = judged(
        failurePolicy={"rules": rules, "nodeFailure": {"afterSeconds": 1, "action": "RestartJobAndIgnoreMaxRestarts"}}
    )
    assert places(js, maxRestarts={"forbidUnlimitedActions": True}) == [
        "spec.failurePolicy.nodeFailure.action",
        "spec.failurePolicy.rules[0].action",
        "spec.failurePolicy.rules[2].then[0].action",
    ]


@pytest.mark.parametrize("elsewhere", [{}, {"namespaces": ["x"]}, {"namespaceSelector": {}}])
@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_affinity_to_pods_selects_nodes(kind: str, elsewhere: dict[str, Any]):
    required, preferred = (f"{each}DuringSchedulingIgnoredDuringExecution" for each in ("required", "preferred"))
    terms = [{**elsewhere, "topologyKey": key} for key in ("free", "other", "pool")]
    found = places(
        of_pod(affinity={kind: {required: terms, preferred: [{"podAffinityTerm": terms[1]}]}}),
        nodeSelectors={"allowed": [{"key": "free"}, {"key": "pool", "values": ["a"]}]},
    )
    place = f"affinity.{kind}."
    bad = [
        f"{place}{preferred}[0].podAffinityTerm.topologyKey",
        *(f"{place}{required}[{i}].topologyKey" for i in (1, 2)),
    ]
    assert found == ([] if kind == "podAntiAffinity" and not elsewhere else bad)


def test_a_pod_on_a_named_node_is_looked_at_by_no_taint():
    assert places(of_pod(nodeName="n"), tolerations={"allowed": []}) == ["nodeName"]
