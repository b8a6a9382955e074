"""What the Python client writes into a stored JobSet, and what it refuses to write."""

from functools import partial
from typing import Any

import pytest

from jobset_client import errors, operations
from tests.support.played.operations import a_set, event, listed, pieces, play, said, status

JSON = dict[str, Any]

GONE_AT = "2026-01-02T03:04:05Z"
GOING = {**a_set(), "metadata": {**a_set()["metadata"], "deletionTimestamp": GONE_AT}}
QUEUED = {**a_set(suspend=True), "metadata": {**a_set()["metadata"], "labels": {"kueue.x-k8s.io/queue-name": "gpus"}}}


def test_a_patch_sends_the_changes_alone():
    changes = {"metadata": {"labels": {"team": None}}}
    played = play(operations.patch("team-a", "train", changes), [said(a_set(version=2))])
    (call,) = played.calls
    assert (call.method, call.content_type, call.body) == ("PATCH", "application/merge-patch+json", changes)
    assert ("fieldValidation", "Strict") in call.query
    assert played.result.metadata.resource_version == "2"
    wrong = play(operations.patch("team-a", "train", ["a"]), [])
    assert isinstance(wrong.error, errors.UnreadableError)
    assert '{"metadata": {"labels": {"team": "a"}}}, and this is an array' in str(wrong.error)


@pytest.mark.parametrize(("operation", "now"), [(operations.suspend, False), (operations.resume, True)])
def test_suspend_and_resume_write_one_field_of_this_very_set(operation: Any, now: bool):
    played = play(operation("team-a", "train"), [said(a_set(suspend=now)), said(a_set(suspend=not now))])
    call = played.calls[1]
    assert (call.method, call.content_type) == ("PATCH", "application/merge-patch+json")
    assert call.body == {"metadata": {"uid": "u"}, "spec": {"suspend": not now}}
    already = play(operation("team-a", "train"), [said(a_set(suspend=not now))])
    assert (len(already.calls), already.result.spec.suspend) == (1, not now)


def test_scale_writes_the_numbers_of_jobs_of_this_very_set():
    scale = partial(operations.scale, "team-a", "train")
    played = play(scale({"workers": 6}), [said(a_set()), said(a_set(version=2))])
    call = played.calls[1]
    assert (call.method, call.content_type) == ("PATCH", "application/json-patch+json")
    assert call.body[0] == {"op": "test", "path": "/metadata/uid", "value": "u"}
    assert call.body[-1] == {"op": "add", "path": "/spec/replicatedJobs/0/replicas", "value": 6}
    assert played.result.metadata.resource_version == "2"
    had = a_set()["spec"]["replicatedJobs"][0].get("replicas", 1)
    assert len(play(scale({"workers": had}), [said(a_set())]).calls) == 1
    unknown = play(scale({"worker": 6}), [said(a_set())])
    assert isinstance(unknown.error, errors.RefusedError)
    assert 'did you mean "workers"?' in str(unknown.error)
    wrong = play(scale(["workers"]), [])
    assert 'scale takes a dict such as {"workers": 6}, and this is an array' in str(wrong.error)


@pytest.mark.parametrize(
    ("operation", "body", "words"),
    [
        (operations.suspend, a_set(ended="Failed"), "has failed: its end; a JobSet that has ended"),
        (operations.resume, a_set(ended="Completed"), "has completed; a JobSet that has ended"),
        (operations.restart, a_set(ended="Completed"), "has completed; a JobSet that has ended"),
        (
            operations.suspend,
            GOING,
            f"is being deleted since {GONE_AT}: jobset explain train -n team-a says what keeps it",
        ),
        (operations.restart, a_set(suspend=True), "is suspended: resume('train', namespace='team-a')"),
    ],
)
def test_what_would_change_nothing_is_refused_and_not_written(operation: Any, body: JSON, words: str):
    played = play(operation("team-a", "train"), [said(body)])
    assert isinstance(played.error, errors.RefusedError)
    assert words in str(played.error)
    assert len(played.calls) == 1


@pytest.mark.parametrize(
    ("operation", "suspended", "words"),
    [
        (operations.resume, True, "which resumes it when it admits it"),
        (operations.suspend, False, "where its Workload has spec.active: false"),
        (partial(operations.restart, timeout=9), False, "and starts them again with true"),
    ],
)
def test_a_set_of_a_queue_is_left_to_kueue_where_there_is_one(operation: Any, suspended: bool, words: str):
    body = {**QUEUED, "spec": {**QUEUED["spec"], "suspend": suspended}}
    played = play(operation("team-a", "train"), [said(body), said({"kind": "APIGroup"})])
    assert isinstance(played.error, errors.RefusedError)
    assert "is in the Kueue queue gpus" in str(played.error)
    assert words in str(played.error)
    assert [call.path for call in played.calls[1:]] == ["/apis/kueue.x-k8s.io"]
    without = play(operation("team-a", "train"), [said(body), status(404, "NotFound", "no such group")])
    assert without.calls[2].method == "PATCH"


def test_a_restart_suspends_waits_and_resumes():
    suspended = a_set("Suspended", suspend=True, version=12)
    answers = [
        said(a_set(ready=2)),
        said(a_set(suspend=True, version=11)),
        listed(a_set(suspend=True, version=11)),
        *pieces(event("MODIFIED", suspended))[:2],
        said(a_set(version=13)),
    ]
    played = play(operations.restart("team-a", "train", timeout=60), answers)
    assert played.asked == ["GET train", "PATCH train", "GET jobsets", "GET jobsets", "PATCH train"]
    assert [call.body["spec"] for call in played.calls if call.body] == [{"suspend": True}, {"suspend": False}]
    assert played.result.metadata.resource_version == "13"


@pytest.mark.parametrize(
    ("fault", "resumable"), [(status(403, "Forbidden", "no"), True), (KeyboardInterrupt(), True), (listed(), False)]
)
def test_a_restart_that_breaks_off_says_how_to_resume(fault: Any, resumable: bool):
    operation = operations.restart("team-a", "train", timeout=60)
    with pytest.raises(BaseException) as caught:  # noqa: PT012
        next(operation)
        operation.send(said(a_set(ready=2)))
        operation.send(said(a_set(suspend=True)))
        operation.throw(fault) if isinstance(fault, BaseException) else operation.send(fault)
    notes = getattr(caught.value, "__notes__", [])
    assert notes == (
        ["JobSet team-a/train stays suspended until you call resume('train', namespace='team-a')"] if resumable else []
    )
