"""What `jobset explain` says of pods that need features which nodes have to declare."""

from __future__ import annotations

from typing import Any

import pytest

from diagnose.nodes import Nodes
from tests.diagnose.test_nodes import node, nodes, unscheduled
from tests.support.explain.objects import causes, explanation_of, facts, job_of, lease, made
from tests.support.objects.jobsets import jobset, rjob, stored

JSON = dict[str, Any]
SAID = "0/2 nodes are available: 2 node(s) didn't match Pod's required features"
IN_PLACE = {"failurePolicy": {"restartStrategy": "InPlaceRestart", "maxRestarts": 3}}
FEATURE = "RestartAllContainersOnContainerExits"
SHOW = "kubectl get nodes -o custom-columns='NODE:.metadata.name,VERSION:.status.nodeInfo.kubeletVersion"


def declaring(*features: str) -> Nodes:
    body = node()
    body["status"]["declaredFeatures"] = list(features)
    return nodes(body, node("old"))


def rules(action: str) -> JSON:
    return {"name": "main", "restartPolicy": "Never", "restartPolicyRules": [{"action": action}]}


def said(
    there: Nodes | None, *, js: JSON | None = None, message: str = SAID, main: JSON | None = None, **pod: Any
) -> JSON:
    """The finding about a pod that the scheduler says this of."""
    stuck = made(stored(jobset(rjob(), namespace="team-a", **(js or {}))))
    job = made(job_of(stuck, 0), active=1, ready=0)
    body = unscheduled(job, message, containers=(main or rules("RestartAllContainers"),), **pod)
    found: JSON = explanation_of(facts(stuck, [job], [body], lease=lease(), node_offers=there))[1]["because"][0]
    return found


@pytest.mark.parametrize(
    ("there", "who"), [(declaring(), "no node declares"), (None, "nodes that it may use do not declare")]
)
def test_the_feature_that_a_pod_needs_is_named(there: Nodes | None, who: str):
    finding = said(there, js=IN_PLACE)
    by = "restartPolicyRules with action RestartAllContainers"
    assert finding["what"].endswith(f"is not scheduled: {who} the feature {FEATURE}, which it needs for {by}")
    assert (finding["level"], finding["cause"]) == ("fault", "no-such-feature")
    assert finding["remedy"].startswith("write failurePolicy.agent.mode: MainContainer in a new JobSet")
    assert SHOW in finding["remedy"]


def test_a_set_that_does_not_restart_in_place_does_without_the_rules():
    by = "restartPolicyRules with action RestartAllContainers"
    assert said(declaring())["remedy"].startswith(f"do without {by} in a new JobSet, or have an administrator")


def test_user_namespaces_on_the_network_of_the_node():
    finding = said(declaring(FEATURE), js=IN_PLACE, hostNetwork=True, hostUsers=False)
    assert "the feature UserNamespacesHostNetworkSupport, which it needs for hostNetwork with hostUsers: false" in str(
        finding
    )
    assert finding["remedy"].startswith("do without hostNetwork with hostUsers: false in a new JobSet")


@pytest.mark.parametrize(
    "given",
    [
        {"there": declaring(FEATURE)},
        {"there": declaring(), "main": rules("Restart")},
        {"there": declaring(), "hostNetwork": True, "main": {"name": "main"}},
        {"there": declaring(), "message": "0/2 nodes are available: 2 Too many pods"},
    ],
)
def test_features_that_are_declared_or_not_needed_are_not_named(given: JSON):
    finding = said(given.pop("there"), **given)
    assert "no-such-feature" not in [finding["cause"], *causes(finding)]
