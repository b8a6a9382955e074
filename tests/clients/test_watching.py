"""The watch of the Python client: interruptions are bridged, and nothing is missed or said twice."""

from typing import Any

import pytest

from jobset_client import errors, operations
from jobset_client.core import MAX_LINE_BYTES, Answer, Deadline
from jobset_client.watching import MAX_FAILURES, Changes, Selection
from tests.support.objects.jobsets import jobset
from tests.support.played.operations import Clock, event, listed, pieces, play, status

JSON = dict[str, Any]
BROKEN = errors.UnreachableError("broken")
EXPIRED = status(410, "Expired", "too old")


def a_set(name: str = "a", version: int = 1, uid: str = "") -> JSON:
    body = jobset(name=name)
    body["metadata"] |= {"uid": uid or name, "resourceVersion": str(version)}
    return body


def seen(*answers: Answer | Exception) -> list[str]:
    """What a user is told: type and name."""
    played = play(operations.watch("default"), answers)
    assert played.error is None
    return [f"{one.type} {one.jobset.metadata.name}" for one in played.emitted]


def test_what_there_is_comes_first_and_then_each_change():
    events = [event("MODIFIED", a_set(version=11)), event("ADDED", a_set("b", 12)), event("DELETED", a_set("b", 13))]
    assert seen(listed(a_set()), *pieces(*events)) == ["ADDED a", "MODIFIED a", "ADDED b", "DELETED b"]


def test_events_may_come_in_any_pieces():
    text = event("MODIFIED", a_set(version=11)) + event("MODIFIED", a_set(version=12))
    parts = [Answer(body=text[at : at + 7]) for at in range(0, len(text), 7)]
    assert seen(listed(a_set()), Answer(), *parts) == ["ADDED a", "MODIFIED a", "MODIFIED a"]


def test_a_watch_that_ended_goes_on_where_it_was():
    answers = [listed(a_set()), *pieces(event("MODIFIED", a_set(version=11))), Answer()]
    played = play(operations.watch("default"), answers)
    assert [dict(call.query).get("resourceVersion") for call in played.calls] == [None, "10", "11"]
    assert played.slept == 1


def test_a_bookmark_moves_the_watch_and_is_not_shown():
    answers = [listed(a_set()), *pieces(event("BOOKMARK", {"metadata": {"resourceVersion": "40"}})), Answer()]
    played = play(operations.watch("default"), answers)
    assert (len(played.emitted), dict(played.calls[-1].query)["resourceVersion"]) == (1, "40")


def test_a_watch_that_ends_before_anything_came_does_not_begin_at_once_again():
    played = play(operations.watch("default"), [listed(), *[Answer()] * 20])
    assert played.slept == 10


@pytest.mark.parametrize("forgotten", [[Answer(), Answer(body=event("ERROR", {"code": 410}))], [EXPIRED]])
def test_after_an_interruption_a_new_list_says_what_was_missed(forgotten: list[Answer]):
    before = listed(a_set("same"), a_set("changed"), a_set("gone"), a_set("other", uid="1"))
    after = listed(a_set("same"), a_set("changed", 5), a_set("new"), a_set("other", 7, uid="2"))
    assert seen(before, *forgotten, after)[4:] == [
        "MODIFIED changed",
        "ADDED new",
        "DELETED other",
        "ADDED other",
        "DELETED gone",
    ]


def test_a_broken_connection_is_tried_again_later():
    played = play(operations.watch("default"), [listed(a_set()), BROKEN, Answer(), BROKEN, Answer()])
    assert (played.slept, played.asked) == (2, ["GET jobsets"] * 4)


def test_a_server_that_never_comes_back_ends_the_watch():
    played = play(operations.watch("default"), [listed(a_set()), *[BROKEN] * 99])
    assert played.error is BROKEN
    assert played.slept == MAX_FAILURES


def test_what_does_not_pass_by_itself_ends_the_watch_at_once():
    played = play(operations.watch("default"), [listed(), status(403, "Forbidden", "no", name="x")])
    assert isinstance(played.error, errors.ForbiddenError)


def test_a_watch_with_a_timeout_ends_without_an_error():
    clock = Clock()
    changes = Changes(Selection("/x"), "watch", Deadline(3, clock))
    answers = [listed(), Answer(), *[Answer(body=event("BOOKMARK", {}))] * 99]
    assert play(changes.next(), answers, clock).result.type == "LISTED"
    played = play(changes.next(), answers[1:], clock)
    assert (played.result, played.error) == (None, None)
    assert dict(played.calls[0].query)["timeoutSeconds"] == "3"


def test_more_than_a_client_keeps_in_mind_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("jobset_client.watching.MAX_WATCHED", 1)
    played = play(operations.watch("default"), [listed(a_set(), a_set("b"))])
    assert "more than 1: narrow it" in str(played.error)


def test_an_event_that_is_too_large_ends_the_watch():
    large = Answer(body=b"x" * (MAX_LINE_BYTES + 1))
    played = play(operations.watch("default"), [listed(), Answer(), large])
    assert "larger than 8 MiB" in str(played.error)


def test_what_is_no_event_counts_as_an_interruption():
    played = play(operations.watch("default"), [listed(), Answer(), Answer(body=b"<html>\n"), Answer()])
    assert (played.slept, played.error) == (1, None)
