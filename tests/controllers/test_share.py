"""successPolicy.minSucceeded: when a share of the Jobs or of the pods is enough."""

import pytest

from tests.support.model.lives import ONE_BY_ONE
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob


def world(*rjobs, gates: dict | None = None, spec: dict | None = None, **policy) -> World:
    js = jobset(*rjobs, successPolicy={"operator": "All", **policy}, **(spec or {}))
    made = World(js, **(gates or {}))
    made.start_jobs()
    return made


def finish(of: World, *names: str) -> None:
    for name in names:
        of.finish(name)
        of.settle()


@pytest.mark.parametrize(("wanted", "needed"), [(1, 1), (4, 4), (5, 5), ("80%", 4), ("1%", 1), ("61%", 4), ("100%", 5)])
def test_completes_with_exactly_so_many_jobs(wanted, needed):
    of = world(rjob(replicas=5), minSucceeded=wanted)
    finish(of, *(f"js-workers-{i}" for i in range(needed - 1)))
    assert of.status.terminal_state == ""
    finish(of, f"js-workers-{needed - 1}")
    assert of.status.terminal_state == "Completed"
    assert of.condition("Completed") == (
        "True",
        "MinSucceededReached",
        f"jobset completed successfully: {needed} of 5 Jobs have succeeded, minSucceeded is {wanted}",
    )


class TestPods:
    PODS = {"parallelism": 4, "completions": 4}

    def test_completions_of_jobs_that_still_run_count(self):
        of = world(rjob(replicas=2, **self.PODS), minSucceeded=3, unit="Pod")
        of.jobs["js-workers-0"]["status"].update(succeeded=1, active=3, ready=3)
        of.jobs["js-workers-1"]["status"].update(succeeded=1, active=3, ready=3)
        of.settle()
        assert of.status.terminal_state == ""
        of.jobs["js-workers-1"]["status"].update(succeeded=2, active=2, ready=2)
        of.settle()
        assert "3 of 8 pods have succeeded, minSucceeded is 3" in of.condition("Completed")[2]
        assert of.live() == []

    def test_a_completed_job_counts_with_all_of_its_own(self):
        of = world(rjob(replicas=2, **self.PODS), minSucceeded="50%", unit="Pod")
        of.finish("js-workers-0")
        of.jobs["js-workers-0"]["status"]["succeeded"] = 1  # its own successPolicy was met by one pod
        of.settle()
        assert "4 of 8 pods" in of.condition("Completed")[2]


def test_a_job_that_is_restarted_alone_does_not_keep_the_share_from_being_met():
    of = world(rjob(replicas=3), minSucceeded=1, gates={"RestartJob": True}, spec={"failurePolicy": ONE_BY_ONE})
    of.finish("js-workers-0")
    of.fail("js-workers-1")
    of.settle()
    assert of.status.terminal_state == "Completed"


@pytest.mark.parametrize("odd", ["much", "0%", "200%"])
def test_what_is_no_number_completes_nothing_early(odd):
    """Stored past admission."""
    of = world(rjob(replicas=2), minSucceeded=odd)
    finish(of, "js-workers-0")
    assert of.status.terminal_state == ""
    finish(of, "js-workers-1")
    assert of.condition("Completed") == ("True", "AllJobsCompleted", "jobset completed successfully")


def test_any_wins_where_both_are_stored():
    """Stored past admission: a client that knows of no shares reads Any."""
    of = world(rjob(replicas=3), operator="Any", minSucceeded=3)
    finish(of, "js-workers-0")
    assert of.status.terminal_state == "Completed"


def test_a_number_below_one_needs_one():
    """Stored past admission: a set is not done before anything has succeeded."""
    of = world(rjob(replicas=2), minSucceeded=0)
    assert of.status.terminal_state == ""
