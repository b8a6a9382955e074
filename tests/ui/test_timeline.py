"""The attempts of a JobSet in order of time."""

from diagnose.states import state_of
from tests.support.explain.objects import MOMENT, at
from tests.support.objects.page_rows import a_set
from ui.records import LONGEST_TEXT
from ui.timeline import timeline as timeline_of

CREATED = at(MOMENT)
FIRST, SECOND, END = "2026-11-21T14:10:00Z", "2026-11-21T14:20:00Z", "2026-11-21T14:30:00Z"


def timeline(js):
    return timeline_of(js, state_of(js).word)


def failed(attempt: int, time: str, **more):
    return {"attempt": attempt, "time": time, "reason": "DefaultFailurePolicy", "failedJob": "train-workers-1", **more}


def spans(line):
    return [(one["attempt"], one["from"], one["to"], one["outcome"]) for one in line["attempts"]]


def test_a_set_that_never_failed_has_one_attempt():
    line = timeline(a_set(executionAttempts=0))
    assert spans(line) == [(0, CREATED, "", "Waiting")]
    assert (line["leftOut"], line["lastRestart"]) == (0, None)


def test_each_attempt_begins_where_the_one_before_ended():
    ended = {"podReason": "OOMKilled", "terminationMessage": "step 7\nout of memory\n"}
    history = [failed(0, FIRST, exitCode=1, pod="p", node="n", container="main", **ended), failed(1, SECOND)]
    last = {"reason": "DefaultFailurePolicy", "startTime": SECOND, "durationSeconds": 4}
    line = timeline(a_set(executionAttempts=2, attemptHistory=history, lastRestart=last))
    assert spans(line) == [
        (0, CREATED, FIRST, "Failed"),
        (1, FIRST, SECOND, "Failed"),
        (2, SECOND, "", "Waiting"),
    ]
    first = line["attempts"][0]
    assert [first[key] for key in ("job", "pod", "node", "container", "exitCode", "why")] == [
        "train-workers-1", "p", "n", "main", 1, "OOMKilled: out of memory",
    ]  # fmt: skip
    assert line["lastRestart"]["seconds"] == 4


def test_the_attempt_with_which_a_set_failed_is_the_last():
    ended = [{"type": "Failed", "status": "True", "lastTransitionTime": SECOND}]
    history = [failed(0, FIRST), failed(1, SECOND)]
    line = timeline(a_set(executionAttempts=1, attemptHistory=history, terminalState="Failed", conditions=ended))
    assert spans(line) == [(0, CREATED, FIRST, "Failed"), (1, FIRST, SECOND, "Failed")]


def test_a_set_completes_in_an_attempt_of_its_own():
    ended = [{"type": "Completed", "status": "True", "lastTransitionTime": END, "message": "done"}]
    status = {"executionAttempts": 1, "attemptHistory": [failed(0, FIRST)], "conditions": ended}
    line = timeline(a_set(terminalState="Completed", **status))
    assert spans(line)[-1] == (1, FIRST, END, "Completed")
    assert line["attempts"][-1]["message"] == "done"


def test_attempts_that_the_status_has_forgotten_are_counted():
    line = timeline(a_set(executionAttempts=13, attemptHistory=[failed(12, FIRST)]))
    assert line["leftOut"] == 12
    assert spans(line) == [(12, "", FIRST, "Failed"), (13, FIRST, "", "Waiting")]


def test_a_suspended_set_runs_nothing():
    assert spans(timeline(a_set(spec={"suspend": True}, executionAttempts=0)))[-1][3] == "Suspended"


def test_a_message_of_any_length_is_cut():
    history = [failed(0, FIRST, message="x" * 5000)]
    line = timeline(a_set(executionAttempts=1, attemptHistory=history))
    assert len(line["attempts"][0]["message"]) == LONGEST_TEXT + 1
