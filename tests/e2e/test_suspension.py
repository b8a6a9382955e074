"""Suspend and resume as queueing controllers use them (docs/concepts/queueing.md)."""

from __future__ import annotations

from tests.support.cluster.jobs import group, manifest
from tests.support.cluster.requests import wait_for


def admitted(selector: dict[str, str | None]) -> dict:
    """What a queue writes when it admits: suspend and selectors in one update."""
    pod = {"nodeSelector": {k: v for k, v in selector.items() if v}}
    return {"suspend": False, "replicatedJobs": [group(replicas=2, pod=pod)]}


def nodes(sets) -> set[str]:
    return {pod["spec"].get("nodeName", "") for pod in sets.pods()}


def test_a_suspended_set_runs_nothing_and_resumes_where_it_was_admitted(sets):
    sets.apply(manifest(group(replicas=2), suspend=True))
    wait_for(lambda: sets.counts().get("suspended") == 2)
    assert sets.pods() == []
    assert sets.condition("Suspended")["status"] == "True"
    sets.patch(admitted({"rack": "rack-1"}))
    sets.wait_ready(2)
    assert all(name >= "node-0010" for name in nodes(sets))
    assert sets.condition("Suspended")["reason"] == "ResumeJobs"


def test_readmission_elsewhere_forgets_the_earlier_selectors(sets):
    sets.apply(manifest(group(replicas=2), suspend=True))
    wait_for(lambda: sets.counts().get("suspended") == 2)
    sets.patch(admitted({"rack": "rack-1", "kubernetes.io/os": "linux"}))
    sets.wait_ready(2)
    sets.patch({"suspend": True, "replicatedJobs": [group(replicas=2)]})
    wait_for(lambda: sets.counts() == {"ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 2})
    assert sets.pods() == []
    sets.patch(admitted({"rack": "rack-0"}))
    sets.wait_ready(2)
    assert all(name < "node-0010" for name in nodes(sets))
    assert {str(p["spec"]["nodeSelector"]) for p in sets.pods()} == {"{'rack': 'rack-0'}"}


def test_suspend_and_resume_cost_one_write_a_job(sets, manager):
    from dev.cluster import audit  # noqa: PLC0415

    sets.apply(manifest(group(replicas=20)))
    sets.wait_ready(20)
    start = audit.size(sets.cluster.audit_log)
    sets.patch({"suspend": True})
    wait_for(lambda: sets.counts()["suspended"] == 20 and sets.counts()["active"] == 0)
    sets.patch({"suspend": False})
    sets.wait_ready(20)
    calls = manager.calls(start, namespace=sets.namespace)
    assert calls["patch", "jobs", 200] == 40
    assert not [call for call in calls if call[1].startswith("jobs/") or call[2] >= 400]
