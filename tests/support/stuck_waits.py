"""Stuck situations of sets whose Jobs wait for others, or for a name; see `tests/support/stuck.py`."""

from __future__ import annotations

from api.meta import Owner
from app.explain.facts import Facts
from tests.support.explained import facts, job_of, lease, made, pod_of
from tests.support.jobsets import rjob
from tests.support.stuck import a_set, stuck


@stuck(
    "a Job waits for dependsOn",
    "Job train-driver-0: pod train-driver-0-0 is not scheduled: 0/2 nodes are available: 2 Insufficient cpu",
    "see above why those wait",
)
def _() -> Facts:
    js = a_set(rjob("driver"), rjob("workers", dependsOn=[{"name": "driver", "status": "Ready"}]))
    driver = made(job_of(js, 0, "driver"), active=1, ready=0)
    pod = made(pod_of(driver, unscheduled="0/2 nodes are available: 2 Insufficient cpu"))
    return facts(js, [driver], [pod], lease=lease())


@stuck(
    "a Job runs that another one waits for",
    "ReplicatedJob workers (1 Job): waits for server to be complete (0 of 1); train-server-0 runs",
    "for servers, which do not end, write status: Ready in dependsOn",
)
def _() -> Facts:
    js = a_set(rjob("server"), rjob("workers", dependsOn=[{"name": "server", "status": "Complete"}]))
    return facts(js, [made(job_of(js, 0, "server"), active=1, ready=1)], [], lease=lease())


@stuck(
    "the next stage waits for the one before",
    "it runs stage 1 of 2: ReplicatedJob b (1 Job): waits for a to have succeeded (0 of 1); train-a-0 runs",
    "for servers, which do not end, write replicatedJobsStatus: Ready in executionPolicy",
)
def _() -> Facts:
    js = a_set(
        rjob("a"), rjob("b"), executionPolicy={"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"}
    )
    return facts(js, [made(job_of(js, 0, "a"), active=1, ready=1)], [], lease=lease())


@stuck(
    "the name of a Job is taken",
    "Job train-workers-0: cannot be created, a Job of that name belongs to CronJob nightly",
    "delete or rename that one",
)
def _() -> Facts:
    return facts(a_set(), foreign={"train-workers-0": Owner("CronJob", "nightly")}, lease=lease())
