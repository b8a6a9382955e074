"""What `jobset explain` says of Jobs that wait for others or for a quota, or whose pods fail."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from diagnose.facts import SeenQuota
from diagnose.gather import gather
from kube.client import Client
from kube.options import METADATA_LIST
from tests.diagnose.test_look_ups import Refusing
from tests.support.explain.objects import (
    MOMENT,
    NOW,
    at,
    causes,
    event,
    explained,
    explanation_of,
    facts,
    job_of,
    lease,
    made,
    pod_of,
)
from tests.support.explain.stuck import JSON, a_set
from tests.support.explain.stuck_jobs import FEW, failed_pod, raised, refused
from tests.support.model.fake_cluster import Cluster
from tests.support.objects.jobsets import jobset, rjob, stored

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
    text, body = explained(js, [runs(js)], [])
    assert (body["state"], body["level"]) == ("runs", "note")
    waits = "ReplicatedJob train (2 Jobs): waits for fetch to have succeeded (0 of 1)"
    ready = "replicatedJobsStatus: Ready in executionPolicy"
    assert text.splitlines() == [
        "JobSet team-a/train: runs, 1 of 4 Jobs ready or done",
        f"├ it runs stage 1 of 3: {waits}; train-fetch-0 runs",
        f"│ to fix: wait until that has ended; for servers, which do not end, write {ready}",
        "└ ReplicatedJob report (1 Job): waits for train to have succeeded (0 of 2)",
    ]


def test_between_two_stages_nothing_is_to_be_fixed():
    js = staged()
    text, body = explained(js, [done(js, 5)], [])
    assert body["state"] == "runs"
    assert "the next stage begins: 2 Jobs are being created: train-train-0, train-train-1\n" in text
    assert "look again" not in text


def test_a_next_stage_that_does_not_begin_is_reported():
    js = staged()
    text, body = explained(js, [done(js, 60)], [])
    assert body["state"] == "waits"
    assert "2 Jobs do not exist (yet): train-train-0, train-train-1" in text


RETRIED = "wait: the Job controller tries again by itself soon"


@pytest.mark.parametrize(
    ("hard", "used", "level", "says"),
    [
        ("6", "3", "waits", "needs 1 pods, quota few has 3 left of 6 and allows that now"),
        ("6", "6", "fault", "needs 1 pods, quota few has 0 left of 6"),
        ("3", "2", "waits", "needs 1 pods, quota few has 1 left of 3 and allows that now"),
    ],
)
def test_a_quota_counts_as_it_is_now(hard: str, used: str, level: str, says: str):
    text, body = explanation_of(raised(FEW, hard, used))
    assert f": {says} (since" in text or f": {says}\n" in text
    assert body["level"] == level
    assert (RETRIED in text) is (level == "waits")
    assert ("have an administrator of the namespace run kubectl patch quota few" in text) is (level == "fault")


def test_a_quota_may_allow_some_of_the_pods():
    quota = msgspec.convert({"status": {"hard": {"pods": "5"}, "used": {"pods": "3"}}}, SeenQuota)
    text, _ = explanation_of(replace(refused(FEW, jobs=3), quotas={"few": quota}))
    assert "lack 3 of 3 pods: need 3 pods, quota few has 2 left of 5 and allows 2 of 3 now" in text


@pytest.mark.parametrize(("hard", "never"), [("2", True), ("3", False)])
def test_a_quota_that_is_smaller_than_the_set_is_never_waited_for(hard: str, never: bool):
    quota = msgspec.convert({"status": {"hard": {"pods": hard}, "used": {"pods": "1"}}}, SeenQuota)
    text, body = explanation_of(replace(refused(FEW, jobs=3), quotas={"few": quota}))
    assert ("; its 3 pods need 3 pods in all: they never run all at once" in text) is never
    assert ("to fix: wait" in text) is not never
    assert body["level"] == ("fault" if never else "waits")


def test_a_quota_of_fewer_jobs_than_the_set_has_is_never_waited_for():
    amounts = "requested: count/jobs.batch=1, used: count/jobs.batch=3, limited: count/jobs.batch=3"
    note = f'jobs.batch "train-workers-3" is forbidden: exceeded quota: jobs, {amounts}'
    js = a_set(rjob(replicas=5))
    jobs = [made(job_of(js, index), active=1, ready=1) for index in range(3)]
    text, _ = explained(js, jobs, [], warnings=[event("JobCreationFailed", note)])
    assert "; its 5 Jobs need 5 count/jobs.batch in all: they never run all at once" in text
    assert 'to fix: raise it: kubectl patch quota jobs -n team-a --type=merge -p \'{"spec":{"hard":' in text


def test_of_the_resources_of_a_quota_the_one_that_does_not_fit_is_named():
    amounts = "requested: cpu=2,pods=1, used: cpu=2,pods=3, limited: cpu=4,pods=3"
    note = f'jobs.batch "train-workers-0" is forbidden: exceeded quota: jobs, {amounts}'
    text, _ = explanation_of(facts(a_set(), warnings=[event("JobCreationFailed", note)], lease=lease()))
    assert "each needs 1 pods, quota jobs has 0 left of 3" in text


def test_a_forged_refusal_of_nothing_is_no_refusal_by_a_quota():
    note = FEW.replace("requested: pods=1, used: pods=3", "requested: pods=0, used: pods=4")
    quota = msgspec.convert({"status": {"hard": {"pods": "5"}, "used": {"pods": "3"}}}, SeenQuota)
    _, body = explanation_of(replace(refused(note), quotas={"few": quota}))
    assert causes(body) == ["pods-refused"]


def test_a_quota_that_is_gone_refuses_nothing():
    text, body = explanation_of(replace(refused(FEW), quotas={"few": None}))
    assert "lacks 1 of 1 pod: quota few refused them, and has been deleted since" in text
    assert (body["level"], RETRIED in text) == ("waits", True)


def lacking() -> list[JSON]:
    js = made(stored(jobset(rjob())))
    job = made(job_of(js, 0), active=0)
    about = {"kind": "Job", "name": "train-workers-0", "namespace": "default", "uid": job["metadata"]["uid"]}
    warning = {"kind": "Event", "metadata": {"name": "w"}, **event("FailedCreate", FEW), "regarding": about}
    return [js, job, warning]


QUOTA = {"kind": "ResourceQuota", "metadata": {"name": "few"}, "status": {"hard": {"pods": 6}, "used": {"pods": "3"}}}


@pytest.mark.looptime
async def test_the_quota_that_refused_is_read_once():
    cluster = Cluster(*lacking(), QUOTA)
    text, _ = explanation_of(await gather(Client(cluster), "default", "train", NOW))
    assert "quota few has 3 left of 6 and allows that now" in text
    assert sum(request.path.endswith("/resourcequotas/few") for request in cluster.asked) == 1


@pytest.mark.looptime
async def test_without_the_right_to_read_quotas_the_refusal_counts():
    cluster = Refusing(*lacking(), QUOTA)
    cluster.refused = ("resourcequotas",)
    text, body = explanation_of(await gather(Client(cluster), "default", "train", NOW))
    assert "quota few has 0 left of 3" in text
    assert "not looked at: quotas: you may not get resourcequotas" in text
    assert "quota" in causes(body)


PAUSE = "the Job controller makes the next pod after a pause: 10 s, doubled with each failure, at most 10 min"


def crashing(pods: int = 1, **status: Any) -> tuple[JSON, JSON]:
    """A set, and its Job that has failed pods and no condition that says so."""
    js = made(stored(jobset(rjob(parallelism=pods, completions=pods), namespace="team-a")))
    return js, made(job_of(js, 0, backoffLimit=6), **{"active": 0, "ready": 0, "failed": 1, **status})


def test_failures_are_told_while_the_next_pod_starts():
    js, job = crashing(active=1)
    starts = made(pod_of(job, 0, node="node-2", phase="Pending", containers=[{"name": "main", "ready": False}]))
    starts["metadata"] |= {"name": "next", "uid": "next"}
    text, body = explained(js, [job], [failed_pod(job, 0, 2), starts])
    assert causes(body) == ["not-ready"]
    assert " starting on node node-2; 1 failure before, the last in train-workers-0-0" in text
    assert "container main, exit code 2, backoffLimit allows 6" in text
    assert "jobset logs train -n team-a --job train-workers-0 shows what the failed pod wrote" in text


def test_failures_are_told_while_the_next_pod_runs():
    js, job = crashing(active=1, ready=1, failed=2)
    text, body = explained(js, [job])
    assert (body["state"], causes(body)) == ("runs", ["failures"])
    assert "Job train-workers-0: 2 failures so far, backoffLimit allows 6\n" in text
    assert "jobset logs train -n team-a --job train-workers-0 shows what its pods wrote" in text


def test_a_job_whose_pods_do_not_end_is_no_riddle():
    js, job = crashing(failed=0, terminating=2)
    text, body = explained(js, [job], [])
    assert causes(body) == ["pods-ending"]
    assert "Job train-workers-0: 2 pods have not ended yet, and the next wait for that" in text
    assert "kubectl delete pods -n team-a -l batch.kubernetes.io/job-name=train-workers-0 --force" in text


@pytest.mark.parametrize(
    ("before", "says", "pause"),
    [("0", "1 failure of index 0, backoffLimitPerIndex allows 1", True), ("1", "2 failures of index 0", False)],
)
def test_failures_of_an_index_count_by_themselves(before: str, says: str, pause: bool):
    js, job = crashing(2, active=1, ready=1, failed=5)
    job["spec"]["backoffLimitPerIndex"] = 1
    pod = failed_pod(job)
    pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] = before
    text, _ = explained(js, [job], [pod])
    assert says in text
    assert (PAUSE in text) is pause, "no pod comes for an index that has failed too often"


def test_a_failed_pod_in_whose_place_another_runs_is_not_the_cause():
    js, job = crashing(active=1)
    again = made(pod_of(job, unscheduled="0/2 nodes are available: 2 node(s) didn't have free ports"))
    _, body = explained(js, [job], [failed_pod(job), again])
    assert causes(body) == ["unscheduled"]


@pytest.mark.looptime
async def test_failed_pods_are_read_of_jobs_that_lack_pods():
    js, job = crashing(3, active=2, ready=2, startTime=at(MOMENT))
    found = await gather(Client(cluster := Cluster(js, job, failed_pod(job, 2))), "team-a", "train", NOW)
    assert causes(explanation_of(found)[1])[-1] == "pod-failed"
    assert sum("Failed" in str(dict(request.query).get("fieldSelector")) for request in cluster.asked) == 1
    healthy = made(job, active=3, ready=2, failed=1)
    await gather(Client(cluster := Cluster(js, healthy)), "team-a", "train", NOW)
    asked = [request for request in cluster.asked if "Failed" in str(dict(request.query).get("fieldSelector"))]
    assert [request.accept for request in asked] == [METADATA_LIST], "only whether its Job counts it"


@pytest.mark.looptime
@pytest.mark.parametrize("ready", [3, 2])
async def test_a_failed_pod_that_its_job_does_not_count_yet_is_the_cause(ready):
    """Some releases of Kubernetes leave the status of the Job as it was until the next pod is made."""
    js, job = crashing(3, active=3, ready=ready, failed=0, startTime=at(MOMENT))
    pod = failed_pod(job, 2)
    pod["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    text, body = explanation_of(await gather(Client(Cluster(js, job, pod)), "team-a", "train", NOW))
    assert causes(body)[-1] == "pod-failed"
    assert f"2 of 3 pods ready; pod {pod['metadata']['name']} has failed" in text
    assert "1 failure, backoffLimit allows 6" in text
    del pod["metadata"]["finalizers"]
    text, _ = explanation_of(await gather(Client(Cluster(js, job, pod)), "team-a", "train", NOW))
    assert "has failed" not in text, "it is counted: another pod runs in its place"


@pytest.mark.looptime
@pytest.mark.parametrize(("pods", "limit"), [(2, 0), (1, 6)])
async def test_a_job_that_hides_no_failure_costs_no_call(pods, limit):
    js, job = crashing(pods, active=pods, ready=pods, failed=0)
    job["spec"]["backoffLimit"] = limit
    await gather(Client(cluster := Cluster(js, job)), "team-a", "train", NOW)
    assert len(cluster.asked) == 3
