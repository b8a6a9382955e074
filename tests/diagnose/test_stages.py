"""What `jobset explain` says of sets with stages: what runs as it should, and what holds the next stage up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.support.explain.objects import NOW, at, causes, explanation_of, facts, job_of, lease, made
from tests.support.explain.stuck import a_set
from tests.support.objects.jobsets import rjob

JSON = dict[str, Any]
IN_ORDER = {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"}


def staged() -> JSON:
    return a_set(rjob("fetch"), rjob("train", replicas=2), rjob("report"), executionPolicy=IN_ORDER)


def done(js: JSON, ago: float, name: str = "fetch") -> JSON:
    end = {"type": "Complete", "status": "True", "lastTransitionTime": at(NOW - timedelta(seconds=ago))}
    return made(job_of(js, 0, name), succeeded=1, conditions=[end])


def runs(js: JSON, name: str = "fetch", index: int = 0, ready: int = 1) -> JSON:
    return made(job_of(js, index, name), active=1, ready=ready)


def test_a_stage_that_runs_well_is_not_a_wait():
    js = staged()
    text, body = explanation_of(facts(js, [runs(js)], [], lease=lease()))
    assert (body["state"], body["level"]) == ("runs", "note")
    waits = "ReplicatedJob train (2 Jobs): waits for fetch to have succeeded (0 of 1)"
    ready = "replicatedJobsStatus: Ready in executionPolicy"
    assert text.splitlines() == [
        "JobSet team-a/train: runs, 1 of 4 Jobs ready or done",
        f"├ it runs stage 1 of 3: {waits}; train-fetch-0 runs",
        f"│ to fix: wait until that has ended; for servers, which do not end, write {ready}",
        "└ ReplicatedJob report (1 Job): waits for train to have succeeded (0 of 2)",
    ]


def test_a_later_stage_that_runs_well_is_numbered():
    js = staged()
    jobs = [done(js, 600), runs(js, "train"), runs(js, "train", 1)]
    text, body = explanation_of(facts(js, jobs, [], lease=lease()))
    assert body["state"] == "runs"
    assert "it runs stage 2 of 3: ReplicatedJob report (1 Job): waits for train to have" in text
    assert "train-train-0, train-train-1 run\n" in text


def test_what_holds_a_stage_up_stands_before_those_that_wait_for_it():
    js = staged()
    jobs = [done(js, 600), runs(js, "train"), runs(js, "train", 1, ready=0)]
    text, body = explanation_of(facts(js, jobs, [], lease=lease()))
    assert (body["state"], causes(body)) == ("waits", ["not-ready", "later-stage"])
    assert "to fix: see above why those wait" in text


def test_a_dependency_of_a_stage_that_is_held_up_waits_as_well():
    first, second = [{"name": "a", "status": "Complete"}], [{"name": "b", "status": "Ready"}]
    js = a_set(rjob("a"), rjob("b", dependsOn=first), rjob("c", dependsOn=second))
    levels = []
    for ready in (0, 1):
        _, body = explanation_of(facts(js, [runs(js, "a", ready=ready)], [], lease=lease()))
        levels.append([found["level"] for found in body["because"] if found["cause"] == "later-stage"])
    assert levels == [["waits", "waits"], ["note", "note"]]


def test_between_two_stages_nothing_is_to_be_fixed():
    js = staged()
    text, body = explanation_of(facts(js, [done(js, 5)], [], lease=lease()))
    assert body["state"] == "runs"
    assert "the next stage begins: 2 Jobs are being created: train-train-0, train-train-1\n" in text
    assert "look again" not in text


def test_a_next_stage_that_does_not_begin_is_reported():
    js = staged()
    text, body = explanation_of(facts(js, [done(js, 60)], [], lease=lease()))
    assert body["state"] == "waits"
    assert "2 Jobs do not exist (yet): train-train-0, train-train-1" in text
