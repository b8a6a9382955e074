"""What `jobset explain` says of quotas that have refused pods or Jobs, and have been changed since."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from diagnose.facts import SeenQuota
from diagnose.gather import gather
from kube.client import Client
from tests.diagnose.test_look_ups import Refusing
from tests.support.explain.objects import NOW, causes, event, explanation_of, facts, job_of, lease, made
from tests.support.explain.stuck import JSON, a_set
from tests.support.explain.stuck_jobs import FEW, raised, refused
from tests.support.model.fake_cluster import Cluster
from tests.support.objects.jobsets import jobset, rjob, stored

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
    assert ("; its 3 pods need 3 pods in all: they are never there all at once" in text) is never
    assert ("to fix: wait" in text) is not never
    assert body["level"] == ("fault" if never else "waits")


def test_a_quota_of_fewer_jobs_than_the_set_has_is_never_waited_for():
    amounts = "requested: count/jobs.batch=1, used: count/jobs.batch=3, limited: count/jobs.batch=3"
    note = f'jobs.batch "train-workers-3" is forbidden: exceeded quota: jobs, {amounts}'
    js = a_set(rjob(replicas=5))
    jobs = [made(job_of(js, index), active=1, ready=1) for index in range(3)]
    text, _ = explanation_of(facts(js, jobs, [], warnings=[event("JobCreationFailed", note)], lease=lease()))
    assert "; its 5 Jobs need 5 count/jobs.batch in all: they are never there all at once" in text
    assert 'to fix: raise it: kubectl patch quota jobs -n team-a --type=merge -p \'{"spec":{"hard":' in text


def test_a_quota_that_is_gone_refuses_nothing():
    text, body = explanation_of(replace(refused(FEW), quotas={"few": None}))
    assert "lacks 1 of 1 pod: quota few refused them, and there is no such quota any more" in text
    assert (body["level"], RETRIED in text) == ("waits", True)


def test_jobs_that_a_quota_allows_now_are_created_soon():
    amounts = "requested: count/jobs.batch=1, used: count/jobs.batch=2, limited: count/jobs.batch=2"
    note = f'jobs.batch "train-workers-0" is forbidden: exceeded quota: jobs, {amounts}'
    status = {"hard": {"count/jobs.batch": "4"}, "used": {"count/jobs.batch": "2"}}
    known = {"quotas": {"jobs": msgspec.convert({"status": status}, SeenQuota)}}
    given = facts(a_set(), warnings=[event("JobCreationFailed", note)], lease=lease(), **known)
    text, body = explanation_of(given)
    assert "each needs 1 count/jobs.batch, quota jobs has 2 left of 4 and allows that now" in text
    assert "wait: the manager tries again by itself soon" in text
    assert body["level"] == "waits"


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
