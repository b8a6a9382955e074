"""Suspend and resume as queueing controllers use them (docs/concepts/queueing.md)."""

from __future__ import annotations

from dev.cluster import audit
from tests.support.cluster.jobs import group, manifest
from tests.support.cluster.requests import wait_for


def test_suspend_and_resume_cost_one_write_a_job(sets, manager):
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
