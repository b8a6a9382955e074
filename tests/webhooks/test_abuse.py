"""Input of attackers: it gets a well-formed answer, stays out of the logs, and costs others little."""

import asyncio
import inspect
import logging
import threading
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.features import FeatureGates
from app.engine import engine
from tests.support.asgi import post
from tests.support.objects.jobsets import jobset, stored
from tests.support.objects.reviews import V1, answer, encode, in_pieces, review
from tests.support.tls import until
from tests.support.webhook_app import APP, GOOD, PATHS, ask
from webhooks.body import BODY_LIMITS, Bodies, BodyLimits
from webhooks.jobset.handlers import VALIDATE_PATH, jobset_handlers
from webhooks.offload import MAX_OVERTAKING, Turns, compute, work
from webhooks.review import MAX_BODY, AdmissionRequest, AdmissionResponse
from webhooks.router import create_app
from webhooks.work import Work

SECRET = "hunter2"
LARGE, LARGE_AT_ONCE, COSTLY = BODY_LIMITS.large_bytes, BODY_LIMITS.max_large_reviews, BODY_LIMITS.costly_fields


def swap(old: bytes, new: bytes, body: bytes = GOOD) -> bytes:
    assert old in body
    return body.replace(old, new)


REFUSED = {
    **{
        f"{side} is {name}": encode({**review(stored(jobset()), stored(jobset())), "request": request})
        for side in ("object", "oldObject")
        for name, value in {"a list": [1], "a number": 1, "true": True, "a text": "x"}.items()
        for request in [{**review(stored(jobset()), stored(jobset()))["request"], side: value}]
    },
    "request is a list": encode({"apiVersion": V1, "kind": "AdmissionReview", "request": []}),
    "review in a list": b"[" + GOOD + b"]",
    "a number beyond floats": swap(b'"replicas":1', b'"replicas":-1e400'),
    "minus infinity": swap(b'"replicas":1', b'"replicas":-Infinity'),
    "a key that is not text": swap(b'"replicas":1', b"1:1"),
    "a key with a lone surrogate": swap(b'"replicas":1', b'"\\udc00":1'),
    "a raw control character": swap(b"workers", b"wor\x00kers"),
    "a byte order mark": b"\xef\xbb\xbf" + GOOD,
    "UTF-16": GOOD.decode().encode("utf-16"),
    "compressed": b"\x1f\x8b\x08\x00" + GOOD,
    "two documents": GOOD + GOOD,
    "single quotes": GOOD.replace(b'"', b"'"),
    "a comment": GOOD + b"// x",
    "100k lists, closed": swap(b'"replicas":1', b'"x":' + b"[" * 100_000 + b"]" * 100_000),
    "100k objects, closed": swap(b'"replicas":1', b'"x":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "deep beside the review": swap(b'"kind"', b'"x":' + b"[" * 100_000 + b"]" * 100_000 + b',"kind"'),
    "the last of two uids is empty": swap(b'"uid":"u1"', b'"uid":"u1","uid":""'),
    "the last of two requests is null": GOOD[:-1] + b',"request":null}',
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("case", REFUSED)
async def test_what_is_no_review_of_an_object_is_refused_with_400(case: str, path: str):
    response = await ask(REFUSED[case], path)
    assert (response["allowed"], response["status"]["code"]) == (False, 400)
    assert len(response["status"]["message"]) < 400


JUDGED = {
    "an integer of 5000 digits": swap(b'"replicas":1', b'"replicas":1' + b"0" * 5000),
    "an integer beyond 64 bits": swap(b'"replicas":1', b'"replicas":18446744073709551616'),
    "a fraction": swap(b'"replicas":1', b'"replicas":1.5'),
    "a float that is nearly nothing": swap(b'"replicas":1', b'"replicas":1e-400'),
    "an escaped NUL": swap(b"workers", b"wor\\u0000kers"),
    "an emoji from two surrogates": swap(b"workers", b"\\ud83d\\ude00"),
    "an empty key": swap(b'"replicas":1', b'"":1'),
    "keys of Python": swap(b'"replicas":1', b'"__class__":1,"__dict__":{},"self":1'),
    "two specs, the last is empty": swap(b'"spec":{', b'"spec":{},"spec":{', GOOD),
    "an object without anything": encode(review({})),
    "a spec that is a list": encode(review({"spec": []})),
    "a name that is a list": encode(review({**stored(jobset()), "metadata": {"name": ["x"]}})),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("case", JUDGED)
async def test_an_unusual_object_gets_a_verdict(case: str, path: str):
    assert (await ask(JUDGED[case], path))["status"]["code"] in {200, 400, 422}


@pytest.mark.parametrize(
    "place", [b'"AdmissionReview"', b'"CREATE"', b'"u1"', b"workers", b'"jobset.x-k8s.io/v1alpha2"']
)
async def test_a_text_of_megabytes_is_not_sent_back(place: bytes):
    huge = place[:1] + b"x" * 1_000_000 + place[-1:]
    http = await post(APP, VALIDATE_PATH, swap(place, huge))
    response = answer(http.body)
    assert len(http.body) - len(response["uid"]) < 20_000


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"])
async def test_other_methods_are_405(method: str):
    http = await post(APP, VALIDATE_PATH, GOOD, method=method)
    assert http.status == 405
    assert http.chunks_read == 0


@pytest.mark.parametrize("suffix", ["/", "/x", "%20", ";x"])
async def test_other_paths_are_404_and_not_redirected(suffix: str):
    assert (await post(APP, VALIDATE_PATH + suffix, GOOD)).status == 404


async def test_the_query_that_api_servers_send_is_no_other_path():
    assert (await ask(GOOD, f"{VALIDATE_PATH}?timeout=10s"))["allowed"] is True


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_no_damage_to_a_review_makes_a_webhook_fail(data: st.DataObject):
    body = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(body)))
        cut = data.draw(st.integers(0, 12))
        body[start : start + cut] = data.draw(
            st.binary(max_size=8) | st.sampled_from([b"null", b"{}", b"[]", b'"', b"-1"])
        )
    response = asyncio.run(ask(bytes(body), data.draw(st.sampled_from(PATHS))))
    assert response["status"]["code"] in {200, 400, 422}


class Held:
    """A webhook whose reviews stay where they are until the test lets them go; it sees which thread works."""

    def __init__(self, limits: BodyLimits = BODY_LIMITS) -> None:
        self.running = 0
        self.most = 0
        self.release = asyncio.Event()
        self.threads: list[threading.Thread] = []
        self.app = create_app({"/x": self.handle}, limits=limits)
        self.bodies: Bodies = self.app.state.bodies

    async def handle(self, _: AdmissionRequest) -> AdmissionResponse:
        self.threads.append(await compute(threading.current_thread))
        self.running += 1
        self.most = max(self.most, self.running)
        await self.release.wait()
        self.running -= 1
        return AdmissionResponse()

    async def until_running(self, count: int) -> None:
        await until(lambda: self.running == count)


async def stalled(body: bytes, sent: asyncio.Event) -> AsyncIterator[bytes]:
    """All of a body but the word that it is over."""
    async for piece in in_pieces(body):
        yield piece
    sent.set()
    await asyncio.Event().wait()


def padded(size: int) -> bytes:
    return GOOD + b" " * (size - len(GOOD))


async def test_work_on_a_large_review_is_done_in_a_thread_and_on_a_small_one_at_once():
    held = Held()
    held.release.set()
    await ask(padded(LARGE), "/x", held.app)
    await ask(padded(LARGE + 1), "/x", held.app)
    await ask(GOOD, "/x", held.app)
    assert [thread is threading.main_thread() for thread in held.threads] == [True, False, True]


async def test_a_review_with_many_fields_is_worked_on_in_a_thread_however_few_bytes_it_has():
    held = Held()
    held.release.set()
    for count in (COSTLY // 2, COSTLY):
        body = swap(b'"replicas":1', b'"replicas":1,"x":[%s]' % b",".join([b"1"] * count))
        assert len(body) < LARGE / 10
        await ask(body, "/x", held.app)
    assert [thread is threading.main_thread() for thread in held.threads] == [True, False]


async def test_few_large_reviews_are_held_at_once_and_small_ones_pass_them():
    held = Held()
    large = [asyncio.create_task(ask(padded(LARGE + 1), "/x", held.app)) for _ in range(LARGE_AT_ONCE + 3)]
    await held.until_running(LARGE_AT_ONCE)
    small = asyncio.create_task(ask(GOOD, "/x", held.app))
    await held.until_running(LARGE_AT_ONCE + 1)
    held.release.set()
    answers = await asyncio.gather(small, *large)
    assert all(response["allowed"] for response in answers)
    assert held.most == LARGE_AT_ONCE + 1


async def test_a_large_review_that_finds_no_place_in_time_gets_a_retry_answer():
    held = Held(BodyLimits(body_timeout=0.5))
    large = [asyncio.create_task(ask(padded(LARGE + 1), "/x", held.app)) for _ in range(LARGE_AT_ONCE)]
    await held.until_running(LARGE_AT_ONCE)
    response = await ask(padded(LARGE + 1), "/x", held.app)
    assert (response["allowed"], response["status"]["code"]) == (False, 429)
    held.release.set()
    await asyncio.gather(*large)
    assert (await ask(padded(LARGE + 1), "/x", held.app))["allowed"] is True


async def test_the_largest_body_that_waits_for_a_place_gives_way_at_once():
    held = Held(BodyLimits(max_large_bytes=5 * LARGE))
    placed = [asyncio.create_task(ask(padded(LARGE + 1), "/x", held.app)) for _ in range(LARGE_AT_ONCE)]
    await held.until_running(LARGE_AT_ONCE)
    waiting = [asyncio.create_task(ask(padded(LARGE + more), "/x", held.app)) for more in (2, LARGE * 3, 3)]
    await until(lambda: any(task.done() for task in waiting))
    assert (await waiting[1])["status"]["code"] == 429
    assert held.running == LARGE_AT_ONCE
    held.release.set()
    assert all(response["allowed"] for response in await asyncio.gather(*placed, waiting[0], waiting[2]))
    assert held.bodies.is_idle


async def test_a_place_is_free_as_soon_as_a_client_has_left():
    held = Held()
    tasks = [asyncio.create_task(ask(padded(LARGE + 1), "/x", held.app)) for _ in range(LARGE_AT_ONCE + 1)]
    await held.until_running(LARGE_AT_ONCE)
    tasks.pop(0).cancel()
    await until(lambda: len(held.threads) == LARGE_AT_ONCE + 1)
    held.release.set()
    await asyncio.gather(*tasks)
    assert held.bodies.is_idle


async def test_a_thread_keeps_its_turn_until_it_ends_and_ends_when_nobody_waits():
    begun, threads = threading.Event(), Counter[str]()

    def endless(_: AdmissionRequest) -> AdmissionResponse:
        threads["now"] += 1
        threads["most"] = max(threads.values())
        begun.set()
        try:
            while True:
                left.spend()
        finally:
            threads["now"] -= 1

    def handle(request: AdmissionRequest) -> AdmissionResponse:
        nonlocal left
        left = work()
        left.steps_left = float("inf")
        return endless(request)

    left = Work()
    app = create_app({"/x": handle})
    for _ in range(3):
        begun.clear()
        task = asyncio.create_task(ask(padded(LARGE + 1), "/x", app))
        await until(begun.is_set)
        task.cancel()
        await asyncio.wait([task])
    await until(lambda: app.state.bodies.is_idle)
    assert threads == {"now": 0, "most": 1}


async def test_an_answer_that_a_thread_prepared_for_a_client_that_left_is_dropped():
    begun, release = threading.Event(), threading.Event()

    async def answer() -> AdmissionResponse:
        return AdmissionResponse()

    def handle(_: AdmissionRequest) -> Coroutine[None, None, AdmissionResponse]:
        begun.set()
        assert release.wait(10)
        return prepared

    prepared = answer()
    app = create_app({"/x": handle})
    task = asyncio.create_task(ask(padded(LARGE + 1), "/x", app))
    await until(begun.is_set)
    task.cancel()
    await asyncio.wait([task])
    release.set()
    await until(lambda: app.state.bodies.is_idle)
    await until(lambda: inspect.getcoroutinestate(prepared) == inspect.CORO_CLOSED)


async def test_a_review_of_medium_size_does_not_wait_for_the_work_on_large_ones():
    begun, release = threading.Event(), threading.Event()

    def handle(request: AdmissionRequest) -> AdmissionResponse:
        if request.name == "large":
            begun.set()
            release.wait(20)
        return AdmissionResponse()

    app = create_app({"/x": handle})
    many = b'"x":[%s],"replicas":1' % b",".join([b"1"] * COSTLY)
    medium, large = swap(b'"replicas":1', many), swap(b'"name":"train","namespace"', b'"name":"large","namespace"')
    sizes = large.ljust(LARGE + 1), swap(b'"replicas":1', b",".join([many] * 9), large)
    waiting = [asyncio.create_task(ask(body, "/x", app)) for body in sizes]
    await until(begun.is_set)
    async with asyncio.timeout(10):
        assert [(await ask(medium, "/x", app))["allowed"] for _ in range(3)] == [True] * 3
    assert not any(task.done() for task in waiting)
    release.set()
    await asyncio.gather(*waiting)


async def test_the_cheapest_is_next_and_who_waits_longest_is_passed_some_times_only():
    turns = Turns()
    present = turns.request_turn(0)
    costly = turns.request_turn(9)
    cheap = [turns.request_turn(1 + number % 2) for number in range(2 * MAX_OVERTAKING)]
    served: list[int] = []
    while present is not costly:
        turns.end_turn(present)
        present = next(each for each in (costly, *cheap) if each.begun.done() and each.begun.result())
        served.append(present.cost)
    assert served == [1] * MAX_OVERTAKING + [9]


@pytest.mark.parametrize("end", ["too large", "cut off", "bad", "failing"])
async def test_a_large_review_that_ends_badly_leaves_its_place(end: str):
    held = Held()
    held.release.set()

    async def broken(_: AdmissionRequest) -> AdmissionResponse:
        raise ValueError

    app = create_app({"/x": held.handle, "/broken": broken})
    for _ in range(LARGE_AT_ONCE + 1):
        if end == "cut off":
            sent = asyncio.Event()
            task = asyncio.create_task(post(app, "/x", stalled(padded(LARGE * 2), sent)))
            await sent.wait()
            task.cancel()
            await asyncio.wait([task])
        else:
            body = {"too large": padded(MAX_BODY + 1), "bad": padded(LARGE * 2)[:-1] + b"x"}.get(end, padded(LARGE * 2))
            await ask(body, "/broken" if end == "failing" else "/x", app)
    assert (await asyncio.wait_for(ask(padded(LARGE * 2), "/x", app), 5))["allowed"] is True


async def test_a_body_that_says_it_is_too_large_is_never_held():
    held = Held()
    large = [asyncio.create_task(ask(padded(LARGE + 1), "/x", held.app)) for _ in range(LARGE_AT_ONCE)]
    await held.until_running(LARGE_AT_ONCE)
    body = bytes(MAX_BODY + 1)
    http = await asyncio.wait_for(post(held.app, "/x", in_pieces(body), content_length=str(len(body))), 5)
    assert answer(http.body)["status"]["code"] == 413
    held.release.set()
    await asyncio.gather(*large)


async def test_a_deep_object_in_a_large_review_gets_an_answer_too():
    body = swap(b'"replicas":1', b'"x":' + b"[" * LARGE + b"]" * LARGE)
    assert (await ask(body))["status"]["code"] == 400


async def test_an_answer_that_cannot_be_written_is_500():
    async def odd(_: AdmissionRequest) -> AdmissionResponse:
        return AdmissionResponse(patch=({"value": object()},))

    response = await ask(GOOD, "/x", create_app({"/x": odd}))
    assert (response["uid"], response["status"]["code"]) == ("u1", 500)


def everywhere(secret: str) -> dict[str, Any]:
    """A review with a secret in each place that a sender fills. Names are logged: here they are none."""
    js = stored(jobset(managedBy=secret, failurePolicy={"maxRestarts": secret, "rules": [{"action": secret}]}))
    name = f"{secret}!"
    js["metadata"] |= {"name": name, "namespace": name, "annotations": {secret: secret}, "labels": {secret: secret}}
    pod = js["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["env"] = [{"name": "PASSWORD", "value": secret}]
    body = review(js, uid=f"{secret}\nINFO forged line")
    body["request"] |= {"operation": "CREATE", "name": name, "namespace": name, "userInfo": {"username": secret}}
    return {**body, secret: secret}


@pytest.mark.parametrize("path", [*PATHS, "/broken"])
async def test_nothing_of_a_review_is_logged_even_when_its_handler_fails(path: str, caplog: pytest.LogCaptureFixture):
    async def broken(request: AdmissionRequest) -> AdmissionResponse:
        raise ValueError(f"{request.uid}: cannot work with {request.object}")

    app = create_app({**jobset_handlers(engine(FeatureGates())), "/broken": broken})
    bodies = [encode(everywhere(SECRET)), encode(everywhere(SECRET))[:-1], padded(LARGE) + SECRET.encode()]
    with caplog.at_level(logging.DEBUG):
        for body in bodies:
            await ask(body, path, app, x_secret=SECRET)
            await ask(body, f"{path}?{SECRET}", app, content_type=SECRET)
            await post(app, f"/{SECRET}", body)
    assert (path == "/broken") == ("webhook failed path=/broken" in caplog.text)
    assert SECRET not in caplog.text
    assert "forged" not in caplog.text
