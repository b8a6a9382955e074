"""A pod that was promised the place of a spare is held back; about no other pod is anything decided."""

from __future__ import annotations

from typing import Any

import pytest

from api import keys
from api.exclusive import TermForm
from kube.client import Client
from tests.support.asgi import post
from tests.support.model.memory_api import MemoryApi, refuse
from tests.support.objects.jobsets import JSON
from tests.support.objects.reviews import answer, encode, review
from tests.webhooks.test_pod_handlers import UNSCHEDULED, Played
from webhooks.pod.handlers import MUTATE_PATH, pod_handlers
from webhooks.pod.promises import Promises
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


async def operations(api: MemoryApi, labels: dict[str, str] = LABELS, name: str = "js-w-1-0-", **spec: Any) -> JSON:
    meta = {"generateName": name, "namespace": "default", "labels": labels, "annotations": {keys.JOBSET_NAME: "js"}}
    handlers = pod_handlers(Played(UNSCHEDULED), lambda: TermForm.LABEL_KEYS, Promises(Client(api)))
    pod = {"metadata": meta, "spec": spec}
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
