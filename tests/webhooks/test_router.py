"""Whatever is sent to a webhook gets a well-formed AdmissionReview back, and nothing of it is logged."""

import asyncio
import logging
import re
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from api.features import FeatureGates
from app.engine import engine
from tests.support.asgi import post
from tests.support.objects.jobsets import jobset, rjob, stored
from tests.support.objects.reviews import V1, answer, encode, review
from tests.support.webhook_app import APP, GOOD, PATHS, ask
from tests.webhooks.test_default import JUNK, SPEC
from webhooks.jobset.handlers import MUTATE_PATH, VALIDATE_PATH, jobset_handlers
from webhooks.review import MAX_BODY, AdmissionRequest, AdmissionResponse
from webhooks.router import create_app

SECRET = "hunter2"


async def test_nothing_to_default_is_no_patch():
    assert "patch" not in await ask(review(stored(jobset())), MUTATE_PATH)


async def test_a_creation_is_a_creation_whatever_old_object_is_sent_along():
    js, old = stored(jobset(managedBy="")), stored(jobset(rjob(replicas=9)))
    response = await ask(review(js, old, operation="CREATE"))
    assert [cause["field"] for cause in response["status"]["details"]["causes"]] == ["spec.managedBy"]


@pytest.mark.parametrize("path", PATHS)
async def test_other_operations_pass(path: str):
    response = await ask(review(None, stored(jobset()), operation="DELETE"), path)
    assert response["allowed"] is True


async def test_v1beta1_is_answered_in_v1beta1():
    http = await post(APP, VALIDATE_PATH, encode(review(stored(jobset()), version="admission.k8s.io/v1beta1")))
    assert b'"apiVersion":"admission.k8s.io/v1beta1"' in http.body


ABUSE = {
    "empty": b"",
    "truncated": GOOD[:-20],
    "text after the end": GOOD + b"x",
    "NaN": GOOD.replace(b'"replicas":1', b'"replicas":NaN'),
    "infinity": GOOD.replace(b'"replicas":1', b'"replicas":1e999'),
    "no UTF-8": GOOD.replace(b"workers", b"\xff\xfe"),
    "lone surrogate": GOOD.replace(b"workers", b"\\ud800"),
    "list": b"[]",
    "null": b"null",
    "number": b"1",
    "wrong kind": GOOD.replace(b'"AdmissionReview"', b'"Review"'),
    "wrong version": GOOD.replace(b"admission.k8s.io/v1", b"admission.k8s.io/v9"),
    "no uid": GOOD.replace(b'"uid":"u1"', b'"x":"u1"'),
    "empty uid": GOOD.replace(b'"uid":"u1"', b'"uid":""'),
    "uid is a number": GOOD.replace(b'"uid":"u1"', b'"uid":1'),
    "no request": encode({"apiVersion": V1, "kind": "AdmissionReview"}),
    "request is null": encode({"apiVersion": V1, "kind": "AdmissionReview", "request": None}),
    "object is a text": encode(review("x")),
    "object is missing": encode(review(None)),
    "old object is missing": encode(review(stored(jobset()), operation="UPDATE")),
    "deep lists": b"[" * 200_000,
    "deep object": GOOD.replace(b'"replicas":1', b'"replicas":' + b'{"a":' * 100_000),
    "deep but closed": GOOD.replace(b'"replicas":1', b'"x":' + b"[" * 5_000 + b"]" * 5_000),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("case", ABUSE)
async def test_bad_bodies_are_refused_with_400(case: str, path: str):
    response = await ask(ABUSE[case], path)
    assert response["allowed"] is False
    assert response["status"]["code"] == 400
    assert response["status"]["message"]


@pytest.mark.parametrize("depth", [50, 200, 400, 800, 950])
@pytest.mark.parametrize("path", PATHS)
async def test_depth_below_the_limit_of_the_reader_gets_an_answer_too(depth: int, path: str):
    body = GOOD.replace(b'"containers"', b'"x":' + b'{"a":' * depth + b"1" + b"}" * depth + b',"containers"')
    assert (await ask(body, path))["status"]["code"] in {200, 400}


async def test_of_repeated_keys_the_last_counts():
    body = GOOD.replace(b'"replicas":1', b'"replicas":1,"replicas":"x"')
    response = await ask(body)
    assert response["status"]["details"]["causes"][0]["field"] == "spec.replicatedJobs[0].replicas"


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/yaml", "application/jsonx"])
async def test_other_content_types_are_refused_unread(content_type: str):
    http = await post(APP, VALIDATE_PATH, GOOD, content_type=content_type)
    assert http.chunks_read == 0
    assert answer(http.body)["status"]["code"] == 400


async def test_a_content_type_may_have_parameters():
    assert (await ask(GOOD, content_type="application/json; charset=utf-8"))["allowed"] is True


async def test_a_body_up_to_the_limit_is_read_and_one_byte_more_is_413():
    padding = b" " * (MAX_BODY - len(GOOD))
    assert (await ask(GOOD + padding))["allowed"] is True
    response = await ask(GOOD + padding + b" ")
    assert response["allowed"] is False
    assert response["status"]["code"] == 413


async def test_an_endless_body_costs_bounded_memory_and_is_not_read_to_the_end():
    def endless() -> Iterator[bytes]:
        while True:
            yield bytes(65536)

    tracemalloc.start()
    http = await post(APP, VALIDATE_PATH, endless())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer(http.body)["status"]["code"] == 413
    assert http.headers["connection"] == "close"
    assert http.chunks_read * 65536 <= 4 * MAX_BODY + 65536
    assert peak < 2 * MAX_BODY


async def test_what_is_too_deep_for_a_handler_is_the_fault_of_the_object():
    async def deep(_: AdmissionRequest) -> AdmissionResponse:
        raise RecursionError

    response = await ask(review({}), "/x", create_app({"/x": deep}))
    assert (response["allowed"], response["status"]["code"]) == (False, 400)
    assert response["status"]["message"] == "the object is nested too deeply"


async def test_a_fault_of_ours_is_500_and_leaks_nothing(caplog: pytest.LogCaptureFixture):
    async def broken(request: AdmissionRequest) -> AdmissionResponse:
        raise ValueError(f"cannot work with {request.object}")

    app = create_app({"/x": broken})
    with caplog.at_level(logging.DEBUG):
        response = await ask(review({"password": SECRET}), "/x", app)
    assert response == {
        "uid": "u1",
        "allowed": False,
        "status": {
            "metadata": {},
            "status": "Failure",
            "reason": "InternalError",
            "code": 500,
            "message": "internal error (ValueError) in webhook /x",
        },
    }
    assert "ValueError" in caplog.text
    assert SECRET not in caplog.text


async def test_faults_in_a_group_are_logged_each_with_its_place(caplog: pytest.LogCaptureFixture):
    async def first() -> None:
        await asyncio.sleep(0)
        raise ValueError(SECRET)

    async def broken(_: AdmissionRequest) -> AdmissionResponse:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(first())
                await asyncio.sleep(0)
        except* ValueError as faults:
            raise ExceptionGroup("all", [faults, OSError(SECRET)]) from None
        return AdmissionResponse()

    response = await ask(review({}), "/x", create_app({"/x": broken}))
    assert response["status"]["code"] == 500
    logged = [record.getMessage() for record in caplog.records if record.name == "webhooks.router"]
    assert [re.sub(r"\d+$", "N", line) for line in logged] == [
        "webhook failed path=/x uid=u1 error=ValueError at=first:N",
        "webhook failed path=/x uid=u1 error=OSError at=?",
    ]
    assert SECRET not in caplog.text


async def test_bodies_are_not_logged_whatever_happens_to_them(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG):
        for body in (GOOD, GOOD[:-3], encode(review({"spec": {"managedBy": SECRET}}))):
            await ask(body.replace(b"workers", SECRET.encode()))
    assert SECRET not in caplog.text


async def test_requests_are_counted_with_the_rules_and_the_code_of_the_answer():
    class Metrics:
        def __init__(self) -> None:
            self.calls: list[tuple[Any, ...]] = []

        def on_start(self, path: str) -> None:
            self.calls.append((path,))

        def on_refusal(self, path: str, rule: str) -> None:
            self.calls.append((path, rule))

        def on_finish(self, path: str, code: int, seconds: float) -> None:
            assert 0 <= seconds < 5
            self.calls.append((path, code))

    metrics = Metrics()
    app = create_app(jobset_handlers(engine(FeatureGates())), metrics=metrics)
    await ask(review(stored(jobset())), app=app)
    await ask(review(stored(jobset(managedBy=""))), app=app)
    await ask(b"{", app=app)
    assert metrics.calls == [
        (VALIDATE_PATH,),
        (VALIDATE_PATH, 200),
        (VALIDATE_PATH,),
        (VALIDATE_PATH, "managed-by-empty"),
        (VALIDATE_PATH, 422),
        (VALIDATE_PATH,),
        (VALIDATE_PATH, 400),
    ]


async def test_there_are_no_other_pages():
    for path in ("/", "/docs", "/openapi.json", "/redoc"):
        assert (await post(APP, path, b"")).status == 404


OBJECTS = st.fixed_dictionaries({}, optional={"metadata": JUNK, "spec": SPEC, "status": JUNK})


NO_LIST = {"spec": {"network": {}, "replicatedJobs": True}}
NO_COUNT = {"spec": {"scheduling": {}}, "status": {"replicatedJobsStatus": [{"active": "all"}]}}


@settings(deadline=None)
@example(new={}, old=NO_LIST, path=PATHS[0], alpha=False)
@example(new={"spec": {"scheduling": {}}}, old=NO_COUNT, path=PATHS[0], alpha=True)
@given(new=OBJECTS, old=st.none() | OBJECTS, path=st.sampled_from(PATHS), alpha=st.booleans())
def test_no_object_makes_a_webhook_fail(new: Any, old: Any, path: str, alpha: bool):
    app = create_app(jobset_handlers(engine(FeatureGates({"AllAlpha": alpha}))))
    response = asyncio.run(ask(review(new, old), path, app))
    assert response["status"]["code"] in {200, 422}


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_make_a_webhook_fail(body: bytes):
    assert asyncio.run(ask(body))["allowed"] is False
