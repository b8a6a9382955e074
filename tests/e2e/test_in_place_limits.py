"""What follows when restarts in place do not help: every Job is created again (`failurePolicy.inPlaceRestarts`)."""

from __future__ import annotations

import pytest

from tests.e2e.test_in_place import Kubelet, agent_file, jobset, running, uids
from tests.support.cluster.jobs import Sets

__all__ = ["agent_file"]
GATES = {"InPlaceRestart": True, "JobSetFailureEscalation": True}
pytestmark = [pytest.mark.slow, pytest.mark.manager(featureGates=GATES)]


@pytest.fixture
def kubelet(sets, agent_file, tmp_path):
    kubelet = Kubelet(sets, agent_file, tmp_path)
    yield kubelet
    kubelet.close()


def test_when_they_are_used_up_the_set_is_created_again(sets: Sets, kubelet: Kubelet):
    sets.apply(jobset(max_restarts=2, policy={"inPlaceRestarts": 1}))
    first = running(kubelet, attempt=0)
    jobs, pods = uids(sets.jobs()), uids(sets.pods())
    next(iter(kubelet.containers.values())).kill_worker()
    second = running(kubelet, attempt=1, but=first.values())
    assert (uids(sets.jobs()), uids(sets.pods())) == (jobs, pods), "in place"
    next(iter(kubelet.containers.values())).kill_worker()
    kubelet.until(lambda: sets.status()["restarts"] == 1, "the restart of the set")
    third = running(kubelet, attempt=2, but=(*first.values(), *second.values()))
    assert uids(sets.jobs()).isdisjoint(jobs)
    assert third.keys().isdisjoint(pods)
    assert sets.status()["restartsCountTowardsMax"] == 1
    used_up = ("Warning", "InPlaceRestartsUsedUp", "recreating all jobs: 1 restart in place has not helped")
    assert used_up in sets.events()
    next(iter(kubelet.containers.values())).kill_worker()
    kubelet.until(lambda: sets.status().get("terminalState") == "Failed", "the end after two restarts")
