"""Gangs on real API servers: what admission says of one without the scheduling API, and what one with it stores."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.features import FeatureGates
from app.engine import engine
from authoring.rendering import as_stored, by_stage
from dev.cluster.cluster import Cluster
from dev.cluster.spec import ClusterSpec
from tests.support.cluster.admission import GROUPS, cluster_with_admission
from tests.support.cluster.kube_client import connected
from tests.support.cluster.manager import USER
from tests.support.cluster.requests import OwnCluster, request
from tests.support.corpus.manifests import case_id, cases
from tests.support.objects.jobsets import JSON, stored
from webhooks.jobset.answers import RULE_SUFFIX, warning_texts
from webhooks.jobset.cluster.checks import ClusterChecks

GATES = FeatureGates({"AllAlpha": True})
GANGS = [case for case in cases("good") if case.id.startswith("scheduling-")]
PATHS = {
    "Workload": "/apis/scheduling.k8s.io/v1beta1/namespaces/default/workloads",
    "PodGroup": "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups",
    "CompositePodGroup": "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/compositepodgroups",
    "Job": "/apis/batch/v1/namespaces/default/jobs",
}


@pytest.fixture(scope="module")
def with_api(tmp_path_factory: pytest.TempPathFactory, binaries: Any) -> Iterator[Cluster]:
    """An API server with the scheduling API, and our webhooks."""
    with cluster_with_admission("gangs", tmp_path_factory.mktemp("gangs"), binaries, GATES) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def without_api(own_cluster: OwnCluster) -> Iterator[Cluster]:
    """An API server as Kubernetes 1.37 is by default."""
    with own_cluster(ClusterSpec(name="nogangs", profile="api", gang=False)) as cluster:
        yield cluster


async def said(kubeconfig: Path, js: JSON) -> list[str]:
    async with connected(kubeconfig) as (client, _):
        found = await ClusterChecks(client, timeout=8.0).findings_about_new(js, (), GATES, namespace="default")
    # The clusters have no nodes.
    about = [text for text in warning_texts(found) if text.startswith("spec.scheduling")]
    return [text for text in about if "no node has the label" not in text]


def of(name: str) -> JSON:
    js = next(case for case in GANGS if case.id == name).manifest
    js["metadata"]["namespace"] = "default"
    return stored(js)


async def test_a_server_without_the_api_is_warned_of_and_one_with_it_is_not(with_api, without_api):
    manager = with_api.kubeconfig_for(USER, GROUPS)
    for name, missing in (("scheduling-whole-set", "podgroups"), ("scheduling-superslice", "podgroups")):
        texts = await said(without_api.kubeconfig, of(name))
        assert missing in texts[0]
        assert [RULE_SUFFIX.sub("", text) for text in texts[1:]] == [
            "spec.scheduling: needs --feature-gates=GenericWorkload=true",
            "spec.scheduling: and kube-apiserver --runtime-config=scheduling.k8s.io/v1beta1=true",
        ]
        assert await said(manager, of(name)) == []


@pytest.mark.parametrize("case", GANGS, ids=case_id)
def test_what_is_rendered_is_taken_and_kept_whole(with_api, case):
    found = engine(GATES).findings_about_new(case.manifest)
    assert found.errors == ()
    for _, body in by_stage(as_stored(found.object, GATES), GATES):
        if body["kind"] not in PATHS:
            continue
        path = f"{PATHS[body['kind']]}?dryRun=All&fieldValidation=Strict"
        status, kept = request(with_api, "POST", path, body)
        assert status == 201, kept
        # Claims need a feature gate of their own, DRAWorkloadResourceClaims, which is off here.
        assert [place for place in lost(body["spec"], kept["spec"]) if not place.endswith(".resourceClaims")] == []


def lost(sent: Any, kept: Any, place: str = "") -> list[str]:
    """Places of what was sent and is not there; a gate that is off takes fields without a word."""
    if isinstance(sent, dict):
        kept = kept if isinstance(kept, dict) else {}
        return [
            where
            for name, value in sent.items()
            for where in ([f"{place}.{name}"] if name not in kept else lost(value, kept[name], f"{place}.{name}"))
        ]
    if isinstance(sent, list):
        if not isinstance(kept, list) or len(kept) < len(sent):
            return [place]
        pairs = enumerate(zip(sent, kept, strict=False))
        return [where for i, (one, other) in pairs for where in lost(one, other, f"{place}[{i}]")]
    return [] if sent == kept else [place]
