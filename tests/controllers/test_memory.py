"""What a process remembers of JobSets: of which one, and until when."""

import copy
import dataclasses
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from api.batch import Job
from api.jobset_status import JobSetStatus
from controllers.gang.stalled import Reports
from controllers.jobset.contested_jobs import Resumptions
from controllers.jobset.memory import ExpiringValue, Memories, Memory
from controllers.jobset.milestones import AttemptTimes
from controllers.jobset.old_pods import FollowedPods
from controllers.jobset.refused import RefusedJobs
from controllers.planning.actions import Event
from controllers.planning.job_window import JobWindow
from controllers.planning.sorted_jobs import SortedJobs
from kube.controller import Request
from kube.model.meta import NO_OWNER, ObjectMeta

WHO = Request("ns", "js")
OTHER = Request("ns", "other")


JOB = Job(metadata=ObjectMeta(name="js-a-0", namespace="ns", uid="job"))
SAMPLES = {
    "has_current_caches": True,
    "status_write_time": 1.0,
    "counts_differ_since": 1.5,
    "first_plan_time": 1.7,
    "rest_until": 2.0,
    "failed_plan_line": "create 2 Jobs",
    "last_warnings": frozenset({Event("Warning", "Reason", "message")}),
    "departed": {"job": JOB},
    "refused_jobs": RefusedJobs({"js-a-0": None}),
    "foreign_owners": ExpiringValue({"js-a-0": NO_OWNER}, 3.0),
    "group_error": ExpiringValue(("NameConflict", "x"), 4.0),
    "namespace_ends_until": 5.0,
    "reported_group": "group",
    "watched_status": JobSetStatus(),
    "attempt_times": AttemptTimes(suspended=False, restarts=1, measured=None),
    "pod_reports": Reports(next_check=6.0),
    "served_pod_times": {"uid": 6.5},
    "spare_pods_are_read": True,
    "next_start_check": "2026-01-01T00:00:00Z",
    "followed_pods": FollowedPods(attempt=1, pods=None),
    "resumptions": Resumptions(is_reported=False),
    "sorted_jobs": SortedJobs(),
    "job_window": JobWindow(size=100),
}
"""A value of each field of a record that it does not start with. A field without one fails the tests."""


def filled(memory: Memory) -> Memory:
    """Everything that can be remembered is."""
    for name, sample in SAMPLES.items():
        setattr(memory, name, copy.copy(sample))
    return memory


def test_every_field_of_the_record_has_a_sample():
    empty, remembered = Memory("1"), {field.name for field in dataclasses.fields(Memory)} - {"uid"}
    assert SAMPLES.keys() == remembered
    assert [name for name in remembered if getattr(empty, name) == SAMPLES[name]] == []


def test_a_new_jobset_of_the_same_name_starts_with_nothing_but_departed_jobs():
    memories = Memories()
    followed = filled(memories.get_or_create(WHO, "1")).followed_pods
    assert memories.get_or_create(WHO, "2") == Memory("2", departed={"job": JOB})
    assert followed.is_over, "its watch of old pods has not ended"
    assert len(memories) == 1


def test_a_deleted_jobset_is_forgotten_and_a_new_one_of_its_name_is_not():
    memories = Memories()
    filled(memories.get_or_create(WHO, "2"))
    memories.forget(WHO, "1")
    assert memories.get_or_create(WHO, "2") != Memory("2"), "that was an earlier one of the name"
    memories.forget(WHO, "2")
    assert len(memories) == 0
    memories.forget(WHO)
    assert memories.get_or_create(WHO, "2") == Memory("2")


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


def test_a_namespace_that_ends_holds_back_all_its_jobsets_and_no_other():
    memories = Memories()
    for request in (WHO, OTHER, Request("ns-2", "js")):
        memories.get_or_create(request, "1")
    memories.pause_namespace("ns", 60.0)
    held = {request: memories.get_or_create(request, "1").namespace_ends_until for request in (WHO, OTHER)}
    assert held == {WHO: 60.0, OTHER: 60.0}
    assert memories.get_or_create(Request("ns-2", "js"), "1").namespace_ends_until == 0.0
    assert memories.get_or_create(OTHER, "2").namespace_ends_until == 0.0, "that is in a new namespace of the name"


def test_the_architecture_says_how_to_find_all_that_is_remembered():
    root = Path(__file__).parents[2]
    assert 'git grep -n "Remembered:"' in (root / "docs/architecture.md").read_text(encoding="utf-8")
    files = [file for folder in ("controllers", "kube", "webhooks") for file in (root / folder).rglob("*.py")]
    assert sum("Remembered:" in file.read_text(encoding="utf-8") for file in files) > 15
