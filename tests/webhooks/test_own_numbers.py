"""What every schema takes and the JobSet's own numbers make impossible; and what only looks like it."""

from typing import Any

import pytest

from api.features import FeatureGates
from api.keys import EXCLUSIVE_TOPOLOGY, NODE_SELECTOR_STRATEGY
from app.engine import engine
from cli.rule.explanations import explanations
from tests.support.corpus.rule_examples import IN_PARTS, with_part
from tests.support.objects.jobsets import JSON, jobset, rjob
from webhooks.jobset.answers import MAX_WARNING_LENGTH, warning_texts

ENGINE = engine(FeatureGates({"AllAlpha": True}))
ZONE = "topology.kubernetes.io/zone"
ALWAYS = [{"name": "main", "image": "b"}, {"name": "logs", "image": "b", "restartPolicy": "Always"}]


def own_labels(**term: Any) -> JSON:
    return {"labelSelector": {"matchLabels": {"jobset.sigs.k8s.io/jobset-name": "js"}}, "topologyKey": ZONE, **term}


def spread(skew: int, **term: Any) -> JSON:
    constraint = own_labels(maxSkew=skew, whenUnsatisfiable="DoNotSchedule", **term)
    return {"topologySpreadConstraints": [constraint]}


def apart(**term: Any) -> JSON:
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [own_labels(**term)]}}}


def placed(pod: JSON, *, pods: int = 2, **annotations: str) -> JSON:
    js = one(pod, pods=pods)
    js["metadata"] |= {"name": "js", "annotations": {EXCLUSIVE_TOPOLOGY: ZONE, **annotations}}
    return js


def one(pod: JSON | None = None, *, pods: int = 2, job: JSON | None = None, **spec: Any) -> JSON:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "b"}], **(pod or {})}
    return jobset(rjob("a", parallelism=pods, completions=pods, pod=pod, job=job or {}), **spec)


def chips(each: int | str, pods: int, topology: str = "4x4", *, jobs: int = 1, exclusive: bool = False) -> JSON:
    main = {"name": "main", "image": "b", "resources": {"limits": {"google.com/tpu": each}}}
    selector = {"cloud.google.com/gke-tpu-topology": topology}
    js = one({"containers": [main], "nodeSelector": selector}, pods=pods)
    js["spec"]["replicatedJobs"][0]["replicas"] = jobs
    if exclusive:
        js["metadata"]["annotations"] = {EXCLUSIVE_TOPOLOGY: "cloud.google.com/gke-nodepool"}
    return js


def none_of(js: JSON) -> JSON:
    """Its spec with no Jobs."""
    return {"replicatedJobs": [{**group, "replicas": 0} for group in js["spec"]["replicatedJobs"]]}


def timeouts(limit: int, start: int) -> JSON:
    return one(activeDeadlineSeconds=limit, failurePolicy={"startTimeoutSeconds": start})


def success(**policy: Any) -> JSON:
    return jobset(rjob("a", pod={"containers": ALWAYS}), rjob("b"), successPolicy=policy)


CASES: dict[str, tuple[JSON, list[str]]] = {
    "no time": (one(job={"activeDeadlineSeconds": 0}), ["job-deadline-zero"]),
    "a second": (one(job={"activeDeadlineSeconds": 1}), []),
    "a sidecar among the containers": (one({"containers": ALWAYS}), ["container-always-restarts"]),
    "a sidecar in its list": (one({"initContainers": ALWAYS[1:]}), []),
    "one that counts": (success(operator="All", targetReplicatedJobs=["a"]), ["container-always-restarts"]),
    "a server that does not count": (success(operator="All", targetReplicatedJobs=["b"]), []),
    "a server beside any other": (success(operator="Any"), []),
    "a start after the end": (timeouts(60, 60), ["start-timeout-never"]),
    "a start before the end": (timeouts(60, 59), []),
    "one pod in a zone": (placed(apart()), ["apart-in-one-domain"]),
    "one pod on a node": (placed(apart(topologyKey="kubernetes.io/hostname")), []),
    "of other namespaces": (placed(apart(namespaces=["other"])), []),
    "of other pods": (placed(apart(labelSelector={"matchLabels": {"app": "other"}})), []),
    "a Job of one pod": (placed(apart(), pods=1), []),
    "without exclusive placement": (one(apart()), []),
    "by node selector": (placed(apart(), **{NODE_SELECTOR_STRATEGY: "true"}), []),
    "over two zones": (placed(spread(1, minDomains=2)), ["apart-in-one-domain"]),
    "over two zones, with room for all": (placed(spread(2, minDomains=2)), []),
    "over as many zones as count": (placed(spread(1)), []),
    "too few chips": (chips(4, 3), ["tpu-topology-not-filled"]),
    "chips that are a text": (chips("4", 5), ["tpu-topology-not-filled"]),
    "two whole slices": (chips(4, 8), []),
    "Jobs that share a slice": (chips(4, 1, jobs=4), []),
    "Jobs that have a slice each": (chips(4, 1, jobs=4, exclusive=True), ["tpu-topology-not-filled"]),
    "no Job without time": ({**(js := one(job={"activeDeadlineSeconds": 0})), "spec": none_of(js)}, ["no-jobs"]),
    "a part of a single node": (chips(4, 1, "2x4"), []),
    "a topology that is none": (chips(4, 3, "4xfour"), []),
}


@pytest.mark.parametrize("case", CASES)
def test_numbers_that_contradict_each_other_are_named(case: str):
    js, rules = CASES[case]
    found = ENGINE.findings_about_new(js)
    assert not found.errors
    assert [warning.rule.id for warning in found.warnings] == rules


@pytest.mark.parametrize("rule", IN_PARTS)
def test_no_warning_of_an_example_is_cut(rule: str):
    row = explanations()[rule]
    found = [each for each in ENGINE.findings_about_new(with_part(row.at, row.bad)).warnings if each.rule.id == rule]
    for warning, text in zip(found, warning_texts(found), strict=False):
        whole = f"{warning.path}: {warning.detail}; {warning.fix} [{rule}]"
        assert len(whole) <= MAX_WARNING_LENGTH, whole
        assert text.startswith(str(warning.path))
