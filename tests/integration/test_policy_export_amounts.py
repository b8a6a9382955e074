"""Exported policies about amounts and devices, judged by a real API server as by `jobset policy eval`."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from dev.cluster.cluster import Cluster
from kube.model.meta import JSON
from tests.integration.test_policy_export import LABELS, offline, remove, restricted, store, warnings
from tests.support.cluster.requests import drop_namespace, request, wait_for
from tests.support.corpus.quantities import recorded
from tests.support.objects.jobsets import jobset, rjob
from tests.support.objects.policies import manifest

NAMESPACE = "exported-amounts"
LARGEST = {"containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "1P"}}}]}


@pytest.fixture(scope="module")
def namespace(jobset_server: Cluster) -> Iterator[None]:
    body = {"metadata": {"name": NAMESPACE, "labels": LABELS}}
    assert request(jobset_server, "POST", "/api/v1/namespaces", body)[0] == 201
    yield
    drop_namespace(jobset_server, NAMESPACE)


def said(cluster: Cluster, policy: str, js: JSON) -> str:
    """What the exported policy says, nothing where it is met."""
    return warnings(cluster, js, NAMESPACE).get(policy, "")


def totals_of(value: Any, resource: str, *, count: int = 1, **pod: Any) -> JSON:
    containers = [{"name": f"c{i}", "image": "a", "resources": {"limits": {resource: value}}} for i in range(count)]
    return jobset(rjob(pod={"restartPolicy": "Never", "containers": containers, **pod}), namespace=NAMESPACE)


@pytest.fixture(scope="module")
def totals(jobset_server: Cluster, namespace: None) -> Iterator[JSON]:
    """A policy with limits of resources, one of which only the namespace has, that warns."""
    limits = [{"name": name, "max": 8} for name in ("cpu", "example.com/a")]
    limits.append({"name": "memory", "fromNamespaceLabel": "quota.example.com/gpus"})
    policy = restricted(manifest("totals", maxTotals={"resources": limits}), NAMESPACE, ["Warn"])
    store(jobset_server, policy)
    wait_for(lambda: said(jobset_server, "totals", totals_of("9", "cpu")), what="the policy")
    yield policy
    remove(jobset_server, policy)


def judged_alike(cluster: Cluster, policy: JSON, js: JSON) -> list[str]:
    """What the policy says without a cluster: the exported one has to find the same. It writes totals otherwise."""
    wanted, got = offline(policy, js), said(cluster, "totals", js)
    assert bool(got) is bool(wanted), (wanted, got)
    assert "resulted in error" not in got
    assert [finding for finding in wanted if finding not in got and "cannot be counted" in finding] == []
    return wanted


@pytest.mark.parametrize("resource", ["cpu", "memory", "example.com/a"])
def test_every_amount_is_judged_by_exported_totals_as_by_the_command(
    jobset_server: Cluster, totals: JSON, resource: str
):
    uncounted = 0
    for case, answer in recorded().items():
        if answer.schema not in {None, '"absent"'}:
            found = judged_alike(jobset_server, totals, totals_of(json.loads(case), resource))
            assert found or answer.amount is not None, case
            uncounted += any("cannot be counted" in each for each in found)
    assert uncounted > 0


@pytest.mark.parametrize(
    "js",
    [
        totals_of("1P", "cpu", count=15),
        totals_of("1P", "memory", count=15, overhead={"memory": "1P"}),
        jobset(*(rjob(name, replicas=10**6, parallelism=2**31 - 1, completions=None, pod=LARGEST) for name in "abc"),
               namespace=NAMESPACE),
        totals_of("1", "cpu", overhead={"cpu": "1e1.5"}),
        totals_of("1", "cpu", resources={"requests": {"cpu": "2P"}, "limits": {"example.com/a": "2P"}}),
        totals_of("0.0001", "cpu", count=3),
        totals_of("7999.1m", "cpu"),
    ],
    ids=["cpus", "bytes", "pods", "overhead", "whole pod", "fractions", "a fraction too many"],
)  # fmt: skip
def test_extreme_totals_are_judged_by_exported_totals_as_by_the_command(jobset_server: Cluster, totals: JSON, js: JSON):
    judged_alike(jobset_server, totals, js)


CLAIM = {"name": "gpu", "resourceClaimTemplateName": "gpu"}
NAMED = {"name": "net", "resourceClaimName": "net"}
OF_CLASS = {"requests": {"deviceclass.resource.kubernetes.io/gpu": "2"}}


@pytest.fixture(scope="module")
def devices(jobset_server: Cluster, namespace: None) -> Iterator[JSON]:
    """A policy about devices and resources that warns."""
    demanded = {
        "maxTotals": {"resourceClaims": {"max": 8}},
        "forbid": ["resourceClaims"],
        "allowedResources": ["cpu"],
    }
    policy = restricted(manifest("devices", **demanded), NAMESPACE, ["Warn"])
    store(jobset_server, policy)
    wait_for(lambda: said(jobset_server, "devices", totals_of("9", "example.com/a")), what="the policy")
    yield policy
    remove(jobset_server, policy)


def grouped(**entry: Any) -> JSON:
    scheduling = {"replicatedJobs": [{"targetReplicatedJobs": ["a"], **entry}]}
    return jobset(rjob("a", replicas=9), rjob("b", replicas=9), namespace=NAMESPACE, scheduling=scheduling)


@pytest.mark.parametrize(
    ("js", "findings"),
    [
        (jobset(rjob(replicas=9), namespace=NAMESPACE), 0),
        (jobset(rjob(replicas=3, parallelism=3, completions=3, pod={"resourceClaims": [CLAIM]}), namespace=NAMESPACE), 2),
        (jobset(rjob("a", replicas=8, pod={"resourceClaims": [CLAIM]}),
                *(rjob(name, replicas=0, pod={"resourceClaims": [NAMED]}) for name in "bc"), namespace=NAMESPACE), 4),
        (jobset(rjob(replicas=9, pod={"initContainers": [{"name": "i", "image": "a", "resources": OF_CLASS}]}), namespace=NAMESPACE), 3),
        (jobset(rjob(pod={"resources": {"limits": {"memory": "1"}}, "overhead": {"cpu": "1", "memory": "1"}}), namespace=NAMESPACE), 2),
        (grouped(job={"resourceClaims": [CLAIM]}), 2),
        (grouped(job={"resourceClaims": [NAMED]}), 1),
        (grouped(resourceClaims=[CLAIM, NAMED]), 2),
    ],
    ids=["none", "pods", "by name", "device class", "whole pods", "Jobs", "Jobs by name", "a group"],
)  # fmt: skip
def test_devices_are_judged_by_exported_policies_as_by_the_command(
    jobset_server: Cluster, devices: JSON, js: JSON, findings: int
):
    wanted, got = offline(devices, js), said(jobset_server, "devices", js)
    assert len(wanted) == findings
    assert [finding for finding in wanted if finding not in got] == []
    assert bool(got) is bool(wanted), got
