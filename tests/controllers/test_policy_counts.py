"""When and how a replica writes what admission has counted, and what it does when it cannot."""

import asyncio
import contextlib
from datetime import UTC, datetime

import pytest

from controllers.policy.counts import TRIES, PolicyCounts
from controllers.policy.regular import PeriodicWriter
from kube.client import Client
from kube.errors import TransportError
from kube.transport import Request, Response
from policy.kinds import PolicyId
from policy.status_types import ANYONE, API_SERVER
from tests.support.model.faults import status_body
from tests.support.model.memory_api import MemoryApi, refuse, serve
from tests.support.tls import until

NOW = datetime(2030, 1, 1, tzinfo=UTC)


class Cluster(MemoryApi):
    """With two policies."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.reviews_from = API_SERVER
        for name in ("limits", "queues"):
            self.create(name, f"uid of {name}")

    def create(self, name: str, uid: str) -> None:
        self.put("jobsetpolicies", name, "", metadata={"namespace": "", "uid": uid}, spec={})

    def status(self, name: str = "limits") -> dict[str, object]:
        found: dict[str, object] = self.objects("jobsetpolicies")["", name].get("status", {})
        return found

    def counts(self) -> PolicyCounts:
        return PolicyCounts(Client(self), self.reviews_from, jitter=lambda: 0.5, now=lambda: NOW)

    @property
    def asked(self) -> list[tuple[str, str]]:
        return [(request.verb, request.path.rpartition("jobsetpolicies/")[2]) for request in self.requests]


def deny(counts: PolicyCounts, policy: str = "limits", count: int = 1) -> None:
    counts.count_decision(PolicyId(policy, f"uid of {policy}"), "maxJobs", "Deny", count)


@pytest.mark.parametrize(
    ("stored", "now", "said"),
    [
        ({}, API_SERVER, "APIServer"),
        ({}, ANYONE, "Anyone"),
        ({"denied": 4, "reviewsFrom": "APIServer"}, API_SERVER, "APIServer"),
        ({"denied": 4, "reviewsFrom": "APIServer"}, ANYONE, "Anyone"),
        ({"denied": 4, "reviewsFrom": "Anyone"}, API_SERVER, "Anyone"),
        ({"matched": 4}, API_SERVER, "Anyone"),
    ],
)
async def test_counts_say_whether_anyone_may_have_sent_the_reviews(stored: dict[str, object], now: str, said: str):
    cluster = Cluster()
    cluster.put("jobsetpolicies", "limits", "", status=stored)
    cluster.reviews_from = now
    counts = cluster.counts()
    deny(counts)
    await counts.write()
    assert cluster.status()["reviewsFrom"] == said


async def test_two_replicas_that_write_at_once_add_up():
    cluster = Cluster()
    replicas = [cluster.counts(), cluster.counts()]
    for counts in replicas:
        deny(counts, count=3)
    await asyncio.gather(*(counts.write() for counts in replicas))
    assert cluster.status()["denied"] == 6
    assert cluster.asked.count(("patch", "limits/status")) == 3, "one of them had to try again"


async def test_what_others_have_in_the_status_stays():
    cluster = Cluster()
    cluster.put("jobsetpolicies", "limits", "", status={"conditions": [{"type": "Ready"}], "warned": 7})
    counts = cluster.counts()
    deny(counts)
    await counts.write()
    assert (cluster.status()["conditions"], cluster.status()["warned"]) == ([{"type": "Ready"}], 7)


@pytest.mark.parametrize(("verb", "code"), [("patch", 403), ("get", 403), ("patch", 409)])
async def test_what_the_api_server_refuses_is_written_later_and_others_at_once(verb: str, code: int):
    cluster = Cluster()
    refused = refuse(code, verb=verb)
    cluster.answering = lambda request: refused(request) if "limits" in request.path else None
    counts = cluster.counts()
    deny(counts)
    deny(counts, "queues")
    await counts.write()
    assert (cluster.status(), cluster.status("queues")["denied"]) == ({}, 1)
    assert cluster.asked.count(("patch", "queues/status")) == 1
    cluster.answering = serve
    deny(counts)
    await counts.write()
    assert cluster.status()["denied"] == 2


async def test_a_conflict_is_tried_again_a_few_times():
    cluster = Cluster()
    tried: list[str] = []

    def conflict(request: Request) -> Response | None:
        if request.verb != "patch":
            return None
        tried.append(request.path)
        return Response(409, {}, status_body(409))

    cluster.answering = conflict
    counts = cluster.counts()
    deny(counts)
    await counts.write()
    assert len(tried) == TRIES


@pytest.mark.parametrize("applied", [True, False])
async def test_a_write_without_an_answer_is_never_counted_twice(applied: bool):
    cluster = Cluster()

    def silent(request: Request) -> Response | None:
        if request.verb != "patch":
            return None
        if applied:
            cluster.answered(request)
        raise TransportError("no answer")

    cluster.answering = silent
    counts = cluster.counts()
    deny(counts)
    await counts.write()
    cluster.answering = serve
    deny(counts)
    await counts.write()
    assert cluster.status()["denied"] == 1 + applied


async def test_counts_of_a_policy_that_is_gone_are_forgotten():
    cluster = Cluster()
    counts = cluster.counts()
    deny(counts, "gone")
    await counts.write()
    await counts.write()
    assert cluster.asked == [("get", "gone")]


@pytest.mark.parametrize("when", ["before", "between the read and the write"])
async def test_a_policy_that_is_created_again_gets_no_counts_of_the_one_before_it(when: str):
    cluster = Cluster()
    counts = cluster.counts()
    deny(counts, count=7)

    def created_again(request: Request | None = None) -> Response | None:
        if request is None or request.verb == "patch":
            cluster.answering = serve
            cluster.drop("jobsetpolicies", "limits", "")
            cluster.create("limits", "another uid")
        return None

    cluster.answering = created_again
    if when == "before":
        created_again()
    counts.count_decision(PolicyId("limits", "another uid"), "maxJobs", "Deny", 2)
    await counts.write()
    assert cluster.status()["denied"] == 2


async def test_it_writes_by_itself_and_a_last_time_at_the_stop(caplog: pytest.LogCaptureFixture):
    cluster = Cluster()
    counts = cluster.counts()
    writer = PeriodicWriter([counts], every=0.01, jitter=lambda: 0.5)
    running = asyncio.create_task(writer.run())
    deny(counts)
    await until(lambda: cluster.status().get("denied") == 1)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    deny(counts)
    await writer.flush(5)
    assert cluster.status()["denied"] == 2
    assert caplog.text == ""
