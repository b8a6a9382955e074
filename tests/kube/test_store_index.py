"""An index agrees with a scan of the store, whatever happened to the objects."""

from hypothesis import given
from hypothesis import strategies as st

from kube.indexes import IndexKey
from kube.store import DroppedObject, Store
from tests.support.objects.kube_objects import Thing, thing
from tests.support.work import retained_memory

steps = st.lists(
    st.tuples(
        st.sampled_from(["apply", "drop", "remove", "overlay", "overlay_deleted", "begin", "commit"]),
        st.sampled_from("abcd"),
        st.integers(0, 3),
    ),
    max_size=40,
)


def values(obj: Thing) -> list[str]:
    """Several values for one object: its size, and all below."""
    return [str(value) for value in range(obj.size + 1)] if obj.size else []


def agrees(store: Store[Thing]) -> None:
    for value in "01234":
        found = sorted(store.by_index("size", IndexKey("ns", value)), key=lambda obj: obj.metadata.name)
        scanned = sorted((o for o in store.list() if value in values(o)), key=lambda obj: obj.metadata.name)
        assert found == scanned


@given(steps)
def test_an_index_shows_what_a_scan_shows(script):
    store: Store[Thing] = Store({"size": values})
    store.begin()
    store.commit(1)
    listing = False
    for version, (what, name, size) in enumerate(script, start=2):
        obj = thing(name, version, size=size)
        if what == "apply":
            store.apply(obj)
        elif what == "drop":
            store.apply(DroppedObject(obj.metadata))
        elif what == "remove":
            store.remove(obj)
        elif what == "overlay":
            store.overlay(obj)
        elif what == "overlay_deleted":
            store.overlay_deleted("ns", name, f"uid-{name}")
        elif what == "begin":
            store.begin()
            listing = True
        elif listing:
            store.commit(version)
            listing = False
        agrees(store)


def test_what_changed_last_is_at_the_end_and_the_others_keep_their_order():
    """Large sets are planned quickly because of that (controllers/planning/sorted_jobs.py)."""
    store: Store[Thing] = Store({"size": values})
    for version, name in enumerate("abcdbfa", start=1):
        store.apply(thing(name, version, size=1))
    store.overlay(thing("c", 10, size=1))
    assert [obj.metadata.name for obj in store.by_index("size", IndexKey("ns", "1"))] == [*"dbfac"]


def test_what_an_index_gives_may_be_changed_by_the_caller():
    store: Store[Thing] = Store({"size": values})
    store.apply(thing("a", 1, size=1))
    store.apply(thing("b", 2, size=2))
    for value in "012":
        store.by_index("size", IndexKey("ns", value)).clear()
    agrees(store)
    assert len(store.by_index("size", IndexKey("ns", "1"))) == 2


def test_values_that_have_no_object_any_more_cost_nothing():
    store: Store[Thing] = Store({"size": lambda obj: [f"value-{obj.size}"]})

    def pass_by(first: int, last: int) -> None:
        for number in range(first, last):
            for name in ("a", "b"):
                store.apply(thing(name, number, size=number))
            for name in ("a", "b"):
                store.remove(thing(name, number, size=number))

    pass_by(0, 100)
    starts = iter((100, 3_000, 6_000))

    def pass_by_more() -> None:
        start = next(starts)
        pass_by(start, start + 2_900)

    assert retained_memory(pass_by_more) < 50_000
    assert store.list() == []


def test_an_index_finds_objects_of_one_namespace_and_a_cluster_index_those_of_all():
    store: Store[Thing] = Store({"size": values}, {"all": values})
    for version, namespace in enumerate(("ns", "other", "other"), start=1):
        store.apply(thing(f"a{version}", version, size=1, namespace=namespace))

    def found() -> list[list[str]]:
        ours, theirs = (store.by_index("size", IndexKey(namespace, "1")) for namespace in ("ns", "other"))
        return [
            [obj.metadata.name for obj in objects] for objects in (ours, theirs, store.by_cluster_index("all", "1"))
        ]

    assert found() == [["a1"], ["a2", "a3"], ["a1", "a2", "a3"]]
    store.remove(thing("a1", 4, size=1))
    store.remove(thing("a2", 5, size=1, namespace="other"))
    assert found() == [[], ["a3"], ["a3"]]
    store.begin()
    store.commit(6)
    assert found() == [[], [], []]
