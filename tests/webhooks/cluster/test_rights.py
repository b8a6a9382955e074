"""The manager's rights serve nobody else: where admission looks, and what it says of objects that are there.

The author of a JobSet may have no right to read them, and who sends a review need not be the API server.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from app.engine import engine
from kube.client import Client
from kube.transport import Request, Response
from tests.support.asgi import post
from tests.support.model.scripted_server import (
    DATA,
    GATES,
    MOUNT,
    Script,
    claims,
    found_object,
    owned_by,
    plural,
    status,
)
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from tests.support.objects.reviews import answer, encode, review
from webhooks.jobset.cluster.checks import ClusterChecks
from webhooks.jobset.handlers import MUTATE_PATH, VALIDATE_PATH, jobset_handlers
from webhooks.pod import handlers as pods
from webhooks.router import create_app

pytestmark = pytest.mark.looptime

PATHS = [MUTATE_PATH, VALIDATE_PATH, pods.MUTATE_PATH, pods.VALIDATE_PATH]


class NoDomains:
    """Must not be asked."""

    def find(self, namespace: str, job_uid: str, topology: str) -> Any:
        raise AssertionError(namespace, job_uid, topology)

    wait_for_domain = find


async def ask(script: Script, body: JSON, path: str = VALIDATE_PATH, **options: Any) -> JSON:
    cluster = ClusterChecks(Client(script), **options)
    pod_handlers = pods.pod_handlers(NoDomains(), lambda: pytest.fail("no pod leads"))
    app = create_app({**jobset_handlers(engine(GATES), cluster), **pod_handlers})
    http = await post(app, path, encode(body))
    return answer(http.body)


def named(namespace: str, obj: JSON, old: JSON | None = None) -> JSON:
    """A review for this namespace."""
    body = review(obj, old)
    body["request"]["namespace"] = namespace
    return body


def in_namespace(namespace: str) -> JSON:
    return stored(jobset(rjob(pod=MOUNT), namespace=namespace, **claims()))


class TestNamespace:
    async def test_questions_go_to_the_namespace_of_the_request(self):
        script, js = Script(), in_namespace("a")
        del js["metadata"]["namespace"]
        assert (await ask(script, named("a", js)))["allowed"] is True
        assert script.asked().count("create jobs") == 1
        assert {request.path.split("/namespaces/")[1].split("/")[0] for request in script.requests} == {"a"}

    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize(
        ("namespace", "why"),
        [("a", "request.object.metadata.namespace is not request.namespace"), ("", "request.namespace is empty")],
    )
    async def test_an_object_of_another_namespace_is_refused(self, path: str, namespace: str, why: str):
        script = Script()
        response = await ask(script, named(namespace, in_namespace("b")), path)
        assert (response["allowed"], response["status"]["code"]) == (False, 400)
        assert why in response["status"]["message"]
        assert script.requests == []

    @pytest.mark.parametrize("path", [MUTATE_PATH, VALIDATE_PATH])
    async def test_so_is_one_that_was_stored_in_another(self, path: str):
        script = Script()
        response = await ask(script, named("a", in_namespace("a"), in_namespace("b")), path)
        assert "request.oldObject.metadata.namespace is not request.namespace" in response["status"]["message"]
        assert script.requests == []


SECRET = "hunter2"


def exists(request: Request) -> Response:
    return status(409, "AlreadyExists", "already exists", name="x", kind=plural(request))


def live(**meta: Any) -> Any:
    """An object of somebody else that is full of secrets."""
    spec = {**DATA, "storageClassName": SECRET, "volumeName": SECRET, "resources": {"requests": {"storage": "77Gi"}}}
    labels = {SECRET: SECRET}
    return found_object(labels=labels, annotations=labels, uid=SECRET, spec={**spec, "selector": labels}, **meta)


def quota(request: Request) -> Response:
    words = f'{plural(request)} "x" is forbidden: exceeded quota: {SECRET}, requested: a=1, used: a={SECRET}'
    return status(403, "Forbidden", words)


def others() -> Script:
    return Script(
        {
            "get persistentvolumeclaims": live(name="data-train"),
            "create jobs": exists,
            "get jobs": live(name="train-workers-0", ownerReferences=[owned_by(SECRET, SECRET)]),
            "create services": exists,
            "get services": live(name="train", ownerReferences=[owned_by("JobSet", SECRET)]),
            "get fast": live(name="fast"),
        }
    )


def nobodys() -> Script:
    script = others()
    script.answers |= {
        "get jobs": live(name="train-workers-0"),
        "get services": live(name="train"),
        "get persistentvolumeclaims": live(name="data-train", ownerReferences=[owned_by(SECRET, SECRET)]),
    }
    return script


def refusing() -> Script:
    return Script(dict.fromkeys(("create jobs", "create services", "create persistentvolumeclaims"), quota))


class TestValues:
    JOBSET = jobset(rjob(pod=MOUNT), **claims(retain=False, storageClassName="fast", volumeName="mine"))

    @pytest.mark.parametrize("script", [others, nobodys, refusing])
    async def test_no_value_of_an_object_that_is_there_is_said(self, script: Callable[[], Script]):
        response = await ask(script(), review(stored(self.JOBSET)))
        text = msgspec.json.encode(response).decode()
        assert SECRET not in text
        assert "77Gi" not in text
        assert response["warnings"]

    async def test_what_is_in_conflict_is_said_by_the_authors_own_names(self):
        response = await ask(others(), review(stored(self.JOBSET)))
        fix = "write the same, use another template name, or delete the claim if its data may go"
        retention, spec = (cause["message"] for cause in response["status"]["details"]["causes"])
        assert retention == (
            'Invalid value: "Delete": retentionPolicy must be retain when PVC exists; set it to Retain, or delete the'
            ' claim "data-train" if its data may go'
        )
        assert spec == (
            "Invalid value: spec does not match existing PVC data-train in namespace default; resources.requests.storage"
            f" is different there, storageClassName is different there, volumeName is different there: {fix}"
        )
        assert response["warnings"] == [
            (
                "metadata.name: Service train exists and is not this JobSet's: pods get DNS names only if it selects them;"
                " delete it, or set spec.network.subdomain to another name [service-foreign]"
            ),
            "spec.replicatedJobs[0].name: Job train-workers-0 exists and is not this JobSet's; rename or delete it [child-job-exists]",
        ]

    async def test_of_nodes_nothing_is_said_but_the_device_that_was_nearly_named(self):
        offers = {"cpu": "77", "nvidia.com/gpu": "77", f"{SECRET}.com/device": "77"}
        node = {"metadata": {"name": SECRET, "labels": {SECRET: SECRET}}, "status": {"allocatable": offers}}
        body = msgspec.json.encode({"metadata": {}, "items": [node]})
        script = Script({"list nodes": lambda _: Response(200, {}, body)})
        requests = {"cpu": "78", "nvidia.com/gpus": "1"}
        pod = {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]}
        response = await ask(script, review(stored(jobset(rjob(pod=pod)))))
        assert [text.partition(": ")[2] for text in response["warnings"]] == [
            "a pod needs 78 cpu, more than any node has: it waits for a larger one; request less, or add larger nodes [nodes-too-small]",
            "no node offers nvidia.com/gpus: pods wait for one that does; did you mean nvidia.com/gpu? [node-resource-missing]",
        ]

    async def test_who_asks_with_rights_of_his_own_hears_whose_it_is_and_what_is_in_it(self):
        response = await ask(others(), review(stored(self.JOBSET)), has_author_rights=True)
        text = response["status"]["message"]
        assert f'storageClassName is "{SECRET}" there' in text
        assert response["warnings"] == [
            f"metadata.name: Service train belongs to JobSet {SECRET}: it selects only that set's pods; choose another name [service-shared]",
            f"spec.replicatedJobs[0].name: Job train-workers-0 exists and belongs to {SECRET} {SECRET}; rename or delete it [child-job-exists]",
        ]
