"""What is asked about groups at admission, and the warnings about a cluster without them."""

import asyncio
from typing import Any

import msgspec
import pytest

from api.features import FeatureGates
from kube.client import Client
from kube.errors import TransportError
from kube.transport import Request, Response
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from webhooks.jobset.answers import MAX_WARNING_LENGTH, RULE_SUFFIX, warning_texts
from webhooks.jobset.cluster.checks import ClusterChecks
from webhooks.jobset.cluster.gangs import CACHE_SECONDS

pytestmark = pytest.mark.looptime

GATES = FeatureGates({"AllAlpha": True})
BETA, ALPHA = ("/apis/scheduling.k8s.io/" + version for version in ("v1beta1", "v1alpha3"))
CUBE = {"topology": [{"key": "example.com/cube"}]}
FLAT: JSON = {}
CONSTRAINED: JSON = {"schedulingConstraints": CUBE}
LEVELS: JSON = {
    "schedulingPolicy": {"gang": {}},
    "replicatedJobs": [{"targetReplicatedJobs": ["workers"], "job": {"schedulingConstraints": CUBE}}],
}


class ApiServer:
    """Discovery of some plurals by version, and a PodGroup that keeps its constraint or does not. Nodes have labels."""

    def __init__(self, *, keeps: bool = True, minor: str = "37", **served: list[str]) -> None:
        self.minor = minor
        self.served = {BETA: served.get("beta"), ALPHA: served.get("alpha")}
        self.keeps = keeps
        self.asked: list[str] = []

    async def send(self, request: Request) -> Response:
        if request.path.endswith("/podgroups"):
            self.asked.append("try")
            body = msgspec.json.decode(request.body or b"{}")
            if not self.keeps:
                del body["spec"]["schedulingConstraints"]
            return Response(201, {}, msgspec.json.encode(body))
        if request.path in self.served:
            self.asked.append(request.path)
            plurals = self.served[request.path]
            if plurals is None:
                return Response(404, {}, msgspec.json.encode({"kind": "Status", "code": 404, "reason": "NotFound"}))
            return Response(200, {}, msgspec.json.encode({"resources": [{"name": plural} for plural in plurals]}))
        if request.path == "/version":
            return Response(200, {}, msgspec.json.encode({"major": "1", "minor": self.minor}))
        if request.path == "/api/v1/nodes":
            return Response(200, {}, b'{"metadata": {}, "items": [{"metadata": {"name": "n"}}]}')
        return Response(201, {}, b'{"metadata": {}, "items": []}')

    async def close(self) -> None:
        """Nothing to close."""


class Unreachable(ApiServer):
    async def send(self, request: Request) -> Response:
        if request.path in self.served:
            raise TransportError("no route", sent=False)
        return await super().send(request)


class Forbidding(ApiServer):
    async def send(self, request: Request) -> Response:
        if request.path.endswith("/podgroups"):
            body = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no right"}
            return Response(403, {}, msgspec.json.encode(body))
        return await super().send(request)


def of(scheduling: JSON | None, **spec: Any) -> JSON:
    fields = {} if scheduling is None else {"scheduling": scheduling}
    return stored(jobset(rjob(parallelism=2, completions=2), **fields, **spec))


async def warnings(server: ApiServer, js: JSON) -> list[str]:
    found = await ClusterChecks(Client(server)).findings_about_new(js, (), GATES, namespace="default")
    assert all(error.is_warning for error in found)
    return [RULE_SUFFIX.sub("", text) for text in warning_texts(found)]


GROUPS = ["workloads", "podgroups", "podgroups/status"]
COMPOSITES = [*GROUPS, "compositepodgroups"]


@pytest.mark.parametrize("scheduling", [FLAT, CONSTRAINED, LEVELS])
async def test_a_cluster_that_serves_all_of_it_gets_no_warning(scheduling: JSON):
    assert await warnings(ApiServer(beta=GROUPS, alpha=COMPOSITES), of(scheduling)) == []


async def test_without_the_right_to_create_groups_there_is_no_warning():
    assert await warnings(Forbidding(beta=GROUPS, alpha=COMPOSITES, keeps=False), of(CONSTRAINED)) == []


async def test_without_groups_the_flags_are_named():
    texts = await warnings(ApiServer(), of(FLAT))
    assert texts == [
        (
            "spec.scheduling: the API server serves no workloads and podgroups of scheduling.k8s.io/v1beta1: Jobs may have"
            " to wait"
        ),
        "spec.scheduling: needs --feature-gates=GenericWorkload=true",
        "spec.scheduling: and kube-apiserver --runtime-config=scheduling.k8s.io/v1beta1=true",
    ]


async def test_an_api_server_that_is_too_old_is_told_no_flags():
    said = "spec.scheduling: scheduling groups need Kubernetes 1.37 or newer, and the API server is 1.33: Jobs may have to wait"
    assert await warnings(ApiServer(minor="33"), of(FLAT)) == [said]
    assert len(said) <= MAX_WARNING_LENGTH


async def test_constraints_that_are_dropped_are_found_by_trying():
    server = ApiServer(beta=GROUPS, keeps=False)
    assert (await warnings(server, of(CONSTRAINED)))[0].startswith(
        "spec.scheduling: the API server drops schedulingConstraints without a word"
    )
    assert await warnings(ApiServer(beta=GROUPS), of(CONSTRAINED)) == []


async def test_an_answer_is_kept_for_a_while():
    server = ApiServer(beta=GROUPS, alpha=COMPOSITES)
    checks = ClusterChecks(Client(server))
    for _ in range(5):
        await checks.findings_about_new(of(LEVELS), (), GATES, namespace="default")
    assert server.asked == [BETA, ALPHA]
    await asyncio.sleep(CACHE_SECONDS)
    await checks.findings_about_new(of(LEVELS), (), GATES, namespace="default")
    assert server.asked == [BETA, ALPHA] * 2


@pytest.mark.parametrize(
    ("js", "gates"),
    [
        (of(None), GATES),
        (of(LEVELS), FeatureGates()),
        (of(LEVELS, managedBy="example.com/other"), GATES),
    ],
)
async def test_nothing_is_asked_about_other_sets(js: JSON, gates: FeatureGates):
    server = ApiServer()
    assert await ClusterChecks(Client(server)).findings_about_new(js, (), gates, namespace="default") == []
    assert server.asked == []


async def test_a_missing_answer_is_a_warning_and_refuses_nothing():
    assert await warnings(Unreachable(), of(FLAT)) == [
        "spec.scheduling: not checked against the cluster: no connection to the API server; events report faults"
    ]


async def test_an_update_asks_when_groups_change():
    server = ApiServer()
    checks = ClusterChecks(Client(server))
    old = of(FLAT, suspend=True)
    assert await checks.findings_about_update(old, of(FLAT, suspend=False), (), GATES, namespace="default") == []
    assert len(await checks.findings_about_update(old, of(LEVELS, suspend=True), (), GATES, namespace="default")) == 3
