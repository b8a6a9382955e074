"""What `jobset explain` says of pods of one Job whose containers do not run for different reasons."""

from __future__ import annotations

from typing import Any

from tests.support.explain.objects import explanation_of, facts, job_of, lease, made, pod_of
from tests.support.explain.stuck import a_set, waiting
from tests.support.objects.jobsets import rjob

JSON = dict[str, Any]


def crashed(code: int, times: int, reason: str = "Error") -> JSON:
    last = {"terminated": {"exitCode": code, "reason": reason}}
    return waiting("CrashLoopBackOff", "back-off 5m0s", restartCount=times, lastState=last)


def explained(*containers: JSON) -> list[str]:
    """The lines about the pods of two Jobs, each of which has one pod for each of these containers."""
    js = a_set(rjob(replicas=2, parallelism=len(containers), completions=len(containers)))
    jobs = [made(job_of(js, index), active=len(containers)) for index in range(2)]
    pods = [
        made(pod_of(job, index, node="node-1", phase="Pending", containers=[container]))
        for job in jobs
        for index, container in enumerate(containers)
    ]
    text, _ = explanation_of(facts(js, jobs, pods, lease=lease()))
    return [line.lstrip("├└│ ") for line in text.splitlines()[1:]]


def test_pods_of_a_job_that_do_not_run_for_different_reasons_are_told_apart():
    lines = explained(crashed(137, 7, "OOMKilled"), waiting("ErrImagePull", "401 Unauthorized"), crashed(1, 2))
    first, fix, likewise, second, correct, again, third, *_ = lines
    assert first == (
        "Job train-workers-0: pod train-workers-0-0 is not ready: container main: CrashLoopBackOff, restarted 7 times, it"
        " ended with exit code 137 (OOMKilled): back-off 5m0s"
    )
    assert fix.startswith("to fix: kubectl logs -n team-a train-workers-0-0 -c main --previous")
    assert likewise == again == "Job train-workers-1: likewise"
    assert second == (
        "Job train-workers-0: pod train-workers-0-1 is not ready: container main: ErrImagePull: 401 Unauthorized"
    )
    assert "correct the image" in correct
    assert "pod train-workers-0-2 is not ready" in third
    assert "exit code 1 (Error)" in third


def test_pods_that_were_restarted_more_or_less_often_are_alike():
    lines = explained(crashed(1, 7), crashed(1, 2))
    assert lines[0].startswith("Job train-workers-0: pod train-workers-0-0 and 1 more are not ready: container main: ")
    assert len([line for line in lines if "CrashLoopBackOff" in line]) == 1


def test_jobs_with_many_different_reasons_are_counted_once():
    lines = explained(*(crashed(code, 1) for code in range(1, 12)))
    assert lines[-1].startswith("2 more Jobs (train-workers-0, train-workers-1): waiting for reasons of this kind")
