"""How the failed pods of Jobs are read before a decision."""

from collections.abc import Sequence
from typing import Any

import pytest

from api import keys
from controllers.jobset.failed_pods import list_failed_pods
from controllers.planning.actions import FailedPodQuery
from controllers.planning.observed import Ended, FailedPod
from kube.client import Client
from kube.errors import KubeError, UnreadableAnswerError
from tests.support.model.blind import Blind
from tests.support.model.memory_api import MemoryApi, refuse
from tests.support.objects.exit_codes import ENDED, STOP, at, rules
from tests.support.objects.stored_sets import jobset, rjob


def owned_by(job_uid: str) -> dict[str, Any]:
    return {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": job_uid, "controller": True}


class Pods(MemoryApi):
    """Answers lists of pods by the selector's UIDs."""

    def asked(self) -> list[dict[str, str]]:
        return [dict(call.query) for call in self.requests if call.path.endswith("/pods")]

    def add(self, name: str, job_uid: str, code: int) -> None:
        state = {"terminated": {"exitCode": code, "finishedAt": at(1)}}
        self.put(
            "pods",
            name,
            metadata={"labels": {keys.JOB_UID: job_uid}, "ownerReferences": [owned_by(job_uid)]},
            spec={"nodeName": "n1"},
            status={"phase": "Failed", "containerStatuses": [{"name": "main", "state": state}]},
        )


def every(_uid: str, pods: Sequence[FailedPod]) -> Sequence[FailedPod]:
    return pods


class TestLookingUp:
    def pod_query(self, number: int, *, needed: bool = True) -> FailedPodQuery:
        return FailedPodQuery(tuple((f"j{i}", f"u{i}") for i in range(number)), needed=needed)

    async def test_one_attempt_costs_one_small_list(self):
        api = Pods()
        api.add("p", "u0", 3)
        found = await list_failed_pods(Client(api), "ns", self.pod_query(1, needed=False), every)
        assert found == {"u0": (FailedPod("p", "n1", (Ended("main", 3, at(1)),), at(1)),)}
        [query] = api.asked()
        assert query == {"labelSelector": f"{keys.JOB_UID}=u0", "fieldSelector": "status.phase=Failed", "limit": "100"}

    async def test_pages_are_followed(self):
        api = Pods()
        for number in range(5):
            api.add(f"p{number}", "u0", 3)
        found = await list_failed_pods(Client(api), "ns", self.pod_query(1), every, page_size=2)
        assert len(found["u0"]) == 5
        assert len(api.asked()) == 3

    async def test_of_all_pages_only_the_pods_that_are_chosen_are_kept(self):
        api, most = Pods(), 0
        for number in range(200):
            api.add(f"p{number:03}", f"u{number % 2}", 3)

        def last(uid: str, pods: Sequence[FailedPod]) -> Sequence[FailedPod]:
            nonlocal most
            most = max(most, len(pods))
            return pods[-1:]

        found = await list_failed_pods(Client(api), "ns", self.pod_query(2), last, page_size=4)
        assert {uid: [pod.name for pod in pods] for uid, pods in found.items()} == {"u0": ["p198"], "u1": ["p199"]}
        assert len(api.asked()) == 50, "every page is read"
        assert most == 3, "two of a page beside the one that was kept"

    async def test_the_log_names_all_jobs_whose_pods_are_not_known(self, caplog: pytest.LogCaptureFixture):
        api = Pods()
        api.answering = refuse(500, path="/pods")
        with caplog.at_level("INFO"):
            await list_failed_pods(Client(api), "ns", self.pod_query(5, needed=False), every)
        assert "failed pods of j0, j1, j2 and 2 more in namespace ns are not known" in caplog.text

    async def test_an_error_is_raised_only_where_the_answer_is_needed(self):
        api = Pods()
        api.answering = refuse(500, path="/pods")
        assert await list_failed_pods(Client(api), "ns", self.pod_query(1, needed=False), every) == {"u0": ()}
        with pytest.raises(KubeError):
            await list_failed_pods(Client(api), "ns", self.pod_query(1), every)

    async def test_a_pod_that_cannot_be_read_holds_up_what_needs_it_and_nothing_else(self):
        api = Pods()
        api.put(
            "pods", "p", metadata={"labels": {keys.JOB_UID: "u0"}}, status={"phase": "Failed", "containerStatuses": 7}
        )
        assert await list_failed_pods(Client(api), "ns", self.pod_query(1, needed=False), every) == {"u0": ()}
        with pytest.raises(UnreadableAnswerError):
            await list_failed_pods(Client(api), "ns", self.pod_query(1), every)


class TestReconciling:
    """The reconciler and its queries about pods."""

    async def test_the_decision_is_by_all_failed_pods_however_many_pages_they_take(self):
        """The pod beyond the limit is on the third page of 500; all others ended with another code."""
        api = Pods()
        job = rjob("workers", backoffLimit=1_100)
        blind = Blind(api, jobset(job, failurePolicy=rules(STOP)))
        await blind.reconcile()
        blind.change_job("js-workers-0", status=ENDED)
        uid = blind.jobs.get("ns", "js-workers-0").metadata.uid
        for number in range(1_200):
            api.add(f"p{number:04}", uid, 3 if number == 1_100 else 1)
        await blind.reconcile()
        status = api.objects("jobsets")["ns", "js"]["status"]
        assert (status["terminalState"], status["attemptHistory"][0]["pod"]) == ("Failed", "p1100")
