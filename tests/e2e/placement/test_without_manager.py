"""What still starts while no manager, or none that serves webhooks, runs."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from api import keys
from dev import local
from manifests import PodAdmission, pod_policies
from manifests.naming import MUTATING_CONFIGURATION, VALIDATING_CONFIGURATION
from tests.support.cluster.manager import LEASE
from tests.support.cluster.racks import (
    LITTLE,
    PER_RACK,
    RACKS,
    RackNamespace,
    condition,
    exclusive,
    gates,
    index,
    label,
    pod_spec,
)
from tests.support.cluster.requests import request, uids

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
WEBHOOKS = (
    f"mutatingwebhookconfigurations/{MUTATING_CONFIGURATION}",
    f"validatingwebhookconfigurations/{VALIDATING_CONFIGURATION}",
)
POLICIES = {
    f"{'mutating' if body['kind'].startswith('Mutating') else 'validating'}admission"
    f"{'policybindings' if body['kind'].endswith('Binding') else 'policies'}/{body['metadata']['name']}"
    for body in [*pod_policies("gate"), *pod_policies("affinity")]
}
INDEXED = {"completionMode": "Indexed", "backoffLimit": 20}
"""Of a Job that creates lost pods again; what a mutating webhook would have set, too."""


def admitted(rack_namespace: RackNamespace, completion_index: str) -> dict:
    """The specification that a pod of an exclusive Job would get now; empty while it would be refused."""
    marks = {keys.JOBSET_NAME: "probe", keys.JOB_KEY: "0" * 40}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "probe", "uid": "0", "controller": True}
    own = {keys.EXCLUSIVE_TOPOLOGY: "rack", keys.COMPLETION_INDEX: completion_index}
    meta = {"name": "probe", "labels": marks, "annotations": marks | own, "ownerReferences": [owner]}
    status, answer = request(
        rack_namespace.cluster,
        "POST",
        f"{rack_namespace.url('pods')}?dryRun=All",
        {"metadata": meta, "spec": pod_spec()},
    )
    return answer["spec"] if status == 201 else {}


@pytest.fixture
def admit(rack_namespace: RackNamespace, tmp_path: Path) -> Iterator[Callable[[PodAdmission], local.Manager]]:
    """Has pods admitted by policies and no webhooks served at all; gives the manager, which only reconciles."""
    running: list[local.Manager] = []

    def switch(pods: PodAdmission) -> local.Manager:
        rack_namespace.manager.stop()
        for path in WEBHOOKS:
            request(rack_namespace.cluster, "DELETE", f"{ADMISSION}/{path}")
        local.install(rack_namespace.cluster, webhook_port=None, pods=pods)
        gated = pods == "policies"
        rack_namespace.until(lambda: "affinity" in admitted(rack_namespace, "0"), "the policy of leaders")
        rack_namespace.until(
            lambda: ("schedulingGates" if gated else "affinity") in admitted(rack_namespace, "1"), "that of followers"
        )
        flags, sections = ("--webhooks=false",), {"leaderElection": LEASE}
        running.append(local.start(rack_namespace.cluster, tmp_path, webhook_port=1, flags=flags, sections=sections))
        return running[-1]

    yield switch
    for manager in running:
        local.stop(manager)
    for path in POLICIES:
        request(rack_namespace.cluster, "DELETE", f"{ADMISSION}/{path}")
    local.install(rack_namespace.cluster, webhook_port=rack_namespace.manager.port)
    rack_namespace.manager.start()
    rack_namespace.until(lambda: _terms(admitted(rack_namespace, "0")) == [1, 1], "webhooks and no policies")


def _terms(spec: dict) -> list[int]:
    """How many terms of affinity and of anti-affinity a pod has."""
    affinity = spec.get("affinity", {})
    kinds = [affinity.get(kind, {}) for kind in ("podAffinity", "podAntiAffinity")]
    return [len(kind.get("requiredDuringSchedulingIgnoredDuringExecution", [])) for kind in kinds]


def test_what_is_not_placed_exclusively_needs_no_manager(rack_namespace: RackNamespace) -> None:
    """What is placed exclusively needs a manager, and continues where it was as soon as there is one."""
    rack_namespace.apply(exclusive("free", topology=None, pods=2, cpu=LITTLE, priority="low", job={"backoffLimit": 20}))
    rack_namespace.apply(exclusive(pods=3, job={"backoffLimit": 20}))
    (rack,) = rack_namespace.runs(pods=3).values()
    rack_namespace.until(
        lambda: [pod["status"].get("phase") for pod in rack_namespace.pods("free")] == ["Running"] * 2,
        "a set that runs",
    )
    (leader,), followers, lost = rack_namespace.leaders(), rack_namespace.followers(), rack_namespace.pods("free")[0]
    rack_namespace.manager.kill()

    rack_namespace.delete_pod(lost)
    rack_namespace.delete_pod(leader)
    rack_namespace.create("pods", {"metadata": {"name": "alone"}, "spec": pod_spec()})
    job = {"metadata": {"name": "plain"}, "spec": {"template": {"spec": pod_spec()}}}
    rack_namespace.create("jobs", job, group="/apis/batch/v1")

    def running() -> list[tuple[str, str]]:
        alive = [pod for pod in rack_namespace.all_pods() if pod["status"].get("phase") == "Running"]
        return sorted((label(pod, "job-name"), index(pod)) for pod in alive if uids([pod]) != uids([lost]))

    followers_run = [("js-w-0", "1"), ("js-w-0", "2")]
    expected = [("", ""), ("free-w-0", "0"), ("free-w-0", "1"), *followers_run, ("plain", "")]
    rack_namespace.until(lambda: running() == expected, "what needs no manager")
    refused = rack_namespace.until(
        lambda: [event for event in events(rack_namespace) if event["reason"] == "FailedCreate"], "a refusal"
    )
    assert "mpod.kb.io" in refused[0]["note"]

    rack_namespace.manager.start()
    assert rack_namespace.runs(pods=3) == {"js-w-0": rack}
    assert uids(rack_namespace.followers()) == uids(followers)


def events(rack_namespace: RackNamespace) -> list[dict]:
    return request(rack_namespace.cluster, "GET", rack_namespace.url("events", group="/apis/events.k8s.io/v1"))[1][
        "items"
    ]


def test_policies_that_gate_need_a_manager_but_no_webhooks(
    rack_namespace: RackNamespace, admit: Callable[[PodAdmission], local.Manager]
) -> None:
    admit("policies")
    rack_namespace.apply(exclusive(jobs=RACKS, job=INDEXED))
    assert len(rack_namespace.runs(pods=RACKS * PER_RACK)) == RACKS
    rack_namespace.apply(exclusive("more", job=INDEXED))
    rack_namespace.waits("more")
    followers = rack_namespace.until(
        lambda: len(found := rack_namespace.followers("more")) == PER_RACK - 1 and found, "its followers"
    )
    assert [gates(pod) for pod in followers] == [[keys.PLACEMENT_GATE]] * len(followers)
    rack_namespace.finish()
    assert len(rack_namespace.runs("more", pods=PER_RACK)) == 1
    assert uids(rack_namespace.followers("more")) == uids(followers)
    assert rack_namespace.refused_pods() == 0


@pytest.mark.slow
def test_policies_without_manager_bring_pods_back_to_their_domain_by_themselves(
    rack_namespace: RackNamespace, admit: Callable[[PodAdmission], local.Manager]
) -> None:
    manager = admit("policies-without-manager")
    rack_namespace.apply(exclusive(jobs=RACKS, pods=3, cpu=LITTLE, job=INDEXED))
    before = rack_namespace.runs(pods=RACKS * 3)
    lost = [rack_namespace.leaders()[0], rack_namespace.followers()[-1]]
    manager.kill()
    for pod in lost:
        rack_namespace.delete_pod(pod)
    rack_namespace.until(lambda: not uids(lost) & uids(rack_namespace.pods()), "the pods to go")
    assert rack_namespace.runs(pods=RACKS * 3) == before
    assert all(not condition(pod, "DisruptionTarget") for pod in rack_namespace.pods())
    assert all(gates(pod) == [] for pod in rack_namespace.pods())
    assert rack_namespace.refused_pods() == 0
