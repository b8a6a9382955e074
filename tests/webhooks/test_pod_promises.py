"""A pod that was promised the place of a spare is held back; about no other pod is anything decided."""

import asyncio
from typing import Any

import pytest

from api import keys
from api.exclusive import TermForm
from kube.client import Client
from kube.transport import Request, Response
from tests.support.asgi import post
from tests.support.model.memory_api import MemoryApi, refuse
from tests.support.objects.jobsets import JSON
from tests.support.objects.reviews import answer, encode, review
from tests.webhooks.test_pod_handlers import UNSCHEDULED, Played
from webhooks.pod.handlers import MUTATE_PATH, pod_handlers
from webhooks.pod.promises import ANSWER_TIMEOUT, Promises
from webhooks.router import create_app

LABELS = {keys.JOBSET_NAME: "js", keys.JOBSET_UID: "uid-1", keys.REPLICATED_JOB_NAME: "w", keys.SPARES: "w"}
GATE = [{"op": "add", "path": "/spec/schedulingGates", "value": [{"name": keys.SPARE_GATE}]}]


@pytest.fixture
def api() -> MemoryApi:
    api = MemoryApi()
    spares = [{"name": "other"}, {"name": "spare", "promisedTo": ["js-w-1-0"]}]
    api.put(
        "jobsets", "js", "default", metadata={"uid": "uid-1"}, spec={"replicatedJobs": []}, status={"spares": spares}
    )
    return api


async def operations(
    api: MemoryApi,
    labels: dict[str, str] = LABELS,
    name: str = "js-w-1-0-",
    annotations: dict[str, str] | None = None,
    **more: Any,
) -> JSON:
    ours = {keys.JOBSET_NAME: "js", **(annotations or {})}
    meta = {"generateName": name, "namespace": "default", "labels": labels, "annotations": ours}
    meta |= {key: more.pop(key) for key in ("ownerReferences",) if key in more}
    handlers = pod_handlers(Played(UNSCHEDULED), lambda: TermForm.LABEL_KEYS, Promises(Client(api)))
    pod = {"metadata": meta, "spec": more}
    response = answer((await post(create_app(handlers), MUTATE_PATH, encode(review(pod)))).body)
    assert response["allowed"] is True
    return response.get("operations") or []


async def test_a_pod_that_was_promised_a_place_gets_the_gate(api: MemoryApi):
    assert await operations(api) == GATE


@pytest.mark.parametrize(
    ("labels", "name", "spec"),
    [
        ({}, "js-w-0-0-", {}),
        ({keys.JOBSET_UID: "another"}, "js-w-1-0-", {}),
        ({keys.JOBSET_NAME: "absent"}, "js-w-1-0-", {}),
        ({}, "js-w-1-0-", {"nodeName": "n1"}),
    ],
)
async def test_other_pods_are_left_alone(api: MemoryApi, labels, name, spec):
    assert await operations(api, LABELS | labels, name, **spec) == []


async def test_nothing_is_asked_about_pods_without_spares(api: MemoryApi):
    labels = {key: value for key, value in LABELS.items() if key != keys.SPARES}
    assert await operations(api, labels) == []
    assert api.requests == []


@pytest.mark.parametrize("name", ["js/../../../../../../api/v1/nodes", "..", "js?watch=true", "js%2f", "Js", "a" * 254])
async def test_nothing_is_asked_by_a_label_that_is_no_name(api: MemoryApi, name: str):
    assert await operations(api, LABELS | {keys.JOBSET_NAME: name}) == []
    assert api.requests == []


async def test_without_an_answer_the_pod_is_created_as_it_is(api: MemoryApi):
    api.answering = refuse(500)
    assert await operations(api) == []
    assert len(api.requests) == 1, "nothing is asked twice"


@pytest.mark.parametrize(
    ("promise", "index", "waits"),
    [("js-w-1-0", "0", True), ("js-w-1-0", "1", True), ("js-w-1-*", "0", False), ("js-w-1-*", "1", True)],
)
async def test_in_exclusive_placement_pods_wait_for_their_domain_or_leader(api: MemoryApi, promise, index, waits):
    promised = [{"name": "spare", "promisedTo": [promise]}]
    api.put("jobsets", "js", "default", metadata={"uid": "uid-1"}, spec={}, status={"spares": promised})
    exclusive = {keys.EXCLUSIVE_TOPOLOGY: "rack", keys.COMPLETION_INDEX: index}
    labels = LABELS | {keys.JOB_KEY: "k"}
    owner = [{"apiVersion": "batch/v1", "kind": "Job", "name": "js-w-1", "uid": "j", "controller": True}]
    found = await operations(api, labels, f"js-w-1-{index}-", exclusive, ownerReferences=owner)
    assert any(keys.SPARE_GATE in str(operation) for operation in found) == waits


class Held(MemoryApi):
    """An API server whose answers, which are true when it is `asked`, arrive when `go` is set."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def send(self, request: Request) -> Response:
        answer = await super().send(request)
        self.asked.set()
        await self.go.wait()
        return answer


async def test_pods_that_are_created_at_once_share_a_read_that_begins_after_they_came():
    api = Held()
    promises = Promises(Client(api))

    def promise(*ranks: str) -> None:
        spares = [{"name": "spare", "promisedTo": [*ranks]}]
        api.put("jobsets", "js", "default", metadata={"uid": "uid-1"}, spec={}, status={"spares": spares})

    def ask() -> asyncio.Task[bool]:
        return asyncio.create_task(promises.has_promised("default", "js", "uid-1", frozenset({"js-w-1-0"})))

    promise()
    first = ask()
    await api.asked.wait()
    promise("js-w-1-0")
    later = [ask() for _ in range(20)]
    await asyncio.sleep(0)
    later[0].cancel()
    api.go.set()
    assert await first is False
    assert await asyncio.gather(*later[1:]) == [True] * 19
    assert len(api.requests) == 2
    promise()
    assert await ask() is False, "what was read is not kept"


class Slow(MemoryApi):
    """An API server whose answers take most of the time that there is for them."""

    async def send(self, request: Request) -> Response:
        await asyncio.sleep(0.6 * ANSWER_TIMEOUT)
        return await super().send(request)


async def test_of_a_slow_answer_all_pods_that_are_created_together_are_held_back():
    api = Slow()
    spares = [{"name": "spare", "promisedTo": ["js-w-1-0"]}]
    api.put("jobsets", "js", "default", metadata={"uid": "uid-1"}, spec={}, status={"spares": spares})
    promises, asked = Promises(Client(api)), []
    for _ in range(3):
        asked.append(asyncio.create_task(promises.has_promised("default", "js", "uid-1", frozenset({"js-w-1-0"}))))
        await asyncio.sleep(0.01)
    assert await asyncio.gather(*asked) == [True] * 3
    assert len(api.requests) == 2
