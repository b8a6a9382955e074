"""The storage keeps nothing about objects and watches that are gone but their history."""

from collections.abc import Callable

from dev.simulator.selectors import parse
from dev.simulator.storage import JsonItem, Scope, Storage, Watcher


def pod(number: int, **labels: str) -> JsonItem:
    owner = [{"uid": f"owner-{number}"}]
    return JsonItem(
        {"metadata": {"name": "p", "namespace": f"ns-{number}", "uid": "u", "labels": labels, "ownerReferences": owner}}
    )


def test_nothing_is_kept_of_objects_that_are_gone():
    storage = Storage()
    for number in range(20):
        storage.put("pods", pod(number, job=f"job-{number}", set="one"))
        storage.put("pods", pod(number, job=f"other-{number}", set="one"))
    pods = storage["pods"]
    assert len(pods.select(Scope(labels=parse("set=one")))) == 20
    assert [item.key for item in pods.find(Scope(labels=parse("job=other-7")))] == [("ns-7", "p")]
    assert pods.select(Scope(labels=parse("job=job-7"))) == []
    for number in range(20):
        storage.drop("pods", (f"ns-{number}", "p"))
    assert pods.objects == {}
    assert not any(storage.owned_by(f"owner-{number}") for number in range(20))


def test_nothing_is_kept_of_watches_that_have_ended():
    storage = Storage()
    pods, seen = storage["pods"], []
    ends: list[Callable[[], None]] = []
    for number in range(20):
        scope = Scope(labels=parse(f"job=job-{number % 10}"))
        ends.append(pods.watch(Watcher(scope, lambda event: seen.append(event.item.key))))
    assert len(pods.watchers) == 20
    for end in ends[:10]:
        end()
    storage.put("pods", pod(7, job="job-7"))
    assert seen == [("ns-7", "p")], "the other watch of that label goes on"
    for end in ends:
        end()
    assert pods.watchers == {}
