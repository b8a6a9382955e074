"""What the page shows of one JobSet."""

from datetime import timedelta

import msgspec
import pytest

from api.gang_status import StoredGroup
from cli.ui.run import with_commands
from diagnose.states import state_of
from tests.support.explain.objects import MOMENT, NOW, at
from tests.support.objects.jobsets import rjob
from tests.support.objects.page_rows import a_job, a_set, counts
from ui import views
from ui.views import detail, row

READY = [counts(ready=1)]
RESTARTING = [{"type": "RestartingJobSet", "status": "True"}]


@pytest.mark.parametrize(
    ("js", "state"),
    [
        (a_set(), "Waiting"),
        (a_set(replicatedJobsStatus=READY), "Running"),
        (a_set(rjob(replicas=2), replicatedJobsStatus=READY), "Waiting"),
        (a_set(replicatedJobsStatus=[counts(succeeded=1)]), "Running"),
        (a_set(replicatedJobsStatus=READY, conditions=RESTARTING), "Restarting"),
        (a_set(spec={"suspend": True}, conditions=RESTARTING), "Suspended"),
        (a_set(spec={"suspend": True, "managedBy": "kueue.x-k8s.io/multikueue"}), "Managed elsewhere"),
        (a_set(meta={"deletionTimestamp": "2026-11-21T14:05:03Z"}, replicatedJobsStatus=READY), "Being deleted"),
        (a_set(meta={"deletionTimestamp": "2026-11-21T14:05:03Z"}, terminalState="Failed"), "Failed"),
        (a_set(terminalState="Completed", spec={"suspend": True}), "Completed"),
    ],
)
def test_a_set_has_one_state(js, state):
    assert state_of(js, NOW).word == state


def test_a_set_keeps_failing_for_an_hour():
    failed = [{"attempt": n, "time": at(MOMENT), "failedJob": "train-workers-0"} for n in range(2)]
    js = a_set(replicatedJobsStatus=READY, restarts=2, attemptHistory=failed)
    words = [row(js, NOW + timedelta(minutes=minutes))["state"] for minutes in (0, 47, 49)]
    assert words == ["Keeps failing", "Keeps failing", "Running"]


FAILED_TWICE = [
    {
        "attempt": n,
        "time": at(MOMENT),
        "failedJob": "train-w-0",
        "pod": "train-w-0-1-x",
        "container": "main",
        "exitCode": 1,
        "message": "failed",
    }
    for n in range(2)
]


@pytest.mark.parametrize(
    ("js", "words"),
    [
        (a_set(replicatedJobsStatus=READY), ""),
        (a_set(), ""),
        (
            a_set(restarts=2, attemptHistory=FAILED_TWICE),
            "Job train-w-0, container main of pod train-w-0-1-x, exit code 1: failed",
        ),
        (
            a_set(terminalState="Failed", conditions=[{"type": "Failed", "status": "True", "message": "job X"}]),
            "job X",
        ),
        (
            a_set(conditions=[{"type": "PodGroupsInitiallyScheduled", "status": "False", "message": "no room"}]),
            "no room",
        ),
    ],
)
def test_a_row_says_what_holds_the_set_up(js, words):
    assert row(js, NOW)["cause"] == words


def test_each_remedy_has_its_commands():
    below = {"remedy": "kubectl get pvc -n team-a lists those there are", "because": []}
    shown = with_commands({"remedy": "", "because": [below]})
    assert [shown["commands"], shown["because"][0]["commands"]] == [(), ("kubectl get pvc -n team-a",)]


def test_a_row_counts_jobs_that_are_ready_or_done():
    js = a_set(
        rjob("driver"),
        rjob("workers", replicas=4),
        spec={"failurePolicy": {"maxRestarts": 3}},
        restarts=1,
        replicatedJobsStatus=[counts("workers", ready=2, succeeded=1), counts("driver", ready=1)],
    )
    shown = row(js, NOW)
    assert (shown["settled"], shown["jobs"], shown["restarts"], shown["maxRestarts"]) == (4, 5, 1, 3)


def show(js, **known):
    return row(js, NOW) | detail(js, **{"jobs": (), "pods": (), "nodes": (), "groups": (), **known})


def test_stages_are_in_the_order_in_which_they_start():
    js = a_set(
        rjob("fetch"),
        rjob("train", replicas=2),
        rjob("export"),
        spec={"executionPolicy": {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"}},
        currentStage="train (2/3)",
        replicatedJobsStatus=[counts("fetch", succeeded=1), counts("train", active=2), counts("export", suspended=1)],
    )
    shown = show(js)
    assert [stage["name"] for stage in shown["stages"]] == ["fetch", "train", "export"]
    assert [of["state"] for stage in shown["stages"] for of in stage["replicatedJobs"]] == [
        "Completed", "Starting", "Suspended",
    ]  # fmt: skip
    assert shown["stage"] == "train (2/3)"


def test_what_starts_together_is_one_stage_and_says_what_it_waits_for():
    waits = rjob(dependsOn=[{"name": "driver", "status": "Ready"}])
    shown = show(a_set(rjob("driver"), waits))
    (stage,) = shown["stages"]
    assert [of["after"] for of in stage["replicatedJobs"]] == [[], ["driver (Ready)"]]
    ordered = show(a_set(rjob("a"), rjob("b"), spec={"startupPolicy": {"startupPolicyOrder": "InOrder"}}))
    assert [of["after"] for of in ordered["stages"][0]["replicatedJobs"]] == [[], ["a (Ready)"]]


@pytest.mark.parametrize(
    ("of", "state"),
    [
        (None, "Waiting"),
        (counts(), "Waiting"),
        (counts(active=1), "Starting"),
        (counts(ready=2), "Running"),
        (counts(ready=1, succeeded=1), "Running"),
        (counts(succeeded=2), "Completed"),
        (counts(ready=1, failed=1), "Failed"),
        (counts(suspended=2), "Suspended"),
    ],
)
def test_a_replicated_job_has_one_state(of, state):
    shown = show(a_set(rjob(replicas=2), replicatedJobsStatus=[of] if of else []))
    assert shown["stages"][0]["replicatedJobs"][0]["state"] == state


def test_jobs_are_in_the_order_of_their_indexes_and_not_more_than_can_be_read(monkeypatch):
    monkeypatch.setattr(views, "MAX_JOBS", 2)
    shown = show(a_set(rjob(replicas=11)), jobs=[a_job(10), a_job(9), a_job(2)])
    assert [job["name"] for job in shown["jobList"]] == ["train-workers-2", "train-workers-9"]
    assert shown["jobsLeftOut"] == 1


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({}, "Waiting"),
        ({"active": 1}, "Starting"),
        ({"active": 1, "ready": 1}, "Running"),
        ({"conditions": [{"type": "Complete", "status": "True"}]}, "Completed"),
        ({"conditions": [{"type": "Failed", "status": "True", "message": "backoff"}]}, "Failed"),
    ],
)
def test_a_job_has_one_state(status, state):
    shown = show(a_set(), jobs=[a_job(**status)])
    assert shown["jobList"][0]["state"] == state
    assert shown["jobList"][0]["message"] == ("backoff" if state == "Failed" else "")


@pytest.mark.parametrize(
    ("status", "state", "message"),
    [(None, "", ""), ("True", "Scheduled", ""), ("False", "Not scheduled yet", "0/20 nodes")],
)
def test_a_gang_says_whether_it_is_scheduled(status, state, message):
    said = [{"type": "PodGroupInitiallyScheduled", "status": status, "message": "0/20 nodes"}] if status else None
    body = {
        "metadata": {"name": "train-workers-0"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}, "parentCompositePodGroupName": "train"},
        "status": {"conditions": said},
    }
    (shown,) = show(a_set(), groups=[msgspec.convert(body, StoredGroup)])["groups"]
    assert (shown["gang"], shown["least"], shown["parent"]) == (True, 4, "train")
    assert (shown["state"], shown["message"]) == (state, message)


def test_a_label_that_is_no_index_is_no_obstacle():
    job = a_job()
    labels = job.metadata.labels | {"jobset.sigs.k8s.io/job-index": "9" * 5000}
    odd = msgspec.structs.replace(job, metadata=msgspec.structs.replace(job.metadata, labels=labels))
    assert len(show(a_set(), jobs=[odd])["jobList"]) == 1


def test_spares_show_their_own_numbers():
    """None of them waits: they are no part of what runs."""
    spares = [{"name": "spare", "ready": 1, "missing": 1, "used": 3}]
    js = a_set(rjob(), rjob("spare", replicas=2, spareFor="workers"), spares=spares)
    entry = show(js)["stages"][0]["replicatedJobs"][-1]
    assert (entry["state"], entry["ready"], entry["missing"], entry["used"]) == ("Spares for workers", 1, 1, 3)
