"""What the API server is too old for is said in words. On the newest none of it is; see `make test-kubernetes`."""

import json
from pathlib import Path
from typing import Any

import pytest

from api.features import FeatureGates
from controllers.policy.enforcement import APPLIED
from dev.cluster.cluster import Cluster
from kube.model import versions
from kube.model.versions import Feature, parse_version
from manifests.objects import ROOT
from policy.conditions import IN_API_SERVER
from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.kube_client import connected
from tests.support.cluster.requests import kubectl, request, wait_for
from tests.support.objects.policies import manifest as policy
from webhooks.jobset.answers import warning_texts
from webhooks.jobset.cluster.checks import ClusterChecks

GATES = FeatureGates({"AllAlpha": True})
GANG: dict[str, Any] = {"scheduling": {"schedulingPolicy": {"gang": {}}}}
AGENT: dict[str, Any] = {"restartStrategy": "InPlaceRestart", "agent": {"image": "agent"}}
POLICIES = "/apis/policy.jobset.x-k8s.io/v1alpha1/jobsetpolicies"


def shortfall(cluster: Cluster, feature: Feature) -> str:
    """What has to be said of the feature; empty where the API server has it."""
    return feature.shortfall(parse_version(json.dumps(request(cluster, "GET", "/version")[1]).encode()))


async def warned(kubeconfig: Path, spec: dict[str, Any]) -> list[str]:
    js = manifest(group(), **spec)
    async with connected(kubeconfig) as (client, _):
        return list(
            warning_texts(
                await ClusterChecks(client, timeout=8.0).findings_about_new(js, (), GATES, namespace="default")
            )
        )


@pytest.mark.parametrize(
    ("spec", "feature"), [(GANG, versions.GANGS), ({"failurePolicy": AGENT}, versions.AGENT_SIDECAR)]
)
async def test_admission_names_the_version_that_a_set_needs(full_cluster: Cluster, spec: Any, feature: Feature) -> None:
    texts = " ".join(await warned(full_cluster.kubeconfig, spec))
    assert (feature.need in texts, "feature-gates" in texts) == (bool(shortfall(full_cluster, feature)), False)


@pytest.mark.manager(featureGates={"JobSetWorkloadAwareSchedulingAPI": True})
def test_explain_names_the_version_that_gangs_need(sets: Sets) -> None:
    sets.apply(manifest(group(), **GANG))
    said = shortfall(sets.cluster, versions.GANGS)
    text = sets.wait_explained(said or "1 of 1 Job ready")
    assert "feature-gates" not in text


@pytest.mark.manager(featureGates={"JobSetPolicies": True})
@pytest.mark.usefixtures("served_policies", "manager")
def test_a_policy_names_the_version_that_keeping_it_needs(full_cluster: Cluster) -> None:
    rights = ("-k", str(ROOT / "policy-in-api-server"))
    kubectl(full_cluster, "apply", "--server-side", *rights)
    body = policy("kept", ("Deny",), {"namespaceSelector": {"matchLabels": {"kept": "kept"}}}, maxJobs={"max": 3})
    body["spec"] |= {"apiServer": "Enforce", "defaults": {"labels": {"a": "b"}}}
    assert request(full_cluster, "POST", POLICIES, body)[0] == 201

    def told() -> str:
        status = request(full_cluster, "GET", f"{POLICIES}/kept")[1].get("status") or {}
        return next((each["message"] for each in status.get("conditions", ()) if each["type"] == IN_API_SERVER), "")

    needed = (shortfall(full_cluster, each) for each in (versions.COMPILED_RULES, versions.COMPILED_DEFAULTS))
    said = next(filter(None, needed), APPLIED.message)
    wait_for(lambda: told() == said, timeout=60, what=said, last=told)
    assert request(full_cluster, "DELETE", f"{POLICIES}/kept")[0] == 200
    compiled = "validatingadmissionpolicies,validatingadmissionpolicybindings"
    # The manager deletes the rest with these rights.
    wait_for(
        lambda: "jobset-policy-kept" not in kubectl(full_cluster, "get", compiled, "-o", "name"),
        what="its rules are gone",
    )
    kubectl(full_cluster, "delete", *rights)
