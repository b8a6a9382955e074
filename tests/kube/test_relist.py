"""Objects that are not wanted leave no trace, and a collection can be listed again while it is read."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from kube.client import Client
from kube.errors import KubeError
from kube.indexes import IndexKey
from kube.informer import Informer
from kube.model.meta import Identity
from kube.store import ChangeKind, DroppedObject, Store, Unreadable
from kube.transport import Request
from tests.support.beside import beside
from tests.support.model.faults import Cut, FaultyTransport, Refused
from tests.support.model.memory_api import MemoryApi
from tests.support.objects.kube_objects import THINGS, Thing, thing, versions

pytestmark = pytest.mark.looptime

ADDED, MODIFIED, DELETED = ChangeKind.ADDED, ChangeKind.MODIFIED, ChangeKind.DELETED


def dropped(name: str, version: int) -> DroppedObject:
    return DroppedObject(thing(name, version).metadata)


def listed(*objects: Thing | DroppedObject, version: int = 10) -> Store[Thing]:
    store: Store[Thing] = Store({"size": lambda obj: [str(obj.size)]})
    store.begin()
    for obj in objects:
        store.apply(obj)
    store.commit(version)
    return store


class TestDropped:
    def test_it_is_not_there_from_the_start(self):
        store = listed(dropped("a", 1), thing("b", 2, size=5))
        assert versions(store) == {("ns", "b"): "2"}
        assert (len(store), store.unreadable) == (1, {})

    def test_what_turns_unwanted_leaves_like_something_deleted(self):
        store = listed(thing("a", 1, size=5))
        assert store.apply(dropped("a", 11)) == [(DELETED, thing("a", 1, size=5), None)]
        assert (store.list(), store.by_index("size", IndexKey("ns", "5"))) == ([], [])
        assert store.watched_version == 11
        assert store.apply(dropped("a", 12)) == []
        assert store.apply(thing("a", 13)) == [(ADDED, None, thing("a", 13))], "and may come back"

    def test_its_deletion_calls_no_handler(self):
        store = listed(dropped("a", 1))
        assert store.remove(dropped("a", 11)) == []
        assert store.watched_version == 11

    def test_what_was_wanted_may_be_unwanted_in_its_last_state(self):
        store = listed(thing("a", 1))
        assert store.remove(dropped("a", 11)) == [(DELETED, thing("a", 1), None)]

    def test_in_a_list_the_last_event_counts(self):
        store = listed(thing("a", 1))
        store.begin()
        store.apply(thing("a", 12))
        store.apply(thing("b", 12))
        store.apply(dropped("b", 13))
        store.apply(dropped("a", 13))
        store.apply(thing("a", 14))
        assert store.commit(14) == [(MODIFIED, thing("a", 1), thing("a", 14))]
        assert versions(store) == {("ns", "a"): "14"}

    def test_a_list_without_it_reports_its_deletion(self):
        store = listed(thing("a", 1))
        store.begin()
        store.apply(dropped("a", 12))
        assert store.commit(12) == [(DELETED, thing("a", 1), None)]

    def test_it_ends_what_could_not_be_read(self):
        store = listed()
        store.apply(Unreadable(Identity(namespace="ns", name="a", uid="u", resource_version="11"), "why"))
        store.apply(dropped("a", 12))
        assert store.unreadable == {}

    def test_our_own_write_of_it_ends_with_the_watch_event(self):
        store = listed(thing("a", 1))
        store.overlay(thing("a", 12, size=5))
        assert store.apply(dropped("a", 11)) == []
        assert store.get("ns", "a").size == 5, "that was before our write"
        assert [kind for kind, *_ in store.apply(dropped("a", 13))] == [DELETED]
        assert store.list() == []

    def test_one_that_we_deleted_stays_hidden(self):
        store = listed(thing("a", 1))
        store.overlay_deleted("ns", "a", "uid-a")
        store.apply(dropped("a", 11))
        assert store.list() == []
        store.remove(dropped("a", 12))
        assert store.apply(thing("a", 13, uid="next")) == [(ADDED, None, thing("a", 13, uid="next"))]


class Gate(MemoryApi):
    """Streams begin when they are let."""

    def __init__(self) -> None:
        super().__init__()
        self.open = asyncio.Event()
        self.open.set()

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        await self.open.wait()
        async with super().stream(request) as lines:
            yield lines


class Bench:
    """An informer of things with a size, the events that it reported, and its API server."""

    def __init__(self) -> None:
        self.api = Gate()
        self.transport = FaultyTransport(self.api)
        self.factor = 1
        self.reported: list[tuple[ChangeKind, str]] = []
        self.informer = Informer(Client(self.transport), THINGS, Thing, transform=self.kept)
        self.informer.on_event(lambda kind, old, new: self.reported.append((kind, (new or old).metadata.name)))

    def kept(self, obj: Thing) -> Thing | None:
        return None if obj.size == 0 else Thing(metadata=obj.metadata, size=obj.size * self.factor)

    def sizes(self) -> dict[str, int]:
        return {obj.metadata.name: obj.size for obj in self.informer.store.list()}

    def watches(self) -> list[dict[str, str]]:
        return [dict(request.query) for request in self.api.requests if request.verb == "watch"]


async def pause(seconds: float = 1.0) -> None:
    """Virtual: everything that can happen now has happened."""
    await asyncio.sleep(seconds)


@contextlib.asynccontextmanager
async def watching() -> AsyncIterator[Bench]:
    """With an informer that runs and has listed."""
    bench = Bench()
    bench.api.put("things", "a", size=1)
    bench.api.put("things", "b", size=2)
    bench.api.put("things", "unwanted", size=0)
    async with beside(bench.informer.run()):
        await bench.informer.wait_synced(20)
        bench.reported.clear()
        yield bench


class TestInformer:
    async def test_an_object_appears_and_disappears_with_the_filter(self):
        async with watching() as bench:
            assert bench.sizes() == {"a": 1, "b": 2}
            for size in (0, 3, 0):
                bench.api.put("things", "a", size=size)
            bench.api.drop("things", "unwanted")
            bench.api.drop("things", "a")
            await pause()
            assert bench.reported == [(DELETED, "a"), (ADDED, "a"), (DELETED, "a")]
            assert bench.sizes() == {"b": 2}

    async def test_a_broken_watch_resumes_after_what_was_dropped(self):
        async with watching() as bench:
            for _ in range(5):
                bench.api.put("things", "unwanted", size=0)
            await pause()
            bench.api.cut_streams()
            await pause(5)
            assert bench.watches()[-1]["resourceVersion"] == str(bench.api.revision)
            assert bench.reported == []

    async def test_a_list_of_many_unwanted_objects_calls_no_handler(self):
        async with watching() as bench:
            for number in range(200):
                bench.api.put("things", f"x{number}", size=0)
            bench.api.compact()
            await pause(5)
            assert bench.sizes() == {"a": 1, "b": 2}
            assert bench.reported == []


class TestRelist:
    async def test_the_transform_is_applied_to_all_again_and_no_change_calls_no_handler(self):
        async with watching() as bench:
            bench.factor = 10
            bench.informer.relist()
            await pause()
            assert bench.sizes() == {"a": 10, "b": 20}
            assert bench.reported == []
            assert len(bench.watches()) == 2
            assert bench.watches()[-1]["sendInitialEvents"] == "true"

    async def test_readers_keep_the_old_generation_until_the_new_one_is_there(self):
        async with watching() as bench:
            bench.api.open.clear()
            bench.factor = 10
            bench.informer.relist()
            bench.api.put("things", "c", size=3)
            bench.api.drop("things", "a")
            await pause(100)
            assert bench.sizes() == {"a": 1, "b": 2}
            assert bench.informer.synced
            bench.api.open.set()
            await pause()
            assert bench.sizes() == {"b": 20, "c": 30}
            assert sorted(bench.reported, key=str) == [(ADDED, "c"), (DELETED, "a")]

    async def test_what_changes_afterwards_is_reported_once(self):
        async with watching() as bench:
            bench.informer.relist()
            await pause()
            bench.api.put("things", "a", size=5)
            await pause()
            assert bench.reported == [(MODIFIED, "a")]
            assert bench.sizes()["a"] == 5

    async def test_twice_and_again(self):
        async with watching() as bench:
            bench.informer.relist()
            bench.informer.relist()
            await asyncio.sleep(0)
            bench.informer.relist()
            await asyncio.sleep(0)
            bench.factor = 10
            bench.informer.relist()
            await pause()
            assert bench.sizes() == {"a": 10, "b": 20}
            bench.api.put("things", "c", size=3)
            await pause()
            assert bench.reported == [(ADDED, "c")]

    async def test_while_a_list_is_under_way_that_began_too_early(self):
        """A list that was read before the request is not enough."""

        async with watching() as bench:
            read = bench.kept

            def asks_in_the_middle(obj: Thing) -> Thing | None:
                kept = read(obj)
                if obj.metadata.name == "a" and bench.factor == 1:
                    bench.factor = 10
                    bench.informer.relist()
                return kept

            object.__setattr__(bench.informer.target, "transform", asks_in_the_middle)
            bench.informer.relist()
            await pause()
            assert bench.sizes() == {"a": 10, "b": 20}

    async def test_while_the_api_server_is_away(self):
        async with watching() as bench:
            rule = bench.transport.inject(Refused(), times=1000)
            bench.api.cut_streams()
            await pause(5)
            bench.factor = 10
            bench.informer.relist()
            await pause(60)
            assert bench.sizes() == {"a": 1, "b": 2}
            assert rule.hits < 60, "not in a tight loop: ten tries at most, of a few requests each"
            rule.times = 0
            await pause(60)
            assert bench.sizes() == {"a": 10, "b": 20}
            assert bench.reported == []

    async def test_a_new_list_that_breaks_off_is_begun_again(self):
        async with watching() as bench:
            bench.transport.inject(Cut(after=1, broken=True), verb="watch")
            bench.factor = 10
            bench.informer.relist()
            await pause(60)
            assert bench.sizes() == {"a": 10, "b": 20}
            assert bench.reported == []

    async def test_before_it_runs_there_is_nothing_to_list_again(self):
        bench = Bench()
        bench.api.put("things", "a", size=1)
        bench.informer.relist()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(bench.informer.run())
            bench.informer.relist()
            await bench.informer.wait_synced(20)
            assert bench.sizes() == {"a": 1}
            assert len(bench.watches()) == 1
            task.cancel()

    async def test_after_its_end_it_does_not_come_back(self):
        bench = Bench()
        task = asyncio.create_task(bench.informer.run())
        await bench.informer.wait_synced(20)
        bench.informer.relist()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        asked = len(bench.api.requests)
        bench.informer.relist()
        await pause(100)
        assert len(bench.api.requests) == asked

    async def test_an_error_of_a_handler_ends_it(self):
        """It is a bug, and the process must not live on with half a cache."""

        bench = Bench()

        def fail(*_: object) -> None:
            raise RuntimeError("bug")

        bench.informer.on_event(fail)
        task = asyncio.create_task(bench.informer.run())
        await bench.informer.wait_synced(20)
        bench.api.put("things", "a", size=1)
        with pytest.raises(ExceptionGroup) as ended:
            await task
        assert ended.group_contains(RuntimeError, match="bug")
        assert not ended.group_contains(KubeError)
