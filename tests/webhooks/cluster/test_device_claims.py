"""ResourceClaims and their templates that pods name: `jobset validate --server` warns if there is none."""

import pytest

from kube.transport import Response
from tests.support.model.scripted_server import Script, create, status
from tests.support.objects.jobsets import jobset, rjob

pytestmark = pytest.mark.looptime

DEVICES = {
    "resourceClaims": [{"name": "a", "resourceClaimName": "gpu"}, {"name": "b", "resourceClaimTemplateName": "rdma"}]
}


async def devices(answer: Response, **options: bool) -> list[str]:
    kinds = ("get resourceclaims", "get resourceclaimtemplates")
    script = Script(answers=dict.fromkeys(kinds, lambda _: answer))
    found = await create(script, jobset(rjob(pod=DEVICES)), **options)
    assert bool({*kinds} & {*script.asked()}) is bool(options)
    return [error.rule.id for error in found if error.rule and error.rule.id.startswith("resource-claim")]


async def test_claims_of_devices_are_looked_up_for_their_author_alone():
    gone = status(404, "NotFound", "not found", name="x")
    missing = ["resource-claim-missing", "resource-claim-template-missing"]
    assert await devices(gone, has_author_rights=True) == missing
    assert await devices(Response(200, {}, b'{"metadata": {"name": "x"}}'), has_author_rights=True) == []
    assert await devices(status(404, "NotFound", "no such resource"), has_author_rights=True) == [], (
        "it serves no such kind"
    )
    assert await devices(gone) == []
