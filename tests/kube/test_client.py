"""The verbs: what is sent, what comes back, what is tried again and what never is."""

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dev.simulator.patches import merge
from kube.client import Client, PatchType
from kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Call,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
    TransportError,
    Unauthorized,
    from_response,
)
from kube.patches import merge_diff
from kube.resources import JOBS, LEASES, NODES, PODS
from kube.transport import Request, RequestLimits, Response, TokenBucket
from tests.support.model.faults import Answer, FaultyTransport, Killed, LostAnswer, Refused, Stale, kill_at
from tests.support.model.memory_api import MemoryApi
from tests.support.objects.kube_objects import THINGS, Thing

pytestmark = pytest.mark.looptime


CALL = Call("get", "/x")


class Echo:
    """Answers every request with what was asked."""

    def __init__(self, body: object = None, status: int = 200):
        self.requests: list[Request] = []
        self.answer = Response(status, {}, msgspec.json.encode(body if body is not None else {}))

    async def send(self, request):
        self.requests.append(request)
        return self.answer

    async def close(self):
        """Nothing."""


def test_paths():
    assert JOBS.path("ns") == "/apis/batch/v1/namespaces/ns/jobs"
    assert JOBS.path(None) == "/apis/batch/v1/jobs"
    assert PODS.path("ns", "a", "status") == "/api/v1/namespaces/ns/pods/a/status"
    assert NODES.path("ignored", "n1") == "/api/v1/nodes/n1"
    assert (JOBS.api_version, PODS.api_version, str(LEASES)) == ("batch/v1", "v1", "leases.coordination.k8s.io")
    with pytest.raises(ValueError, match="jobs 'a': a namespace is needed"):
        JOBS.path(None, "a")


@pytest.mark.parametrize("text", ["..", ".", "a/../b", "a?watch=true", "a#b", "%2e%2e", "a b", "a\n"])
def test_no_name_leads_to_another_path(text: str):
    for names in ((text, "a"), ("ns", text)):
        with pytest.raises(ValueError, match="is not the name of an object"):
            PODS.path(*names)


async def test_options_become_query_parameters():
    echo = Echo()
    client = Client(echo)
    await client.patch(
        THINGS,
        "a",
        {"x": 1},
        namespace="ns",
        subresource="status",
        patch_type=PatchType.APPLY,
        field_manager="me",
        force=True,
        dry_run=True,
        field_validation="Strict",
    )
    [request] = echo.requests
    assert (request.method, request.path) == ("PATCH", "/apis/test.dev/v1/namespaces/ns/things/a/status")
    assert request.content_type == "application/apply-patch+yaml"
    assert dict(request.query) == {"dryRun": "All", "fieldManager": "me", "force": "true", "fieldValidation": "Strict"}
    assert request.body == b'{"x":1}'


async def test_delete_sends_policy_and_preconditions():
    echo = Echo({"kind": "Status", "status": "Success"})
    gone = await Client(echo).delete(
        JOBS, "a", namespace="ns", propagation_policy="Foreground", uid="u", grace_period_seconds=0
    )
    assert gone is None
    assert msgspec.json.decode(echo.requests[0].body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u"},
    }


@pytest.mark.parametrize(
    ("meta", "gone"),
    [
        ({"name": "a", "deletionTimestamp": "t", "finalizers": ["foregroundDeletion"]}, False),
        ({"name": "a", "deletionTimestamp": "t", "deletionGracePeriodSeconds": 30}, False),
        ({"name": "a", "deletionTimestamp": "t", "deletionGracePeriodSeconds": 0}, True),
        ({"name": "a"}, True),
    ],
)
async def test_delete_returns_whether_the_object_is_gone_or_still_there(meta, gone):
    left = await Client(Echo({"kind": "Thing", "metadata": meta})).delete(THINGS, "a", namespace="ns", type=Thing)
    assert (left is None) is gone


async def test_raw_bodies_pass_through_and_a_typed_object_is_never_put():
    echo = Echo()
    client = Client(echo)
    body = b'{"unknown": {"field": 1e2}}'
    await client.replace(THINGS, "a", body, namespace="ns")
    assert echo.requests[0].body == body
    await client.create(THINGS, {"spec": msgspec.Raw(body)}, namespace="ns")
    assert echo.requests[1].body == b'{"spec":' + body + b"}"
    typed = msgspec.json.decode(b'{"metadata":{"name":"a"}}', type=Thing)
    with pytest.raises(TypeError, match="may have dropped fields"):
        await client.replace(THINGS, "a", typed, namespace="ns")


async def test_pages_are_followed_to_the_end():
    api = MemoryApi()
    for number in range(25):
        api.put("things", f"t{number:02}")
    client = Client(api)
    names = [obj.metadata.name async for obj in client.pages(THINGS, type=Thing, limit=10)]
    assert names == [f"t{number:02}" for number in range(25)]
    page = await client.list(THINGS, type=Thing, namespace="ns", limit=10)
    assert len(page.items or ()) == 10
    assert page.metadata.continue_token


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", BadRequest),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", ServerError),
        (418, "", ApiError),
    ],
)
async def test_each_status_has_its_error(code, reason, kind):
    transport = FaultyTransport(MemoryApi(), choose=lambda _: Answer(code, reason))
    with pytest.raises(ApiError) as caught:
        await Client(transport).get(THINGS, "a", namespace="ns")
    assert type(caught.value) is kind
    assert "get /apis/test.dev/v1/namespaces/ns/things/a: " in str(caught.value)


def test_a_body_that_is_no_status_is_dropped_and_a_long_one_cut():
    page = from_response(502, {}, b"<html>token=SECRET</html>", CALL)
    assert "SECRET" not in str(page)
    assert isinstance(page, ServerError)
    secret = from_response(500, {}, b'{"kind":"Secret","message":"SECRET"}', CALL)
    assert "SECRET" not in str(secret)
    body = msgspec.json.encode({"kind": "Status", "message": "x" * 10_000, "reason": "Invalid"})
    assert len(str(from_response(422, {}, body, CALL))) < 2200


def test_a_version_from_the_future_means_list_again():
    status = {"kind": "Status", "reason": "Timeout", "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]}}
    assert isinstance(from_response(504, {}, msgspec.json.encode(status), CALL), Gone)


async def test_an_object_that_exists_or_is_missing_is_an_error_of_its_own():
    client = Client(MemoryApi())
    await client.create(THINGS, {"metadata": {"name": "a"}}, namespace="ns")
    with pytest.raises(AlreadyExists):
        await client.create(THINGS, {"metadata": {"name": "a"}}, namespace="ns")
    with pytest.raises(NotFound):
        await client.delete(THINGS, "b", namespace="ns")
    with pytest.raises(NotFound):
        await client.patch(THINGS, "b", {}, namespace="ns")


class TestRetries:
    async def test_a_throttled_request_is_repeated_after_the_named_time(self):
        transport = FaultyTransport(MemoryApi())
        transport.inject(Answer(429, retry_after=3), times=2)
        transport.inject(Answer(503, retry_after=2))
        start = asyncio.get_running_loop().time()
        await Client(transport).create(THINGS, {"metadata": {"name": "a"}}, namespace="ns")
        assert asyncio.get_running_loop().time() - start == pytest.approx(8)

    async def test_tries_are_bounded_and_so_is_the_wait(self):
        transport = FaultyTransport(MemoryApi(), choose=lambda _: Answer(429, retry_after=1))
        with pytest.raises(TooManyRequests) as caught:
            await Client(transport).get(THINGS, "a", namespace="ns")
        assert (len(transport.calls), caught.value.retry_after) == (4, 1.0)
        transport.choose = lambda _: Answer(429, retry_after=3600)
        with pytest.raises(TooManyRequests):
            await Client(transport).get(THINGS, "a", namespace="ns")
        assert len(transport.calls) == 5

    async def test_a_write_of_unknown_outcome_is_never_repeated(self):
        api = MemoryApi()
        transport = FaultyTransport(api)
        transport.inject(LostAnswer(), verb="create")
        with pytest.raises(TransportError) as caught:
            await Client(transport).create(THINGS, {"metadata": {"name": "a"}}, namespace="ns")
        assert caught.value.sent
        assert (len(transport.calls), list(api.objects("things"))) == (1, [("ns", "a")])

    async def test_reads_and_requests_that_never_left_are_repeated(self):
        api = MemoryApi()
        api.put("things", "a")
        transport = FaultyTransport(api)
        client = Client(transport)
        transport.inject(LostAnswer(), verb="get")
        await client.get(THINGS, "a", namespace="ns")
        transport.inject(Refused(), verb="create", times=2)
        await client.create(THINGS, {"metadata": {"name": "b"}}, namespace="ns")
        assert api.revision == 2

    @pytest.mark.parametrize("fault", [LostAnswer(), Refused()])
    async def test_requests_of_the_lease_are_left_to_the_elector(self, fault):
        transport = FaultyTransport(MemoryApi())
        transport.inject(fault, verb="get")
        with pytest.raises(TransportError):
            await Client(transport).without_limits().get(THINGS, "a", namespace="ns")
        assert len(transport.calls) == 1

    async def test_limits_of_a_client_go_with_each_of_its_requests(self):
        echo, limits = Echo(), RequestLimits(1, 1)
        client = Client(echo).with_limits(limits)
        copies = (
            client,
            client.with_guard(lambda: None),
            client.without_retries(),
            client.without_retries(client.transport),
        )
        for each in (*copies, client.without_limits(), Client(echo)):
            await each.get(THINGS, "a", namespace="ns")
        sent = [(request.limited, request.limits) for request in echo.requests]
        assert sent == [(True, limits)] * 4 + [(False, None), (True, None)]

    async def test_without_a_named_time_a_server_error_is_the_callers(self):
        transport = FaultyTransport(MemoryApi(), choose=lambda _: Answer(503))
        with pytest.raises(ServerError):
            await Client(transport).get(THINGS, "a", namespace="ns")
        assert len(transport.calls) == 1


async def test_a_stale_read_is_what_was_read_before():
    api = MemoryApi()
    api.put("things", "a", size=1)
    transport = FaultyTransport(api)
    client = Client(transport)
    await client.get(THINGS, "a", namespace="ns")
    api.put("things", "a", size=2)
    transport.inject(Stale())
    sizes = [(await client.get(THINGS, "a", namespace="ns", type=Thing)).size for _ in range(2)]
    assert sizes == [1, 2]


async def test_the_rate_limit_lets_a_burst_pass_and_then_spaces():
    bucket, clock = TokenBucket(qps=10, burst=5), asyncio.get_running_loop().time
    start, times = clock(), []
    for _ in range(10):
        await bucket.acquire()
        times.append(round(clock() - start, 3))
    assert times == [0, 0, 0, 0, 0, 0.1, 0.2, 0.3, 0.4, 0.5]
    await asyncio.sleep(60)
    start, times = clock(), []
    for _ in range(6):
        await bucket.acquire()
        times.append(round(clock() - start, 3))
    assert times == [0, 0, 0, 0, 0, 0.1], "an idle hour does not save up more than the burst"


VALUES = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


@given(DOCUMENTS, DOCUMENTS)
def test_a_merge_diff_leads_from_old_to_new_and_is_empty_for_equals(old, new):
    assert msgspec.json.encode(merge(old, merge_diff(old, new)), order="deterministic") == msgspec.json.encode(
        new, order="deterministic"
    )
    assert merge_diff(new, new) == {}


async def test_a_kill_point_ends_the_process_before_its_nth_write():
    api = MemoryApi()
    transport = FaultyTransport(api, before_write=kill_at(3))
    client = Client(transport)
    await client.create(THINGS, {"metadata": {"name": "a"}}, namespace="ns")
    await client.get(THINGS, "a", namespace="ns")
    await client.patch(THINGS, "a", {"x": 1}, namespace="ns")
    with pytest.raises(Killed):
        await client.delete(THINGS, "a", namespace="ns")
    assert list(api.objects("things")) == [("ns", "a")]
    assert [call.verb for call in transport.writes()] == ["create", "patch", "delete"]
