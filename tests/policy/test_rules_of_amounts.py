"""Rules about amounts, resources and devices beyond their examples in examples/policies."""

import json
from typing import Any

import pytest

from policy.judged import Namespace
from tests.support.corpus.quantities import recorded
from tests.support.objects.jobsets import JSON, rjob
from tests.support.objects.policies import judged, of_pod, places, policy, texts

CLASS = "deviceclass.resource.kubernetes.io/gpu"
CLAIM = {"name": "gpu", "resourceClaimTemplateName": "gpu"}
NAMED = {"name": "net", "resourceClaimName": "net"}
LIMIT = {"resources": [{"name": "x/gpu", "max": 8}]}


def asking(value: Any, resource: str = "x/gpu", kind: str = "limits") -> JSON:
    return {"resources": {kind: {resource: value}}}


@pytest.mark.parametrize("text", ["1e0003", "0" * 65 + "9", "1000." + "0" * 65, "1e+03", "9", "8.1", "1Ki", "1E"])
def test_no_spelling_of_an_amount_goes_around_a_limit(text: str):
    (place,) = places(of_pod(containers=[asking(text)]), maxTotals=LIMIT)
    assert place == "containers[0].resources.limits[x/gpu]"


def test_what_no_pod_can_have_is_a_violation_and_never_0():
    """Whatever the schema lets through: each amount that the API server cannot read, and each negative one."""
    for case, answer in recorded().items():
        value = json.loads(case)
        if answer.schema and value is not None and (answer.amount is None or answer.amount.startswith("-")):
            assert places(of_pod(containers=[asking(value)]), maxTotals=LIMIT), case


@pytest.mark.parametrize(
    ("pod", "place"),
    [
        ({"containers": [{}], "initContainers": [asking("-1", "cpu")]}, "initContainers[0].resources.limits.cpu"),
        ({"containers": [asking(1, "cpu")], "overhead": {"cpu": "1e.5"}}, "overhead.cpu"),
        ({"containers": [{}], **asking("2P", "cpu", "requests")}, "resources.requests.cpu"),
        ({"containers": [{"resources": {"limits": {"cpu": "1e.5"}, "requests": {"cpu": "1"}}}]}, ""),
        ({"containers": [asking("1e.5", "memory")]}, ""),
        ({"containers": [{"resources": {"limits": {"cpu": 3}, "requests": {"cpu": None}}}]}, "containers[0].resources.limits.cpu"),
    ],
)  # fmt: skip
def test_amounts_are_looked_at_wherever_they_count(pod: JSON, place: str):
    found = places(of_pod(**pod), maxTotals={"resources": [{"name": "cpu", "max": 2}]})
    assert found == ([place] if place else [])


def test_amounts_without_a_limit_in_the_namespace_are_not_looked_at():
    js, rules = of_pod(containers=[asking("1e.5")]), {"resources": [{"name": "x/gpu", "fromNamespaceLabel": "gpus"}]}
    assert texts(js, policy(maxTotals=rules)) == []
    assert len(texts(js, policy(maxTotals=rules), namespace=Namespace("a", {"gpus": "8"}))) == 1


def test_an_update_may_keep_an_amount_that_cannot_be_counted():
    old, new = of_pod(containers=[asking("1e.5")]), of_pod(containers=[asking("1e.7")])
    assert texts(old, policy(maxTotals=LIMIT), old=old) == []
    assert len(texts(new, policy(maxTotals=LIMIT), old=old)) == 1


def claimed(**scheduling: Any) -> str:
    """What is said about too many claims of eight pods and four more, and of their groups."""
    first = rjob("a", replicas=4, parallelism=2, completions=2, pod={"resourceClaims": [CLAIM, {**CLAIM, "name": "b"}]})
    more = rjob("b", replicas=4, pod={"resourceClaims": [NAMED], "containers": [asking(1, CLASS)]})
    entry = {"targetReplicatedJobs": ["a", "b"], **scheduling}
    extra = {"scheduling": {"replicatedJobs": [entry]}} if scheduling else {}
    (text,) = texts(judged(first, more, **extra), policy(maxTotals={"resourceClaims": {"max": 1}}))
    return text


def test_claims_of_pods_are_counted():
    assert claimed() == (
        "spec.replicatedJobs[0].replicas: Forbidden: policy limits: 21 resource claims, and at most 1 allowed; reduce"
        " replicas, parallelism or requests: a has 8 x 2 = 16; b has 4 x 1 = 4; 1 by name"
    )


def test_claims_of_groups_are_counted():
    other = {"name": "other", "resourceClaimName": "other"}
    assert "30 resource claims" in claimed(job={"resourceClaims": [CLAIM, NAMED, other]})
    assert "23 resource claims" in claimed(resourceClaims=[CLAIM, NAMED, other])
    assert claimed(job={"resourceClaims": [CLAIM]}).endswith("b has 4 x 1 = 4; groups have 8; 1 by name")


def test_every_claim_for_devices_is_forbidden():
    entry = {"targetReplicatedJobs": ["workers"], "resourceClaims": [CLAIM], "job": {"resourceClaims": [NAMED]}}
    pod = {"resourceClaims": [CLAIM, NAMED], "containers": [{}], "initContainers": [asking(1, CLASS)]}
    js = judged(rjob(pod=pod), scheduling={"replicatedJobs": [entry]})
    assert places(js, forbid=["resourceClaims"]) == [
        f"initContainers[0].resources.limits[{CLASS}]",
        "resourceClaims[0]",
        "resourceClaims[1]",
        "spec.scheduling.replicatedJobs[0].job.resourceClaims[0]",
        "spec.scheduling.replicatedJobs[0].resourceClaims[0]",
    ]
    assert places(judged(), forbid=["resourceClaims"]) == []


def test_resources_that_are_not_listed_are_refused_wherever_they_stand():
    pod = {
        "containers": [asking(1, "cpu"), asking(1), asking(1, CLASS, "requests")],
        "initContainers": [asking(1, "hugepages-2Mi")],
        "resources": {"limits": {"memory": 1}},
        "overhead": {"cpu": 1, "memory": 1},
    }
    assert places(of_pod(**pod), allowedResources=["cpu", "hugepages-2Mi"]) == [
        "containers[1].resources.limits[x/gpu]",
        f"containers[2].resources.requests[{CLASS}]",
        "overhead.memory",
        "resources.limits.memory",
    ]
    (text, *_) = texts(of_pod(**pod), policy(allowedResources=["cpu", "x/gpus"]))
    assert text.endswith('Unsupported value: "x/gpu": policy limits: this resource is not allowed; did you mean "x/gpus"?'
                         ' allowed are: "cpu", "x/gpus"')  # fmt: skip
