"""How pending pods are read, and in whose words it is said why they do not run."""

import msgspec
import pytest

from api import keys
from api.batch import Job
from api.pending import why_pending
from api.pod import DetailedPod
from controllers.jobset.pending_pods import LONGEST_REASON, find_pending_pods
from controllers.planning.observed import Observed, PendingPod
from kube.client import Client
from tests.support.model.blind import Blind
from tests.support.model.memory_api import MemoryApi, refuse
from tests.support.objects.stored_sets import jobset, rjob

NOW = "2026-01-01T00:10:00Z"


def waiting(name: str, reason: str, message: str = "") -> dict:
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}}


def unscheduled(reason: str, message: str) -> dict:
    return {"conditions": [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]}


CASES = [
    ("", unscheduled("Unschedulable", "0/3 nodes are available"), "Unschedulable: 0/3 nodes are available"),
    ("", {}, "the scheduler has said nothing about it"),
    ("", {"conditions": [{"type": "PodScheduled", "status": "False"}]}, "the scheduler has said nothing about it"),
    ("n", {}, "the kubelet has said nothing about it (node n)"),
    (
        "n",
        {"containerStatuses": [waiting("main", "ImagePullBackOff", "Back-off pulling")]},
        "container main: ImagePullBackOff: Back-off pulling (node n)",
    ),
    ("n", {"containerStatuses": [waiting("main", "ContainerCreating")]}, "container main: ContainerCreating (node n)"),
    (
        "n",
        {
            "initContainerStatuses": [waiting("fetch", "CreateContainerConfigError", "no secret")],
            "containerStatuses": [waiting("main", "PodInitializing")],
        },
        "container fetch: CreateContainerConfigError: no secret (node n)",
    ),
]


@pytest.mark.parametrize(("node", "status", "why"), CASES)
def test_the_words_of_kubelet_and_scheduler(node, status, why):
    body = {"metadata": {"name": "p"}, "spec": {"nodeName": node}, "status": {"phase": "Pending", **status}}
    assert why_pending(msgspec.convert(body, DetailedPod)) == why


class TestTheLook:
    def add(self, api: MemoryApi, name: str, second: int, job: str = "u0", phase: str = "Pending", **more) -> None:
        metadata = {
            "labels": {keys.JOB_UID: job, keys.JOBSET_UID: more.pop("owner", "js-uid")},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": job, "controller": True}],
            "creationTimestamp": f"2026-01-01T00:00:{second:02}Z",
            **more.pop("metadata", {}),
        }
        api.put("pods", name, metadata=metadata, spec=more.pop("spec", {}), status={"phase": phase, **more})

    async def look(self, api: MemoryApi, jobs: int = 2, seconds: int = 600) -> tuple[dict[str, PendingPod], str]:
        policy = {"maxRestarts": 1, "startTimeoutSeconds": seconds}
        js = jobset(rjob(), failurePolicy=policy)
        uids = (f"u{number}" for number in range(jobs))
        jobs = tuple(msgspec.convert({"metadata": {"name": uid, "uid": uid}}, Job) for uid in uids)
        found, again = await find_pending_pods(Client(api), Observed(js, jobs, None, frozenset(), NOW))
        return dict(found), again

    async def test_one_list_of_the_set_gives_the_oldest_pod_of_each_job(self):
        api = MemoryApi()
        self.add(api, "b", 30)
        self.add(api, "a", 20)
        self.add(api, "c", 20)
        self.add(api, "d", 40, job="u1", **unscheduled("Unschedulable", "x" * 5000))
        found, again = await self.look(api)
        assert {uid: pod.name for uid, pod in found.items()} == {"u0": "a", "u1": "d"}
        assert len(found["u1"].reason) == LONGEST_REASON
        assert again == "2026-01-01T00:10:30+00:00"
        [query] = [dict(call.query) for call in api.requests]
        assert query["labelSelector"] == f"{keys.JOBSET_UID}=js-uid"
        assert query["fieldSelector"] == "status.phase=Pending"

    @pytest.mark.parametrize(
        ("spec", "status", "counts"),
        [
            ({}, unscheduled("Unschedulable", "0/3 nodes are available: 3 Insufficient cpu."), True),
            ({}, unscheduled("SchedulerError", "no answer"), False),
            ({}, {}, False),
            ({"nodeName": "n"}, {}, False),
            ({"schedulingGates": [{"name": "g"}]}, unscheduled("Unschedulable", "0/3 nodes are available"), False),
        ],
    )
    async def test_the_first_pod_is_named_for_which_the_scheduler_finds_no_node(self, spec, status, counts):
        api = MemoryApi()
        self.add(api, "a", 10, spec={"nodeName": "n"})
        self.add(api, "c", 30, spec=spec, **status)
        self.add(api, "b", 20, spec=spec, **status)
        found, _ = await self.look(api)
        named = found["u0"].unschedulable
        assert (found["u0"].name, named.name if named else "") == ("a", "b" if counts else "")

    @pytest.mark.parametrize("allowed", [True, False])
    async def test_what_the_kubelet_says_of_a_late_pod_is_in_its_events(self, allowed: bool):
        api = MemoryApi()
        create = {"containerStatuses": [waiting("main", "ContainerCreating")]}
        for number in range(5):
            self.add(api, f"p{number}", 0, job=f"u{number}", **create, spec={"nodeName": "n"})
        for seconds, note in ((10, "earlier"), (40, 'secret "no\npe" not found')):
            about = {"kind": "Pod", "name": "p0", "namespace": "ns"}
            event = {"regarding": about, "reason": "FailedMount", "note": note, "type": "Warning"}
            api.put("events", f"e{seconds}", **event, eventTime=f"2026-01-01T00:00:{seconds}.000000Z")
        if not allowed:
            api.answering = refuse(403, path="/events")
        found, _ = await self.look(api, jobs=5)
        said = '; FailedMount: secret "no pe" not found' if allowed else ""
        assert found["u0"].reason == f"container main: ContainerCreating (node n){said}"
        asked = [dict(call.query)["fieldSelector"] for call in api.requests if call.path.endswith("/events")]
        assert asked == [f"regarding.kind=Pod,regarding.name=p{number},type=Warning" for number in range(3)]

    async def test_nothing_is_asked_about_a_pod_that_has_time(self):
        api = MemoryApi()
        self.add(api, "a", 1, spec={"nodeName": "n"})
        await self.look(api, seconds=6000)
        assert not [call for call in api.requests if call.path.endswith("/events")]

    async def test_a_pod_of_a_job_that_is_not_of_the_set_does_not_count(self):
        """Labels can be written by everybody who may create pods."""
        api = MemoryApi()
        self.add(api, "a", 1, job="invented")
        assert await self.look(api) == ({}, "2026-01-01T00:20:00+00:00")

    async def test_pods_that_run_are_gated_or_end_or_belong_to_others_do_not_count(self):
        api = MemoryApi()
        self.add(api, "runs", 1, phase="Running")
        self.add(api, "gated", 1, spec={"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]})
        self.add(api, "ends", 1, metadata={"deletionTimestamp": NOW})
        self.add(api, "other", 1, owner="other")
        assert await self.look(api) == ({}, "2026-01-01T00:20:00+00:00")


class TestReconciling:
    async def test_a_set_without_it_is_never_looked_at(self):
        api = MemoryApi()
        blind = Blind(api, jobset(rjob("workers"), failurePolicy={"maxRestarts": 0}), JobSetStartTimeout=True)
        await blind.reconcile()
        blind.change_job("js-workers-0", status={"active": 1, "ready": 0, "startTime": "2026-01-01T00:00:00Z"})
        await blind.reconcile()
        assert looks(api) == 0


def looks(api: MemoryApi) -> int:
    return sum(call.method == "GET" and call.path.endswith("/pods") for call in api.requests)
