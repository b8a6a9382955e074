"""What `jobset explain` says where no manager acts: whether one runs, what it lacks, and whether webhooks were called."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from diagnose.facts import Facts, SeenPod
from diagnose.gather import gather
from kube.client import Client
from manifests.installed.webhook_switch import State, switched_off
from manifests.naming import MUTATING_CONFIGURATION
from tests.diagnose.test_look_ups import Refusing
from tests.support.explain.objects import NOW, at, causes, event, explained, explanation_of, facts, job_of, lease, made
from tests.support.explain.stuck import JSON, a_set, condition
from tests.support.model.fake_cluster import Cluster
from tests.support.objects.jobsets import jobset, rjob, stored

POD = "jobset-controller-manager-0"
HUNG = {"name": "manager", "ready": False, "state": {"running": {}}}
CRASHES = {**HUNG, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}


def manager(phase: str = "Running", *, ready: bool = False, container: JSON = HUNG) -> JSON:
    status = {"phase": phase, "conditions": [condition("Ready", "", status=str(ready))]}
    labels = {"control-plane": "controller-manager"}
    meta = {"name": POD, "namespace": "jobset-system", "labels": labels}
    return {"kind": "Pod", "metadata": meta, "status": {**status, "containerStatuses": [container]}}


def unheld(*managers: JSON) -> Facts:
    return facts(a_set(), lease=lease(ago=600), manager_pods=tuple(msgspec.convert(of, SeenPod) for of in managers))


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
    assert ("the manager's pods: you may not list pods in namespace jobset-system" in found.unread_notes) is bool(
        refused
    )


def noted(said: str, *managers: JSON) -> Facts:
    body = lease(ago=600)
    body["metadata"] = {"annotations": {"jobset.sigs.k8s.io/manager-not-ready": said}}
    return facts(a_set(), lease=body, manager_pods=tuple(msgspec.convert(of, SeenPod) for of in managers))


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


def ended(ago: float, *, jobs: int = 2, failed: bool = False, holder: str = "somebody") -> tuple[str, JSON]:
    """The explanation of a set of two Jobs, so many of which have ended, the last one so many seconds ago."""
    js = made(stored(jobset(rjob(replicas=2))))
    moment = at(NOW - timedelta(seconds=ago))
    end = {"type": "Failed" if failed else "Complete", "status": "True", "reason": "R", "lastTransitionTime": moment}
    there = [made(job_of(js, index), succeeded=1, conditions=[end]) for index in range(jobs)]
    return explanation_of(facts(js, there, lease=lease(holder=holder)))


def test_a_set_whose_jobs_have_completed_while_nobody_writes_that():
    text, body = ended(120)
    assert (body["state"], body["level"], causes(body)) == ("waits", "fault", ["status-not-written"])
    assert "its 2 Jobs have completed 2 min ago, and no manager has written that into its status" in text
    assert "kubectl logs -n jobset-system deployment/jobset-controller-manager" in text
    assert "-k manifests/rbac" in text


def test_without_a_manager_that_is_the_cause():
    text, body = ended(120, holder="")
    assert causes(body) == ["status-not-written", "no-manager"]
    assert "deployment/jobset-controller-manager says" not in text


@pytest.mark.parametrize("case", [{"ago": 10}, {"ago": 120, "jobs": 1}, {"ago": 120, "failed": True}])
def test_what_a_manager_may_still_have_to_do_is_no_fault_of_the_status(case):
    assert "status-not-written" not in causes(ended(**case)[1])


@pytest.mark.parametrize(("note", "named"), [("a Service exists already and belongs to nobody", False), ("no", True)])
def test_a_service_of_somebody_else_keeps_no_job_from_being_created(note: str, named: bool):
    js = made(stored(jobset(rjob())))
    _, body = explained(js, warnings=[event("HeadlessServiceCreationFailed", note)])
    assert ("refused" in causes(body), "warning" in causes(body)) == (named, not named)


REPLACE = "make it again: kubectl get jobset train -n team-a -o yaml | sed '/^  resourceVersion:/d' | kubectl replace --force -f -"


def bare() -> tuple[JSON, JSON]:
    """A set without defaults, and its Job, which is ready."""
    js = a_set()
    del js["spec"]["network"]
    return js, made(job_of(js, 0), active=1, ready=1)


@pytest.mark.parametrize(
    ("state", "first"),
    [
        (State.ON, ""),
        (State.OFF, "first jobset webhooks on, for they are off; then "),
        (State.MISSING, "first have the webhooks back, which are not there: jobset webhooks status says how; then "),
        (None, "once jobset webhooks status says that they are on, "),
    ],
)
def test_the_webhooks_are_switched_on_before_the_set_is_made_again(state: State | None, first: str):
    js, job = bare()
    text, _ = explanation_of(replace(facts(js, [job], lease=lease()), webhook_state=state))
    assert f"to fix: {first}{REPLACE}" in text


CALLED = {
    "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": MUTATING_CONFIGURATION},
    "webhooks": [{"name": "mjobset.kb.io"}],
}
OFF = switched_off(CALLED, "2026-11-21T14:05:03Z")


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("stored", "state"), [([CALLED], State.ON), ([OFF], State.OFF), ([], State.MISSING)], ids=["on", "off", "missing"]
)
async def test_the_state_of_the_webhooks_is_read_for_such_a_set(stored: list[JSON], state: State):
    cluster = Cluster(*bare(), *stored)
    found = await gather(Client(cluster), "team-a", "train", NOW)
    assert found.webhook_state is state
    assert sum("mutatingwebhookconfigurations" in request.path for request in cluster.asked) == 1
    js = a_set()
    other = Cluster(js, made(job_of(js, 0), active=1, ready=1), *stored)
    assert (await gather(Client(other), "team-a", "train", NOW)).webhook_state is None
    assert not any("mutatingwebhookconfigurations" in request.path for request in other.asked)


@pytest.mark.looptime
async def test_without_the_right_to_read_the_webhooks_it_says_how_to_look():
    cluster = Refusing(*bare(), OFF)
    cluster.refused = ("mutatingwebhookconfigurations",)
    text, _ = explanation_of(await gather(Client(cluster), "team-a", "train", NOW))
    assert "once jobset webhooks status says that they are on, make it again" in text
    assert "not looked at: webhooks: you may not get mutatingwebhookconfigurations" in text


STAGES = {"executionPolicy": {"executionPolicyOrder": "InOrder"}}
CODES = {"operator": "In", "values": [1]}
RULES = {"failurePolicy": {"rules": [{"name": "r", "action": "FailJobSet", "onExitCodes": CODES}]}}
COUNTS = {"ready": 1, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}
BY_GO = {"replicatedJobsStatus": [{"name": "workers", **COUNTS}]}


@pytest.mark.parametrize(
    ("spec", "status", "fields"),
    [
        (STAGES, BY_GO, "executionPolicy"),
        (RULES, BY_GO, "failurePolicy.rules.*.onExitCodes"),
        ({}, BY_GO, ""),
        (STAGES, {**BY_GO, "readyJobs": "1/1"}, ""),
        (STAGES, {}, ""),
    ],
)
def test_fields_that_the_manager_does_not_know_are_named(spec: JSON, status: JSON, fields: str):
    js = made(stored(jobset(rjob("workers"), name="train", **spec)), "train", **status)
    text, body = explained(js)
    assert ("other-manager" in causes(body)) == bool(fields)
    if fields:
        assert f"fields that the Go JobSet does not have are stored without effect: {fields}\n" in text
        assert "to fix: kubectl -n jobset-system get deployments -o wide shows whose image runs" in text
