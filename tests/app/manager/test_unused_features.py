"""Sets that use no feature of docs/concepts/recovery.md: the same requests, byte for byte, with its gates and without."""

import logging
import re
from collections import Counter

import pytest

from api.features import FeatureGates
from kube.transport import Request
from tests.support.model import virtual
from tests.support.model.many_lives import KINDS, NS, Crowd
from tests.support.objects.unused_features import GATES

Asked = Counter[tuple[str, str, bytes]]
"""Method, path and body of requests."""

VARIES = (
    (re.compile(rb'"(resourceVersion|durationSeconds)":"?\d+"?'), rb'"\1":0'),
    (re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*Z"), b"TIME"),
)
"""What differs between two runs in a body: the order of writes, and the clock."""

pytestmark = pytest.mark.no_cover


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Refused Jobs are logged, and pytest would keep that."""
    caplog.set_level(logging.CRITICAL, "kube.controller")


def asked(gates: dict[str, bool]) -> Asked:
    """All requests about sets of every kind of `many_lives.KINDS` over their lives.

    Left out are those about the whole cluster: a manager watches it once for all sets, with JobSetNodeFailure nodes, too.
    """
    requests: list[Request] = []

    async def story() -> None:
        crowd = Crowd(FeatureGates(gates))
        crowd.api.requests = requests
        async with crowd.watched():
            await crowd.generation(2 * len(KINDS))
            await crowd.rest()
            assert crowd.left() == {}

    virtual.run(story)
    about_sets = [request for request in requests if f"/namespaces/{NS}/" in request.path]
    return Counter((request.method, _path(request.path), _body(request.body)) for request in about_sets)


def _path(path: str) -> str:
    """Without the time in the name of an event."""
    return path.rpartition(".")[0] if "/events/" in path else path


def _body(body: bytes | None) -> bytes:
    body = body or b""
    for varies, constant in VARIES:
        body = varies.sub(constant, body)
    return body


def test_a_set_that_uses_none_of_it_costs_no_request_and_no_byte_more():
    on, off = asked(GATES), asked({})
    assert off.total() > 100, "whole lives"
    assert on == off


def test_the_times_of_recoveries_cost_bytes_of_every_status_and_no_request():
    on, off = asked({"JobSetRecoveryTimes": True}), asked({})
    assert _without_bodies(on) == _without_bodies(off)
    assert any(b'"recovery":' in body for _, _, body in on)
    assert not any(b'"recovery":' in body for _, _, body in off)


def _without_bodies(requests: Asked) -> Counter[tuple[str, str]]:
    return Counter((method, path) for method, path, _ in requests.elements())
