"""Sets that are resized while they run (gate ElasticJobSet, KEP-463; docs/reference/children.md#elastic-sets)."""

from typing import Any

import pytest

from api import keys
from controllers.planning.actions import PatchJob
from tests.support.model.lives import of_type, started
from tests.support.objects.stored_sets import jobset, rjob


class TestElastic:
    """Gate ElasticJobSet: running sets follow their size."""

    GATE = {"ElasticJobSet": True}

    @staticmethod
    def resized(*rjobs: dict[str, Any]) -> Any:
        return jobset(*rjobs).spec.replicated_jobs

    def test_a_template_that_drops_its_size_means_one_pod(self):
        world = started(rjob("workers", 1, parallelism=3, completions=3), gates=self.GATE)
        world.edit(replicated_jobs=self.resized(rjob("workers", 1)))
        world.settle()
        assert world.jobs["js-workers-0"]["spec"]["completions"] == 1

    @pytest.mark.parametrize("size", [{"parallelism": 2, "completions": 4}, {"parallelism": 2}])
    def test_jobs_whose_sizes_differ_are_left_alone(self, size):
        world = started(rjob("workers", 1, parallelism=1, completions=1), gates=self.GATE)
        world.edit(replicated_jobs=self.resized(rjob("workers", 1, **size)))
        assert of_type(world.step(), PatchJob) == []

    def test_more_replicas_are_created_and_labels_that_state_totals_follow(self):
        world = started(rjob("a", 1), rjob("workers", 2), rjob("z", 1), gates=self.GATE)
        world.edit(replicated_jobs=self.resized(rjob("a", 1), rjob("workers", 4), rjob("z", 1)))
        world.settle()
        assert [n for n in world.live() if "workers" in n] == [f"js-workers-{i}" for i in range(4)]
        for index, job in enumerate(
            world.jobs[name] for name in ("js-a-0", *(f"js-workers-{i}" for i in range(4)), "js-z-0")
        ):
            for where in ("labels", "annotations"):
                found = job["metadata"][where]
                assert found[keys.GLOBAL_REPLICAS] == "6"
                assert found[keys.JOB_GLOBAL_INDEX] == str(index)
                assert found[keys.GROUP_REPLICAS] == "6"
                assert found[keys.JOB_GROUP_INDEX] == str(index)
        assert world.jobs["js-workers-0"]["metadata"]["labels"][keys.REPLICATED_JOB_REPLICAS] == "4"
        template = world.jobs["js-z-0"]["spec"]["template"]["metadata"]["labels"]
        assert template[keys.GLOBAL_REPLICAS] == "4", "pods keep what was true when they were created"

    def test_a_failure_of_a_job_that_is_taken_away_does_not_count(self):
        world = started(rjob("workers", 2), gates=self.GATE)
        world.fail("js-workers-1")
        world.edit(replicated_jobs=self.resized(rjob("workers", 1)))
        world.settle()
        assert world.status.terminal_state == ""
        assert world.live() == ["js-workers-0"]

    def test_without_the_gate_nothing_is_patched_and_a_warning_says_so(self):
        world = started(rjob("workers", 2))
        world.edit(replicated_jobs=self.resized(rjob("workers", 1, parallelism=3, completions=3)))
        assert world.step().actions == ()
        assert world.warnings[-1].reason == "StrayJob"
