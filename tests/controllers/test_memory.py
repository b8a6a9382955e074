"""What a process remembers of JobSets: of which one, and until when."""

from hypothesis import given
from hypothesis import strategies as st

from api.meta import NOBODY
from controllers.jobset.memory import Memories, Memory
from kube.controller import Request

WHO = Request("ns", "js")
OTHER = Request("ns", "other")


def filled(memory: Memory) -> None:
    """Everything that can be remembered is."""
    memory.status_written, memory.rest_until, memory.foreign_until = 1.0, 2.0, 3.0
    memory.foreign = {"js-a-0": NOBODY}
    memory.group_error, memory.group_error_until, memory.namespace_ends_until = ("NameConflict", "x"), 4.0, 5.0
    memory.reported_group, memory.unfinished = "group", True


def test_a_new_jobset_of_the_same_name_starts_with_an_empty_memory():
    memories = Memories()
    filled(memories.get_or_create(WHO, "1"))
    assert memories.get_or_create(WHO, "2") == Memory("2")
    assert len(memories) == 1


def test_a_deleted_jobset_is_forgotten_and_a_new_one_of_its_name_is_not():
    memories = Memories()
    filled(memories.get_or_create(WHO, "2"))
    memories.forget(WHO, "1")
    assert memories.get_or_create(WHO, "2") != Memory("2"), "that was an earlier one of the name"
    memories.forget(WHO, "2")
    assert len(memories) == 0
    memories.forget(WHO)


def test_a_read_neither_creates_nor_replaces_a_record():
    memories = Memories()
    assert memories.get(WHO, "1") is None
    assert len(memories) == 0
    filled(memories.get_or_create(WHO, "2"))
    assert memories.get(WHO, "1") is None, "that was an earlier one of the name"
    assert memories.get(WHO, "2") is memories.get_or_create(WHO, "2") != Memory("2")


@given(
    events=st.lists(
        st.tuples(st.sampled_from([WHO, OTHER]), st.sampled_from("123"), st.sampled_from(["see", "forget"])),
        max_size=20,
    )
)
def test_there_is_one_record_for_each_name_that_was_seen_and_not_forgotten(events):
    memories, seen = Memories(), {}
    for request, uid, what in events:
        if what == "see":
            filled(memories.get_or_create(request, uid))
            seen[request] = uid
        else:
            memories.forget(request, uid)
            if seen.get(request) == uid:
                del seen[request]
        assert len(memories) == len(seen)
        assert all(memories.get_or_create(request, uid).uid == uid for request, uid in seen.items())
