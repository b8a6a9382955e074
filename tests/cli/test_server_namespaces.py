"""`jobset validate --server --policies`: what is known of a namespace, from the cluster and from the files."""

import contextlib
from collections.abc import AsyncIterator

import yaml

from api.features import FeatureGates
from cli.check.server_checks import ServerChecks
from cli.check.validate import Options, check_manifests
from kube.client import Client
from kube.transport import Request, Response
from tests.cli.test_server_checks import Cluster
from tests.support.objects.jobsets import jobset, rjob
from tests.support.objects.policies import manifest


async def test_a_namespace_of_the_files_adds_to_the_one_of_the_cluster(monkeypatch, write, tmp_path):
    class Labelled(Cluster):
        async def send(self, request: Request) -> Response:
            if request.path.endswith("/namespaces/default"):
                return Response(200, {}, b'{"metadata":{"name":"default","labels":{"tenant":"yes","jobs":"9"}}}')
            return await super().send(request)

    @contextlib.asynccontextmanager
    async def connected(*_: object) -> AsyncIterator[ServerChecks]:
        yield ServerChecks(Client(Labelled(201, "")))

    monkeypatch.setattr("cli.check.server_checks.connect", connected)
    rules = manifest(
        match={"namespaceSelector": {"matchLabels": {"tenant": "yes"}}}, maxJobs={"fromNamespaceLabel": "jobs"}
    )
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(rules))
    namespace = {"kind": "Namespace", "metadata": {"name": "default", "labels": {"jobs": "1"}}}
    files = [write(yaml.safe_dump_all([namespace, jobset(rjob(replicas=2))]))]
    report = await check_manifests(
        Options(files, FeatureGates(), server=True, policies=[str(tmp_path / "policy.yaml")])
    )
    (found,) = report.findings
    assert "2 Jobs, and at most 1 allowed by label jobs of the namespace" in found.message
