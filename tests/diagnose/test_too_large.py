"""What `jobset explain` says of a set whose pods request more together than all nodes have."""

from __future__ import annotations

from typing import Any

from tests.diagnose.test_nodes import node, nodes, requests, unscheduled
from tests.support.explain.objects import explanation_of, facts, job_of, made, walk
from tests.support.objects.jobsets import jobset, rjob, stored

JSON = dict[str, Any]
EIGHT = {"containers": [{"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 8}}}]}
IN_ALL = "the pods of its JobSet need {} nvidia.com/gpu in all, the nodes offer 16: they never run all at once"


def in_all(*rjobs: JSON, ended: int = 0, status: JSON | None = None, **spec: Any) -> str:
    """What is said of the last Job of the first ReplicatedJob; the others run, and so many of them have ended."""
    js = made(stored(jobset(*rjobs, namespace="team-a", **spec)), **(status or {}))
    of = rjobs[0]
    done = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1, "active": 0}
    jobs = [
        made(job_of(js, index, of["name"]), **{"active": 1, "ready": 1, **(done if index < ended else {})})
        for index in range(of["replicas"])
    ]
    jobs[-1]["status"]["ready"] = 0
    pod = unscheduled(jobs[-1], "0/2 nodes are available: 2 Insufficient nvidia.com/gpu", **requests(gpu="8"))
    there = nodes(node("a", gpu="8"), node("b", gpu="8"))
    return "\n".join(one["what"] for one in walk(explanation_of(facts(js, jobs, [pod], node_offers=there))[1]))


def test_a_set_that_needs_more_than_all_nodes_have():
    assert IN_ALL.format(24) in in_all(rjob(replicas=3, pod=EIGHT))
    assert IN_ALL.format(32) in in_all(rjob(replicas=1, parallelism=4, completions=4, pod=EIGHT))
    assert "in all" not in in_all(rjob(replicas=2, pod=EIGHT))


def test_jobs_that_have_ended_need_nothing_more():
    assert "in all" not in in_all(rjob(replicas=3, pod=EIGHT), ended=1)


def test_a_later_stage_needs_nothing_yet():
    first, second = rjob("first", replicas=2, pod=EIGHT), rjob("second", replicas=2, pod=EIGHT)
    assert IN_ALL.format(32) in in_all(first, second)
    second["dependsOn"] = [{"name": "first", "status": "Complete"}]
    assert "in all" not in in_all(first, second)


def test_a_resource_that_no_node_has_is_not_counted_in_all():
    assert nodes(node()).too_little({"nvidia.com/gpu": 8, "cpu": 8}) is None
