"""What becomes of the cluster's word about a JobSet itself; what a real one says is in tests/integration."""

import msgspec
import pytest

from api.features import FeatureGates
from app.check.checks import CheckError, Checks
from app.check.server_checks import ServerChecks
from kube.client import Client
from kube.transport import Request, Response
from tests.support.jobsets import jobset

pytestmark = pytest.mark.looptime


class Cluster:
    """Takes everything, but answers the creation of a JobSet with one code and text."""

    def __init__(self, code: int, message: str) -> None:
        body = {"kind": "Status", "status": "Failure", "code": code, "message": message, "reason": "Unknown"}
        self._answer = Response(code, {}, msgspec.json.encode(body))

    async def send(self, request: Request) -> Response:
        if request.verb == "create" and request.path.endswith("/jobsets"):
            assert ("dryRun", "All") in request.query
            return self._answer
        if request.verb == "get" and "/jobsets/" in request.path:
            return Response(404, {}, b'{"kind":"Status","reason":"NotFound","code":404}')
        return Response(201, {}, b"{}")

    async def close(self) -> None:
        """Nothing."""


async def findings(code: int, message: str) -> list[tuple[str, bool]]:
    checks = Checks(FeatureGates(), "default")
    found = await ServerChecks(Client(Cluster(code, message))).check(checks, checks.sent(jobset()))
    return [(error.rule.id if error.rule else "", error.is_warning) for error in (*found.errors, *found.warnings)]


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        (201, "", []),
        (409, "exists", []),
        (403, 'jobsets.jobset.x-k8s.io is forbidden: User "me" cannot create', [("jobset-not-tried", True)]),
        (403, 'jobsets.jobset.x-k8s.io "train" is forbidden: exceeded quota', [("jobset-refused", False)]),
        (400, 'admission webhook "a.b" does not support dry run', [("jobset-not-tried", True)]),
        (400, 'admission webhook "a.b" denied the request', [("jobset-refused", False)]),
        (422, "ValidatingAdmissionPolicy 'x' denied request", [("jobset-refused", False)]),
    ],
)
async def test_a_refusal_is_a_fault_unless_it_is_about_who_asks_or_how(code: int, message: str, expected: object):
    assert await findings(code, message) == expected


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_a_cluster_that_cannot_answer_is_no_verdict(code: int):
    with pytest.raises(CheckError):
        await findings(code, "not now")
