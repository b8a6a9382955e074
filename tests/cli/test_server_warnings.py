"""Which warnings of the manager `jobset validate --server` leaves out."""

from __future__ import annotations

import pytest

from api.features import FeatureGates
from cli.check.checks import Checks
from cli.check.server_checks import ServerChecks
from kube.client import Client
from kube.transport import Request, Response
from tests.cli.test_server_checks import Cluster
from tests.support.objects.jobsets import jobset, rjob

pytestmark = pytest.mark.looptime


async def test_what_stands_before_a_jobset_is_not_missing_to_the_manager_either():
    account = "spec.replicatedJobs[0].template.spec.template.spec.serviceAccountName"
    said = f"{account}: no ServiceAccount trainer: no pod is created; create it"

    class Without(Cluster):
        async def send(self, request: Request) -> Response:
            if request.path.endswith("/serviceaccounts/trainer"):
                return Response(404, {}, b'{"kind":"Status","reason":"NotFound","code":404}')
            return await super().send(request)

    checks = Checks(FeatureGates(), "default")
    sent = checks.prepare(jobset(rjob(pod={"serviceAccountName": "trainer"})))
    for others, warned in ((frozenset(), [account]), (frozenset({("ServiceAccount", "", "trainer")}), [])):
        server = ServerChecks(Client(Without(201, "", warnings=(said,))))
        found = await server.check(checks, sent, others)
        assert [str(error.path) for error in found.warnings] == warned
