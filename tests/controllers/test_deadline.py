"""The deadline of a set: from when it counts, what begins it again, and what comes before it (KEP-1186)."""

import pytest
from msgspec.structs import replace

from controllers.planning.actions import CreateJob
from controllers.planning.finished import time_left
from controllers.planning.plan import plan
from tests.support.model.lives import ONE_BY_ONE, at, later, of_type, restart, resume, started, suspend
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob

GATE = {"JobSetActiveDeadlineSeconds": True}
WORDS = "JobSet was active for longer than the specified deadline of 60 seconds"
EXCEEDED = ("True", "DeadlineExceeded", WORDS)


def running(*rjobs: dict, gates: dict[str, bool] = GATE, **spec) -> World:
    """A set with a minute to run, all ready in second 0."""
    return started(*(rjobs or (rjob("workers", 2),)), gates=gates, activeDeadlineSeconds=60, **spec)


class TestTheEnd:
    def test_nothing_happens_before_and_the_next_look_is_at_the_deadline(self):
        world = later(running(), 45)
        decided = world.plan()
        assert (decided.actions, decided.status, decided.requeue_after) == ((), None, 15.0)

    def test_an_earlier_look_stays_earlier(self):
        world = running()
        world.since_status_write = 0.0
        world.jobs["js-workers-0"]["status"]["ready"] = 0
        assert 0 < world.plan().requeue_after <= 3, "the counters are due before the deadline"


class TestWhatComesFirst:
    POLICY = {"failurePolicy": {"maxRestarts": 9}}

    def test_a_failure_after_the_deadline_restarts_nothing(self):
        world = running(**self.POLICY)
        world.fail("js-workers-1")
        later(world, 60).settle()
        assert (world.condition("Failed"), world.status.restarts) == (EXCEEDED, 0)

    def test_success_after_the_deadline_is_success(self):
        world = running()
        world.finish("js-workers-0")
        world.finish("js-workers-1")
        later(world, 60).settle()
        assert world.condition("Failed") is None
        assert world.condition("Completed") == ("True", "AllJobsCompleted", "jobset completed successfully")

    @pytest.mark.parametrize(("seconds", "end"), [(59, "Failed"), (60, "Completed")])
    def test_success_beside_a_failure_counts_once_the_deadline_is_over(self, seconds, end):
        world = running(successPolicy={"operator": "Any", "targetReplicatedJobs": []})
        world.finish("js-workers-0")
        world.fail("js-workers-1")
        later(world, seconds).settle()
        assert world.status.terminal_state == end

    def test_a_share_is_named_as_ever(self):
        share = {"operator": "All", "minSucceeded": "50%", "targetReplicatedJobs": []}
        world = running(successPolicy=share, **self.POLICY)
        world.finish("js-workers-0")
        world.fail("js-workers-1")
        later(world, 60).settle()
        assert world.condition("Completed")[1] == "MinSucceededReached"


class TestTheStart:
    def test_it_is_stored_before_the_first_job_is_created(self):
        world = World(jobset(rjob("workers", 2), activeDeadlineSeconds=60), **GATE)
        decided = world.plan()
        assert decided.status is not None
        assert (decided.status.start_time, decided.status_first, decided.requeue_after) == (at(0), True, 60.0)
        assert len(of_type(decided, CreateJob)) == 2

    def test_it_does_not_run_while_suspended_and_begins_again_with_a_resume(self):
        world = later(running(), 30)
        suspend(world)
        assert world.status.start_time == ""
        later(world, 1000).settle()
        assert world.plan().requeue_after is None
        resume(world)
        assert (world.status.start_time, world.condition("Failed")) == (at(1030), None)
        assert world.plan().requeue_after == 60.0

    def test_a_suspension_of_which_writes_are_refused_is_stored_before_them(self):
        world = World(jobset(rjob("workers", 2), activeDeadlineSeconds=60), **GATE)
        world.step()
        world.jobs.clear()
        world.edit(suspend=True)
        decided = world.plan()
        assert of_type(decided, CreateJob)
        assert (decided.status_first, decided.status.start_time) == (True, "")

    def test_created_suspended(self):
        world = World(jobset(activeDeadlineSeconds=60, suspend=True), **GATE)
        later(world, 90).settle()
        assert world.status.start_time == ""
        resume(world)
        assert world.status.start_time == at(90)

    def test_a_restart_of_the_set_begins_it_again(self):
        world = later(running(failurePolicy={"maxRestarts": 1}), 30)
        restart(world, "js-workers-0")
        assert (world.status.restarts, world.status.start_time) == (1, at(30))
        later(world, 59).settle()
        assert world.status.terminal_state == ""

    @pytest.mark.parametrize("action", ["RestartJob", "RestartReplicatedJob"])
    def test_a_restart_of_a_part_leaves_it(self, action):
        policy = {**ONE_BY_ONE, "rules": [{"name": "one", "action": action}]}
        world = later(running(gates=GATE | {"RestartJob": True}, failurePolicy=policy), 30)
        restart(world, "js-workers-0")
        assert (world.status.restarts, world.status.start_time) == (0, at(0))

    def test_a_stored_set_counts_from_when_its_gate_is_turned_on(self):
        world = later(running(gates={}), 1000)
        assert world.status.start_time == ""
        world.gates = World(world.js, **GATE).gates
        world.settle()
        assert (world.status.start_time, world.status.terminal_state) == (at(1000), "")


class TestChanges:
    def test_a_longer_one_is_time_that_is_left(self):
        world = later(running(), 50)
        world.edit(active_deadline_seconds=90)
        assert world.plan().requeue_after == 40.0
        later(world, 39).settle()
        assert world.status.terminal_state == ""

    def test_a_shorter_one_may_be_over(self):
        world = later(running(), 50)
        world.edit(active_deadline_seconds=40)
        world.settle()
        assert world.condition("Failed")[1] == "DeadlineExceeded"

    def test_one_that_is_added_counts_from_then(self):
        world = later(started(rjob("workers", 2), gates=GATE), 1000)
        world.edit(active_deadline_seconds=60)
        world.settle()
        assert (world.status.start_time, world.plan().requeue_after) == (at(1000), 60.0)

    def test_one_that_is_removed_ends_nothing(self):
        world = later(running(), 50)
        world.edit(active_deadline_seconds=None)
        later(world, 1000).settle()
        assert (world.status.terminal_state, world.plan().requeue_after) == ("", None)


class TestWithoutTheGate:
    def test_a_warning_says_so_and_nothing_else_happens(self):
        world = later(running(gates={}), 1000)
        decided = world.plan()
        assert (decided.actions, decided.status, decided.requeue_after) == ((), None, None)
        [warning] = decided.warnings
        assert (warning.type, warning.reason) == ("Warning", "FeatureGateDisabled")
        assert warning.note.startswith("spec.activeDeadlineSeconds has no effect without the feature gate JobSetActive")

    def test_a_start_that_is_stored_is_kept_and_begins_again_with_a_restart(self):
        """So it is right when the gate comes back."""
        world = running(failurePolicy={"maxRestarts": 1})
        world.gates = World(world.js).gates
        later(world, 90).settle()
        assert world.status.start_time == at(0)
        restart(world, "js-workers-0")
        assert world.status.start_time == at(90)


class TestNumbers:
    @pytest.mark.parametrize(
        ("start", "now", "left"),
        [
            (at(0), at(0), 60.0),
            (at(0), at(59), 1.0),
            (at(0), at(60), 0.0),
            (at(0), at(90), -30.0),
            ("2026-01-01T01:00:00+01:00", at(10), 50.0),
            ("2026-01-01T00:00:00.5Z", at(10), 50.5),
        ],
    )
    def test_seconds_are_left_until_it_is_over(self, start, now, left):
        assert time_left(60, start, now) == left

    @pytest.mark.parametrize("start", ["", "yesterday", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00"])
    def test_a_start_that_cannot_be_read_begins_now(self, start):
        assert time_left(60, start, at(0)) is None
        world = running()
        world.js = replace(world.js, status=replace(world.status, start_time=start))
        later(world, 5).settle()
        assert (world.status.start_time, world.status.terminal_state) == (at(5), "")

    def test_a_clock_that_is_ahead_gives_no_more_than_the_whole_time_at_once(self):
        """The manager that wrote the start had a clock that was ten minutes ahead."""
        world = running()
        world.js = replace(world.js, status=replace(world.status, start_time=at(600)))
        assert world.plan().requeue_after == 60.0
        later(world, 659).settle()
        assert (world.status.terminal_state, world.plan().requeue_after) == ("", 1.0)
        later(world, 1).settle()
        assert world.condition("Failed") == EXCEEDED

    def test_the_largest_number_is_no_deadline_that_anybody_lives_to_see(self):
        world = started(rjob("workers", 2), gates=GATE, activeDeadlineSeconds=2**63 - 1)
        world.seconds = 10**9
        assert world.plan().requeue_after > 2.0**62

    @pytest.mark.parametrize("seconds", [0, -1])
    def test_one_that_only_an_older_schema_let_in_ends_the_set(self, seconds):
        world = World(jobset(activeDeadlineSeconds=seconds), **GATE)
        world.settle()
        assert world.condition("Failed")[1] == "DeadlineExceeded"


class TestSetsWithoutIt:
    def test_a_deadline_of_another_manager_is_left_to_that(self):
        js = jobset(activeDeadlineSeconds=1, managedBy="acme.io/foo")
        world = later(World(js, **GATE), 1000)
        decided = plan(world.observe(), world.gates)
        assert (decided.status, decided.requeue_after) == (None, None)
