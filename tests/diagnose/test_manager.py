"""What `jobset explain` says where no manager holds the lease: whether one runs, and what it lacks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from diagnose.facts import Facts, SeenPod
from diagnose.gather import gather
from kube.client import Client
from tests.diagnose.test_look_ups import Refusing
from tests.support.explain.objects import NOW, at, causes, explanation_of, facts, job_of, lease, made
from tests.support.explain.stuck import a_set, condition

JSON = dict[str, Any]
POD = "jobset-controller-manager-0"
HUNG = {"name": "manager", "ready": False, "state": {"running": {}}}
CRASHES = {**HUNG, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}


def manager(phase: str = "Running", *, ready: bool = False, container: JSON = HUNG) -> JSON:
    status = {"phase": phase, "conditions": [condition("Ready", "", status=str(ready))]}
    labels = {"control-plane": "controller-manager"}
    meta = {"name": POD, "namespace": "jobset-system", "labels": labels}
    return {"kind": "Pod", "metadata": meta, "status": {**status, "containerStatuses": [container]}}


def unheld(*managers: JSON) -> Facts:
    return facts(a_set(), lease=lease(ago=600), managers=tuple(msgspec.convert(of, SeenPod) for of in managers))


@pytest.mark.parametrize(
    ("pod", "cause", "says", "fix"),
    [
        (manager(), "manager-not-ready", f"; manager {POD} runs and is not ready", f"pods/{POD}:8081/proxy/readyz"),
        (
            manager(container=CRASHES),
            "manager-not-ready",
            f"manager {POD} does not run: container manager: CrashLoopBackOff",
            f"kubectl logs -n jobset-system {POD} --previous",
        ),
        (
            manager("Pending"),
            "manager-not-ready",
            f"; manager {POD} does not run: Pending",
            f"to fix: kubectl describe pod -n jobset-system {POD}",
        ),
        (manager(ready=True), "no-manager", "nor placed\n", "jobset cluster status"),
    ],
)
def test_a_manager_that_runs_without_the_lease(pod: JSON, cause: str, says: str, fix: str):
    text, body = explanation_of(unheld(pod))
    assert causes(body)[0] == cause
    assert says in text
    assert fix in text


def test_where_no_manager_is_seen_it_is_not_said_that_none_runs():
    text, body = explanation_of(unheld())
    assert causes(body)[0] == "no-manager"
    assert "no manager holds the lease in namespace jobset-system (none runs, or one that runs may not take it)" in text
    assert "jobset cluster status, which says as well what one that runs and is not ready lacks" in text


@pytest.mark.looptime
@pytest.mark.parametrize(("refused", "cause"), [((), "manager-not-ready"), (("pods",), "no-manager")])
async def test_the_managers_pods_are_looked_up(refused: tuple[str, ...], cause: str):
    js = a_set()
    js["metadata"]["namespace"] = "default"
    cluster = Refusing(js, manager())
    cluster.refused = refused
    found = await gather(Client(cluster), "default", "train", NOW)
    _, body = explanation_of(found)
    assert causes(body)[0] == cause
    assert ("the manager's pods: you may not list pods in namespace jobset-system" in found.unseen) is bool(refused)


def noted(said: str, *managers: JSON) -> Facts:
    body = lease(ago=600)
    body["metadata"] = {"annotations": {"jobset.sigs.k8s.io/manager-not-ready": said}}
    return facts(a_set(), lease=body, managers=tuple(msgspec.convert(of, SeenPod) for of in managers))


CACHES = "pods not listed yet: list /api/v1/pods: 403 Forbidden: pods is forbidden"


@pytest.mark.parametrize(
    ("why", "managers", "fix"),
    [
        (CACHES, (), "kubectl apply --server-side --force-conflicts -k manifests/rbac gives it its rights back"),
        ("the manager may not create jobs.batch: apply its ClusterRoles again", (), "-k manifests/rbac gives it its"),
        ("the webhook server has not been started yet", (), "the message says what to do"),
        ("certificates are not ready", (manager(),), f"pods/{POD}:8081/proxy/readyz"),
    ],
)
def test_a_manager_that_is_not_ready_says_why_at_the_lease(why: str, managers: tuple[JSON, ...], fix: str):
    text, body = explanation_of(noted(f"{at(NOW)} {POD}: {why}", *managers))
    assert causes(body)[0] == "manager-not-ready"
    assert f"manager {POD} runs and is not ready: {why} (said 0 s ago); until then Jobs are neither created nor" in text
    assert "no manager holds the lease" not in text
    assert fix in body["because"][0]["remedy"]


@pytest.mark.parametrize("said", ["", "nonsense", "yesterday m: why", f"{at(NOW - timedelta(minutes=4))} m: old"])
def test_an_old_note_at_the_lease_or_none_counts_for_nothing(said: str):
    assert causes(explanation_of(noted(said))[1])[0] == "no-manager"


def test_a_leader_that_lacks_a_right_says_so_where_a_set_waits_for_it():
    js = a_set()
    body = lease()
    body["metadata"] = {"annotations": {"jobset.sigs.k8s.io/manager-not-ready": f"{at(NOW)} m: the manager may not x"}}
    text, found = explanation_of(facts(js, lease=body))
    assert causes(found)[0] == "leader-not-ready"
    assert "manager m holds the lease and is not ready: the manager may not x (said 0 s ago)" in text
    ready = made(job_of(js, 0), active=1, ready=1)
    assert "leader-not-ready" not in causes(explanation_of(facts(js, [ready], lease=body))[1]), "it waits for nothing"
