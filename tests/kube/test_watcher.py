"""The watch state machine, step by step and under random trouble."""

import asyncio
import logging
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kube.client import Client
from kube.errors import Gone, Invalid, KubeError, ServerError, Status, TransportError
from kube.informer import Informer
from kube.transport import Request
from kube.watcher import (
    Apply,
    Bookmark,
    Delete,
    Ended,
    Failed,
    Init,
    InitDone,
    Listed,
    Observed,
    Phase,
    Progress,
    State,
    delay,
    start,
    step,
)
from tests.support.model.faults import (
    Answer,
    Cut,
    Fault,
    FaultyTransport,
    LostAnswer,
    LostRequest,
    Refused,
    Repeat,
    Stale,
)
from tests.support.model.memory_api import MemoryApi
from tests.support.model.virtual import run
from tests.support.objects.kube_objects import THINGS, Thing, server_versions, thing, versions

pytestmark = pytest.mark.looptime

WATCHING = State(phase=Phase.WATCH, resource_version="10")
GONE = Gone(410, Status(reason="Expired"))
BROKEN = TransportError("reset")


class TestStep:
    def test_pages_make_one_generation(self):
        state, first = step(start(streaming=False), Listed((thing("a", 1),), "7", "more"))
        assert first == (Init(), Apply(thing("a", 1)))
        assert (state.phase, state.continue_token) == (Phase.LIST, "more")
        state, last = step(state, Listed((thing("b", 2),), "7"))
        assert last == (Apply(thing("b", 2)), InitDone(7))
        assert (state.phase, state.resource_version, state.continue_token) == (Phase.WATCH, "7", "")

    def test_an_expired_continue_token_starts_a_new_generation(self):
        state, _ = step(start(streaming=False), Listed((thing("a", 1),), "7", "more"))
        state, events = step(state, Failed(GONE))
        assert (state.phase, state.continue_token, events) == (Phase.LIST, "", ())
        assert step(state, Listed((), "9"))[1] == (Init(), InitDone(9))

    def test_a_streaming_list_ends_with_its_bookmark_and_continues_as_a_watch(self):
        state, events = step(start(), Observed(thing("a", 5)))
        assert events == (Init(), Apply(thing("a", 5)))
        state, events = step(state, Observed(thing("b", 3)))
        assert events == (Apply(thing("b", 3)),), "initial objects come in no order of versions"
        state, events = step(state, Bookmark("8"))
        assert (state.phase, events) == (Phase.INITIAL, ()), "an ordinary bookmark does not end the list"
        state, events = step(state, Bookmark("9", initial_end=True))
        assert (state.phase, state.resource_version, events) == (Phase.WATCH, "9", (InitDone(9),))

    def test_an_empty_streaming_list_is_a_generation_too(self):
        assert step(start(), Bookmark("3", initial_end=True))[1] == (Init(), InitDone(3))

    def test_a_server_without_streaming_lists_is_asked_for_pages_at_once_and_for_good(self):
        state, _ = step(start(), Failed(Invalid(422, Status(reason="Invalid"))))
        assert (state.phase, delay(state, 0.5)) == (Phase.LIST, 0)
        state, _ = step(state, Listed((), "4"))
        state, _ = step(state, Failed(GONE))
        assert state.phase is Phase.LIST

    def test_a_streaming_list_that_keeps_failing_gives_way_to_pages(self):
        state = start()
        for _ in range(3):
            assert state.phase is Phase.INITIAL
            state, _ = step(state, Failed(BROKEN))
        assert state.phase is Phase.LIST
        state, _ = step(state, Listed((), "4"))
        state, _ = step(state, Failed(GONE))
        assert state.phase is Phase.INITIAL, "the server may be well by now"

    def test_watch_events_move_the_version_to_resume_from(self):
        state, events = step(WATCHING, Observed(thing("a", 11)))
        assert (state.resource_version, events) == ("11", (Apply(thing("a", 11)),))
        state, events = step(state, Observed(thing("a", 12), deleted=True))
        assert (state.resource_version, events) == ("12", (Delete(thing("a", 12)),))
        state, events = step(state, Bookmark("40"))
        assert (state.resource_version, events) == ("40", (Progress(40),))

    @pytest.mark.parametrize("version", [9, 10])
    def test_an_event_that_was_delivered_before_is_dropped(self, version):
        state, events = step(WATCHING, Observed(thing("a", version)))
        assert (state.resource_version, events) == ("10", ())

    @pytest.mark.parametrize("error", [BROKEN, ServerError(503, Status())])
    def test_trouble_resumes_from_the_same_version(self, error):
        state, events = step(WATCHING, Failed(error))
        assert (state.phase, state.resource_version, events) == (Phase.WATCH, "10", ())

    @pytest.mark.parametrize("error", [GONE, Invalid(422, Status())])
    def test_a_version_the_server_does_not_take_lists_again(self, error):
        state, events = step(WATCHING, Failed(error))
        assert (state.phase, state.resource_version, events) == (Phase.INITIAL, "", ())

    def test_waits_grow_to_a_bound_and_are_reset_by_the_first_event(self):
        state, waits = WATCHING, []
        for _ in range(12):
            state, _ = step(state, Failed(BROKEN))
            waits.append(delay(state, 0.5))
        assert waits[:3] == [0.8, 1.6, 3.2]
        assert waits == sorted(waits)
        assert waits[-1] == 30.0
        assert delay(step(state, Bookmark("11"))[0], 0.5) == 0

    def test_the_server_can_ask_for_a_longer_wait(self):
        state, _ = step(WATCHING, Failed(ServerError(503, Status(), retry_after=17.0)))
        assert delay(state, 0.0) == 17.0

    def test_a_wait_of_hours_that_a_proxy_asks_for_is_cut_to_a_minute(self):
        state, _ = step(WATCHING, Failed(ServerError(503, Status(), retry_after=86400.0)))
        assert delay(state, 0.0) == 60.0

    def test_a_stream_that_says_nothing_is_not_reopened_in_a_tight_loop(self):
        state, _ = step(WATCHING, Ended())
        assert delay(state, 0.0) > 0
        delivered, _ = step(replace(state, failures=0), Bookmark("11"))
        assert delay(step(delivered, Ended())[0], 0.0) == 0


async def settled(informer: Informer[Thing], api: MemoryApi) -> None:
    """Until the watch has reached everything the server did."""
    async with asyncio.timeout(100_000):
        while not (informer.synced and informer.store.watched_version >= api.revision):  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(1)


async def watched(api: MemoryApi, transport: FaultyTransport | MemoryApi, act) -> Informer[Thing]:
    informer = Informer(Client(transport), THINGS, Thing)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await act(informer)
        await settled(informer, api)
        task.cancel()
    return informer


async def nothing(_) -> None:
    """No act."""


class TestDriver:
    """The machine with its IO, on virtual time, against the in-memory server."""

    @pytest.mark.parametrize("streaming", [True, False])
    async def test_lists_larger_than_a_page_are_complete(self, streaming):
        api = MemoryApi(streaming=streaming)
        for number in range(1203):
            api.put("things", f"t{number}")
        informer = await watched(api, api, nothing)
        assert versions(informer.store) == server_versions(api)
        lists = [r for r in api.requests if r.verb == "list"]
        assert len(lists) == (0 if streaming else 3)

    async def test_a_dropped_connection_resumes_without_listing_again(self):
        api = MemoryApi(streaming=False)
        api.put("things", "a")

        async def act(informer):
            await informer.wait_synced(10)
            await asyncio.sleep(1)
            api.cut_streams()
            api.put("things", "b")

        informer = await watched(api, api, act)
        assert versions(informer.store) == server_versions(api)
        assert [r.verb for r in api.requests] == ["watch", "list", "watch", "watch"]

    async def test_a_410_in_mid_stream_lists_again_and_reports_the_difference(self):
        api = MemoryApi()
        api.put("things", "stays")
        api.put("things", "goes")
        transport = FaultyTransport(api)
        seen = []

        async def act(informer):
            await informer.wait_synced(10)
            informer.on_event(lambda kind, old, new: seen.append((kind.value, (new or old).metadata.name)))
            api.cut_streams()
            api.drop("things", "goes")
            api.put("things", "comes")
            api.compact()

        informer = await watched(api, transport, act)
        assert versions(informer.store) == server_versions(api)
        assert seen == [
            ("ADDED", "stays"),
            ("ADDED", "goes"),
            ("DELETED", "goes"),
            ("ADDED", "comes"),
        ]

    async def test_a_connection_without_data_counts_as_dead(self):
        api = MemoryApi(bookmark_every=1e9)

        async def act(informer):
            await informer.wait_synced(10)
            await asyncio.sleep(1000)

        await watched(api, api, act)
        watches = [r for r in api.requests if r.verb == "watch"]
        assert 4 <= len(watches) <= 10, "one per 150 s without data"

    def test_an_object_that_does_not_decode_is_left_out_and_the_rest_is_served(self, caplog):
        async def main():
            api = MemoryApi()
            api.put("things", "odd", size="large")
            api.put("things", "fine", size=1)

            async def act(informer):
                await informer.wait_synced(10)
                assert [o.metadata.name for o in informer.store.list()] == ["fine"]
                assert "int" in informer.store.unreadable["ns", "odd"]
                api.put("things", "odd", size=2)
                api.put("things", "fine", size="huge")

            informer = await watched(api, api, act)
            assert [o.metadata.name for o in informer.store.list()] == ["odd"]
            assert list(informer.store.unreadable) == [("ns", "fine")]
            assert informer.unreadable_total == 2

        with caplog.at_level(logging.CRITICAL, logger="kube"):
            run(main)

    async def test_a_cache_that_cannot_fill_says_why(self):
        transport = FaultyTransport(MemoryApi(), choose=lambda _: Answer(403, message="things is forbidden"))
        informer = Informer(Client(transport), THINGS, Thing)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(informer.run())
            with pytest.raises(KubeError, match=r"things\.test\.dev: not listed after 5 s: .*things is forbidden"):
                await informer.wait_synced(5)
            task.cancel()


ACTS = st.lists(
    st.tuples(st.sampled_from(["put", "drop", "touch", "compact", "cut", "wait"]), st.integers(0, 5)), max_size=25
)


def trouble(rng: random.Random, rate: float):
    """Random faults of every kind that reads can meet."""
    faults: list[Fault] = [
        Answer(500),
        Answer(429, retry_after=2),
        Answer(503),
        Answer(410),
        Refused(),
        LostRequest(),
        LostAnswer(),
        Stale(),
    ]

    def choose(request: Request) -> Fault | None:
        if rng.random() > rate:
            return None
        if request.verb == "watch" and rng.random() < 0.6:
            after = rng.randrange(4)
            return rng.choice([Cut(after), Cut(after, broken=True), Cut(after, expire=True), Repeat()])
        return rng.choice(faults)

    return choose


@settings(max_examples=150, deadline=None)
@example(acts=[("wait", 0), ("put", 1), ("put", 0), ("put", 1), ("cut", 0)], streaming=False, seed=0, rate=0.0)
@given(acts=ACTS, streaming=st.booleans(), seed=st.integers(0, 2**32), rate=st.sampled_from([0.0, 0.3, 0.7]))
def test_the_store_equals_the_server_whatever_happened(acts, streaming, seed, rate):
    """Random writes, pages, dropped and repeated events, 410s, errors and stale reads; then quiet: both are the same."""

    async def main():
        api = MemoryApi(streaming=streaming)
        transport = FaultyTransport(api, choose=trouble(random.Random(seed), rate))  # noqa: S311
        names = set()

        async def act(informer):
            informer.on_event(lambda kind, _, new: names.add(new.metadata.name) if new else None)
            for verb, number in acts:
                name = f"t{number}"
                match verb:
                    case "put":
                        api.put("things", name, size=api.revision)
                    case "drop" if ("ns", name) in api.objects("things"):
                        api.drop("things", name)
                    case "touch":
                        api.touch()
                    case "compact":
                        api.compact()
                    case "cut":
                        api.cut_streams()
                    case "wait":
                        await asyncio.sleep(3**number)
                shown = versions(informer.store)
                assert all(int(version) <= api.revision for version in shown.values())
            transport.choose = None

        informer = await watched(api, transport, act)
        assert versions(informer.store) == server_versions(api)
        assert {name for _, name in server_versions(api)} <= names, "handlers got an event of everything that is there"

    run(main)
