"""The cache: indexes, atomic relists, and read-your-writes."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kube.indexes import IndexKey
from kube.model.meta import Identity
from kube.store import OVERLAY_TTL, ChangeKind, Store, Unreadable
from tests.support.objects.kube_objects import Thing, thing, versions

ADDED, MODIFIED, DELETED = ChangeKind.ADDED, ChangeKind.MODIFIED, ChangeKind.DELETED


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store() -> Store[Thing]:
    """A store that has listed nothing at version 10."""
    return listed(Store({"size": lambda obj: [str(obj.size)]}), 10)


def listed(store: Store[Thing], version: int, *objects: Thing) -> Store[Thing]:
    store.begin()
    for obj in objects:
        store.apply(obj)
    store.commit(version)
    return store


class TestWatchSide:
    def test_objects_are_found_by_key_namespace_and_index(self, store):
        listed(store, 20, thing("a", 1, size=3), thing("b", 2, size=3), thing("a", 3, size=4, namespace="other"))
        assert store.get("ns", "a") == thing("a", 1, size=3)
        assert store.get("ns", "c") is None
        assert {o.metadata.name for o in store.by_index("size", IndexKey("ns", "3"))} == {"a", "b"}
        assert store.by_index("size", IndexKey("ns", "9")) == []
        assert [o.size for o in store.list("other")] == [4]
        assert len(store) == 3

    def test_an_index_follows_changes_and_deletions(self, store):
        store.apply(thing("a", 11, size=1))
        store.apply(thing("a", 12, size=2))
        assert store.by_index("size", IndexKey("ns", "1")) == []
        assert store.by_index("size", IndexKey("ns", "2")) == [thing("a", 12, size=2)]
        store.remove(thing("a", 13, size=2))
        assert store.by_index("size", IndexKey("ns", "2")) == []

    def test_readers_never_see_half_a_list(self, store):
        listed(store, 20, thing("old", 11))
        store.begin()
        assert store.apply(thing("new", 21)) == []
        assert versions(store) == {("ns", "old"): "11"}
        changes = store.commit(22)
        assert versions(store) == {("ns", "new"): "21"}
        assert [(kind, (new or old).metadata.name) for kind, old, new in changes] == [(DELETED, "old"), (ADDED, "new")]

    def test_a_relist_reports_only_what_differs(self, store):
        listed(store, 20, thing("same", 11), thing("other", 12))
        store.begin()
        store.apply(thing("same", 11))
        store.apply(thing("other", 21))
        assert store.commit(21) == [(MODIFIED, thing("other", 12), thing("other", 21))]

    def test_a_list_that_breaks_off_changes_nothing(self, store):
        listed(store, 20, thing("a", 11))
        store.begin()
        store.apply(thing("b", 21))
        store.begin()
        store.apply(thing("a", 11))
        assert store.commit(22) == []

    def test_an_unreadable_object_leaves_the_view_until_it_can_be_read(self, store):
        odd = Unreadable(Identity(namespace="ns", name="a", uid="uid-a", resource_version="12"), "expected int")
        store.apply(thing("a", 11))
        assert store.apply(odd) == [(DELETED, thing("a", 11), None)]
        assert store.get("ns", "a") is None
        assert store.unreadable == {("ns", "a"): "expected int"}
        store.apply(thing("a", 13))
        assert store.unreadable == {}
        store.apply(odd)
        store.remove(thing("a", 15))
        assert store.unreadable == {}


class TestOwnWrites:
    """What the property below does not look at, or what shows best by example."""

    def test_a_create_shows_at_once_and_its_echo_is_recognizable(self, store):
        made = thing("a", 12)
        store.overlay(made)
        assert store.get("ns", "a") == made
        assert store.by_index("size", IndexKey("ns", "0")) == [made]
        assert store.apply(made) == [(ADDED, made, made)], "same version before and after: our own echo"

    def test_the_event_may_come_before_the_answer(self, store):
        """1. The watch shows the create (12) and the deletion by somebody else (13). 2. Our create's answer arrives."""
        store.apply(thing("a", 12))
        store.remove(thing("a", 13))
        store.overlay(thing("a", 12))
        assert store.get("ns", "a") is None

    def test_a_status_write_hides_older_events(self, store):
        store.apply(thing("a", 11, size=1))
        store.overlay(thing("a", 15, size=5))
        assert store.apply(thing("a", 13, size=3)) == [], "an event from before our write says nothing new"
        assert store.get("ns", "a").size == 5
        assert store.by_index("size", IndexKey("ns", "3")) == []
        store.apply(thing("a", 16, size=6))
        assert store.get("ns", "a").size == 6

    def test_of_two_answers_the_newer_counts_in_any_order(self, store):
        store.overlay(thing("a", 15))
        store.overlay(thing("a", 14))
        assert store.get("ns", "a").metadata.resource_version == "15"

    def test_what_was_created_and_is_gone_again_disappears_when_the_watch_has_passed_it(self, store):
        """Without any event for it: a selector may hide both, or a relist may fall in between."""
        made = thing("a", 12)
        store.overlay(made)
        assert store.advance(11) == []
        assert store.advance(12) == [(DELETED, made, None)]
        assert store.get("ns", "a") is None

    def test_a_deleted_object_stays_hidden_and_its_event_still_counts(self, store):
        store.apply(thing("a", 11, size=1))
        store.overlay_deleted("ns", "a", "uid-a")
        assert store.get("ns", "a") is None
        assert store.by_index("size", IndexKey("ns", "1")) == []
        assert store.apply(thing("a", 12, size=2)) == [], "an older status change must not bring it back"
        assert store.get("ns", "a") is None
        assert store.remove(thing("a", 13, size=2)) == [(DELETED, thing("a", 12, size=2), None)]

    def test_an_object_deleted_before_the_cache_has_seen_it_is_not_shown(self, store):
        store.overlay_deleted("ns", "a", "uid-a")
        assert store.apply(thing("a", 11)) == []
        assert store.get("ns", "a") is None
        assert store.remove(thing("a", 12)) == [(DELETED, thing("a", 11), None)]
        store.apply(thing("a", 13, uid="next"))
        assert store.get("ns", "a") is not None

    @pytest.mark.parametrize("answer", [12, 14])
    def test_what_was_taken_for_gone_and_is_there_shows_again(self, store, answer):
        """As the watch has it, or as the answer has it if that is newer."""
        store.apply(thing("a", 11, size=1))
        store.overlay_deleted("ns", "a", "uid-a")
        store.apply(thing("a", 13, size=13))
        store.overlay(thing("a", answer, size=answer))
        shown = max(answer, 13)
        assert versions(store) == {("ns", "a"): str(shown)}
        assert store.by_index("size", IndexKey("ns", str(shown))) == [thing("a", shown, size=shown)]
        assert [change.kind for change in store.remove(thing("a", 15))] == [DELETED]
        assert store.get("ns", "a") is None

    def test_deleted_and_created_again_before_the_watch_saw_either(self, store):
        store.apply(thing("a", 11, uid="first"))
        store.overlay_deleted("ns", "a", "first")
        store.overlay(thing("a", 14, uid="second"))
        assert store.remove(thing("a", 13, uid="first")) == []
        assert store.get("ns", "a").metadata.uid == "second"
        assert [change.kind for change in store.apply(thing("a", 14, uid="second"))] == [ADDED]

    def test_a_relist_older_than_our_write_does_not_undo_it(self, store):
        store.overlay(thing("a", 30))
        listed(store, 25)
        assert store.get("ns", "a").metadata.resource_version == "30"
        listed(store, 31)
        assert store.get("ns", "a") is None

    def test_a_relist_reports_a_deletion_we_hid(self, store):
        store.apply(thing("a", 11))
        store.overlay_deleted("ns", "a", "uid-a")
        store.begin()
        assert store.commit(20) == [(DELETED, thing("a", 11), None)]

    def test_an_overlay_the_watch_never_reaches_expires(self):
        clock = Clock()
        store: Store[Thing] = listed(Store(clock=clock), 10)
        store.overlay(thing("a", 900))
        clock.now = OVERLAY_TTL - 1
        store.advance(11)
        assert store.get("ns", "a") is not None
        clock.now = OVERLAY_TTL
        store.advance(11)
        assert store.get("ns", "a") is None


OPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "delete", "foreign_put", "foreign_delete", "deliver", "answer", "relist", "bookmark"]),
        st.integers(0, 2),
    ),
    max_size=60,
)


class World:
    """A server with a history, a watch that lags behind it, and answers to our writes that lag too."""

    def __init__(self) -> None:
        self.version = 10
        self.objects: dict[str, Thing] = {}
        self.history: list[tuple[str, Thing]] = []
        self.delivered = 0
        self.answers: list[tuple[str, Thing]] = []
        self.store: Store[Thing] = listed(Store({"size": lambda obj: [str(obj.size)]}), 10)
        self.floor: dict[str, int] = {}
        self.dead: set[str] = set()

    def put(self, name: str, *, ours: bool) -> None:
        self.version += 1
        old = self.objects.get(name)
        uid = old.metadata.uid if old else f"{name}-{self.version}"
        obj = self.objects[name] = thing(name, self.version, uid=uid, size=self.version)
        self.history.append(("put", obj))
        if ours:
            self.answers.append(("put", obj))

    def delete(self, name: str, *, ours: bool) -> None:
        if (old := self.objects.pop(name, None)) is not None:
            self.version += 1
            gone = thing(name, self.version, uid=old.metadata.uid, size=old.size)
            self.history.append(("delete", gone))
            if ours:
                self.answers.append(("delete", gone))

    def answer(self) -> None:
        """The oldest outstanding HTTP answer arrives."""
        if not self.answers:
            return
        verb, obj = self.answers.pop(0)
        name = obj.metadata.name
        if verb == "put":
            self.store.overlay(obj)
            self.floor[name] = int(obj.metadata.resource_version)
        else:
            self.store.overlay_deleted("ns", name, obj.metadata.uid)
            self.dead.add(obj.metadata.uid)

    def deliver(self, count: int) -> None:
        for verb, obj in self.history[self.delivered : self.delivered + count]:
            self.store.apply(obj) if verb == "put" else self.store.remove(obj)
            self.delivered += 1

    def relist(self, behind: int) -> None:
        """A list as of `behind` events ago, but not older than what the watch has shown."""
        upto = max(self.delivered, len(self.history) - behind)
        state: dict[str, Thing] = {}
        for verb, obj in self.history[:upto]:
            if verb == "put":
                state[obj.metadata.name] = obj
            else:
                state.pop(obj.metadata.name, None)
        version = int(self.history[upto - 1][1].metadata.resource_version) if upto else 10
        listed(self.store, version, *state.values())
        self.delivered = upto

    def check(self) -> None:
        """What the answers to our own writes have shown stays visible."""
        for obj in self.store.list():
            assert obj.metadata.uid not in self.dead, "a deleted object came back"
            assert int(obj.metadata.resource_version) >= self.floor.get(obj.metadata.name, 0), "older than our write"
        for name, floor in self.floor.items():
            if self.store.get("ns", name) is None:
                gone = [o for v, o in self.history if v == "delete" and o.metadata.name == name]
                assert any(int(o.metadata.resource_version) > floor for o in gone), "our object vanished"
        indexed = {
            o.metadata.name for o in self.store.list() if o in self.store.by_index("size", IndexKey("ns", str(o.size)))
        }
        assert indexed == {o.metadata.name for o in self.store.list()}


@example([(verb, 0) for verb in ("put", "foreign_delete", "answer", "foreign_put", "delete", "answer", "deliver")] * 2)
@example([(verb, 0) for verb in ("put", "foreign_delete", "answer", "foreign_put", "delete", "answer", "relist")] * 2)
@example([("foreign_put", 0), ("delete", 0), ("answer", 0), ("relist", 2), ("deliver", 0)])
@example(
    [("foreign_put", 0), *[(verb, 0) for verb in ("delete", "put", "delete")], *[("answer", 0)] * 3, ("deliver", 0)]
)
@settings(max_examples=500, deadline=None)
@given(OPS)
def test_own_writes_are_never_unseen_and_in_the_end_the_cache_is_the_server(ops: Any) -> None:
    world = World()
    for verb, number in ops:
        name = f"t{number}"
        match verb:
            case "put":
                world.put(name, ours=True)
            case "delete":
                world.delete(name, ours=True)
            case "foreign_put":
                world.put(name, ours=False)
            case "foreign_delete":
                world.delete(name, ours=False)
            case "deliver":
                world.deliver(number + 1)
            case "answer":
                world.answer()
            case "relist":
                world.relist(number)
            case "bookmark" if world.delivered == len(world.history):
                world.store.advance(world.version)
        world.check()
    while world.answers:
        world.answer()
    world.deliver(len(world.history))
    world.store.advance(world.version)
    assert {o.metadata.name: o for o in world.store.list()} == world.objects
    assert all(pin.written is None for pin in world.store._pins.values()), "the watch has confirmed every write"
