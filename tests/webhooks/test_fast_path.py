"""The fast path of a webhook and its ASGI application give the same answer to the same body, byte by byte."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.features import FeatureGates
from app.engine import engine
from tests.support.asgi import post
from tests.support.corpus import Case, case_id, cases
from tests.support.reviews import encode, review
from tests.support.tls import context_with, serving
from tests.support.webhook_app import APP, GOOD, PATHS
from tests.webhooks.test_abuse import JUDGED, REFUSED
from tests.webhooks.test_abuse_tls import PAIR, WHOLE, connected
from tests.webhooks.test_router import ABUSE
from webhooks.jobset.handlers import jobset_handlers
from webhooks.review import AdmissionRequest, AdmissionResponse, Handler, decided
from webhooks.router import AdmissionApp, create_app

CORPUS = cases("good") + cases("bad")
BETA = GOOD.replace(b"admission.k8s.io/v1", b"admission.k8s.io/v1beta1")
BODIES = {**ABUSE, **REFUSED, **JUDGED, "good": GOOD, "v1beta1": BETA, "v1beta1 cut off": BETA[:-20]}


async def assert_same(app: AdmissionApp, path: str, body: bytes) -> None:
    answer = app.fast_paths[path.encode()](body)
    fast = answer if isinstance(answer, bytes) else await answer
    assert fast == (await post(app, path, body)).body


def later(handler: Handler) -> Handler:
    """The same handler, as if it had to ask the cluster first."""

    async def answer(request: AdmissionRequest) -> AdmissionResponse:
        await asyncio.sleep(0)
        return await decided(handler(request))

    return answer


@pytest.mark.parametrize("case", CORPUS, ids=case_id)
async def test_every_manifest_of_the_corpus(case: Case):
    handlers = jobset_handlers(engine(FeatureGates(case.gates)))
    body = encode(review(case.manifest, case.old))
    for path, handler in handlers.items():
        await assert_same(create_app({path: handler}), path, body)
        await assert_same(create_app({path: later(handler)}), path, body)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("case", BODIES)
async def test_abuse(case: str, path: str):
    await assert_same(APP, path, BODIES[case])


@settings(deadline=None)
@given(case=st.sampled_from(CORPUS), path=st.sampled_from(PATHS), place=st.floats(0, 1), damage=st.binary(max_size=8))
def test_damaged_reviews(case: Case, path: str, place: float, damage: bytes):
    body = encode(review(case.manifest, case.old))
    start = int(place * len(body))
    asyncio.run(assert_same(APP, path, body[:start] + damage + body[start + len(damage) :]))


@pytest.mark.parametrize("error", [ValueError, RecursionError])
async def test_a_handler_that_fails(error: type[Exception]):
    def broken(_: AdmissionRequest) -> AdmissionResponse:
        raise error

    for handler in (broken, later(broken)):
        await assert_same(create_app({"/x": handler}), "/x", GOOD)


async def said(app: Any) -> tuple[bytes, set[bytes], bytes]:
    """Status line, headers but the date, and body of the answer to a good review over TLS."""
    async with serving(app, context_with(PAIR)) as running, connected(running) as connection:
        await connection.send(WHOLE)
        status, *headers = (await asyncio.wait_for(connection.reader.readuntil(b"\r\n\r\n"), 10)).lower().split(b"\r\n")
        length = next(int(header.split(b":")[1]) for header in headers if header.startswith(b"content-length:"))
        body = await connection.reader.readexactly(length)
    return status, {header for header in headers if not header.startswith(b"date:")}, body


async def test_the_whole_answer_over_tls():
    async def without_fast_paths(scope: Any, receive: Any, send: Any) -> None:
        await APP(scope, receive, send)

    assert await said(APP) == await said(without_fast_paths)
