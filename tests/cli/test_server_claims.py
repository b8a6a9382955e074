"""Templates of claims of devices, which objects in the same files may make."""

from typing import Any

import msgspec
import pytest
import yaml

from api.features import FeatureGates
from cli.check.validate import Options, check
from kube.transport import Response
from tests.cli.test_server_checks import Cluster
from tests.support.objects.jobsets import jobset, rjob

pytestmark = pytest.mark.looptime

DOMAIN = {"kind": "ComputeDomain", "spec": {"channel": {"resourceClaimTemplate": {"name": "rdma"}}}}


@pytest.mark.parametrize(
    ("before", "missing"),
    [
        ({"kind": "ConfigMap"}, ["resource-claim-template-missing"]),
        ({"kind": "ResourceClaimTemplate"}, []),
        (DOMAIN, []),
    ],
)
async def test_what_makes_a_template_of_a_claim_may_stand_in_the_files(
    ask_server, write, before: dict[str, Any], missing: list[str]
):
    cluster = Cluster(201, "")
    gone = {"kind": "Status", "reason": "NotFound", "code": 404, "details": {"name": "rdma"}}
    cluster.answers["/resourceclaimtemplates/rdma"] = Response(404, {}, msgspec.json.encode(gone))
    ask_server(cluster)
    pod = {"resourceClaims": [{"name": "rdma", "resourceClaimTemplateName": "rdma"}]}
    first = {"apiVersion": "v1", "metadata": {"name": "rdma"}, **before}
    text = "---\n".join(yaml.safe_dump(body) for body in (first, jobset(rjob(pod=pod))))
    report = await check(Options([write(text)], FeatureGates(), server=True))
    assert [found.rule for found in report.findings] == missing
