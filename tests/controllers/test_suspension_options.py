"""Jobs that another controller suspends, and suspensions that delete Jobs (gate JobSetSuspensionOptions).

See docs/reference/lifecycle.md#jobs-that-another-controller-suspends.
"""

import pytest

from api import keys
from controllers.planning.actions import DeleteJob
from tests.support.model.lives import of_type, restart, suspend
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob

GATE = {"JobSetSuspensionOptions": True}
OTHERS = {keys.SKIP_SUSPEND: "true"}
DELETES = {keys.DELETE_ON_SUSPEND: "true"}


def running(*rjobs, gates=GATE, annotations, **spec) -> World:
    """A set whose Jobs all run."""
    world = World(jobset(*rjobs, annotations=annotations, **spec), **gates)
    world.start_jobs()
    return world


class TestLeftToOthers:
    @pytest.mark.parametrize(("gates", "annotations"), [({}, OTHERS), (GATE, {}), (GATE, {keys.SKIP_SUSPEND: "false"})])
    def test_without_gate_and_annotation_the_manager_resumes_it(self, gates, annotations):
        world = running(rjob("workers", 2), gates=gates, annotations=annotations)
        world.jobs["js-workers-1"]["spec"]["suspend"] = True
        world.settle()
        assert not world.jobs["js-workers-1"]["spec"]["suspend"]

    @pytest.mark.parametrize("begins", [True, False])
    def test_new_jobs_begin_as_their_template_says_after_a_restart_too(self, begins):
        world = World(
            jobset(rjob("workers", 2, suspend=begins), annotations=OTHERS, failurePolicy={"maxRestarts": 1}), **GATE
        )
        world.settle()
        assert [job["spec"]["suspend"] for job in world.jobs.values()] == [begins, begins]
        for job in world.jobs.values():
            job["spec"]["suspend"] = False
        world.run()
        world.settle()
        restart(world, "js-workers-0")
        assert {job["metadata"]["labels"][keys.RESTART_ATTEMPT] for job in world.jobs.values()} == {"1"}
        assert [job["spec"]["suspend"] for job in world.jobs.values()] == [begins, begins]

    def test_a_template_has_no_say_without_the_annotation(self):
        world = World(jobset(rjob("workers", 1, suspend=True)), **GATE)
        world.settle()
        assert not world.jobs["js-workers-0"]["spec"]["suspend"]


class TestDeletion:
    def test_completed_jobs_and_jobs_that_never_started_stay(self):
        world = running(rjob("done", 1), rjob("workers", 1), annotations=DELETES)
        world.finish("js-done-0")
        del world.jobs["js-workers-0"]["status"]
        suspend(world)
        assert world.live() == ["js-done-0", "js-workers-0"]
        assert world.jobs["js-workers-0"]["spec"]["suspend"]

    def test_the_suspension_is_stored_before_a_job_is_deleted(self):
        world = running(rjob("workers", 2), annotations=DELETES)
        world.edit(suspend=True)
        before = len(world.plans)
        world.settle()
        decided = next(plan for plan in world.plans[before:] if of_type(plan, DeleteJob))
        assert decided.status_first
        assert world.condition(keys.SUSPENDED)[0] == "True"

    @pytest.mark.parametrize(("gates", "annotations"), [({}, DELETES), (GATE, {}), (GATE, OTHERS)])
    def test_without_gate_and_annotation_the_jobs_stay(self, gates, annotations):
        world = running(rjob("workers", 2), gates=gates, annotations=annotations)
        suspend(world)
        assert world.live() == ["js-workers-0", "js-workers-1"]
