"""Failure policy rules by exit code: what they decide, which pods are asked for first, and what is reported."""

from controllers.planning.decisive_pod import MAX_COUNTED
from controllers.planning.observed import Ended, FailedPod
from controllers.planning.plan import plan
from tests.support.model.lives import started
from tests.support.objects.exit_codes import BY_POLICY, STOP, at, on, pod, rules
from tests.support.objects.stored_sets import rjob


class TestDecisions:
    def test_a_rule_matches_by_the_exit_code_of_the_decisive_pod(self):
        for code, state in ((3, "Failed"), (4, "")):
            world = started(rjob("workers", 2), failurePolicy=rules(STOP))
            world.fail("js-workers-1")
            world.failed_pods["js-workers-1"] = (pod("p", code),)
            world.settle()
            assert world.status.terminal_state == state
            assert world.status.restarts == (code != 3)

    def test_without_pods_it_does_not_match(self):
        world = started(
            rjob("workers"), failurePolicy=rules({**STOP, "onExitCodes": {"operator": "NotIn", "values": [9]}})
        )
        world.fail("js-workers-0")
        world.settle()
        assert (world.status.restarts, world.status.terminal_state) == (1, "")

    def test_more_failed_pods_than_are_counted_are_decided_by_and_reported(self):
        world = started(rjob("workers", backoffLimit=MAX_COUNTED), failurePolicy=rules(STOP))
        world.fail("js-workers-0")
        world.failed_pods["js-workers-0"] = tuple(
            FailedPod(f"p{number:05}", "n", (Ended("c", 3),), at(1)) for number in range(MAX_COUNTED + 1)
        )
        world.settle()
        assert world.status.terminal_state == "Failed"
        [warning] = world.warnings
        assert (warning.type, warning.reason) == ("Warning", "TooManyFailedPods")
        assert "Job js-workers-0 has 10000 failed pods or more" in warning.note

    def test_the_first_matching_rule_of_the_list_wins_whatever_it_matches_by(self):
        again = {"action": "RestartJobSet", "targetReplicatedJobs": ["b"]}
        world = started(rjob("a"), rjob("b"), failurePolicy=rules(on(7, action="FailJobSet"), again, STOP))
        for name in ("js-a-0", "js-b-0"):
            world.fail(name)
            world.failed_pods[name] = (pod(f"p-{name}", 3),)
        world.settle()
        assert world.status.last_restart.reason == "FailurePolicy_r1"


class TestAsking:
    """What decides is known before anything is decided."""

    def test_a_job_that_ran_out_of_time_needs_no_answer(self):
        world = started(rjob("workers"), failurePolicy=rules(STOP))
        world.fail("js-workers-0", reason="DeadlineExceeded")
        assert not plan(world.observe(), world.gates).pod_query.needed, "only for the history"
        world.settle()
        assert world.status.restarts == 1

    def test_an_earlier_rule_that_matches_anything_needs_no_answer(self):
        world = started(rjob("workers"), failurePolicy=rules({"action": "RestartJobSet"}, STOP))
        world.fail("js-workers-0")
        assert not plan(world.observe(), world.gates).pod_query.needed


class TestMessages:
    """Exit code, container, pod and node are reported where exit codes decide."""

    def test_the_container_that_the_policy_names_is_reported(self):
        world = started(rjob("workers", exitCodePolicy={"permanent": [9], "containerName": "c1"}))
        world.fail("js-workers-0")
        world.failed_pods["js-workers-0"] = (pod("p", 143, 3),)
        world.settle()
        assert world.condition("Failed")[2].endswith(": container c1 of pod p on node n ended with exit code 3")

    def test_of_a_pod_that_is_gone_the_message_of_the_job_is_used(self):
        """Its node alone is not known then."""
        world = started(rjob("workers", exitCodePolicy={}), failurePolicy={"maxRestarts": 9})
        message = (
            "Container main for pod ns/js-workers-0-0-abcde failed with exit code 127 matching FailJob rule at index 0"
        )
        world.fail("js-workers-0", BY_POLICY, message)
        world.settle()
        [entry] = world.status.attempt_history
        assert (entry.pod, entry.node, entry.container, entry.exit_code) == ("js-workers-0-0-abcde", "", "main", 127)
        [event] = [e for e in world.events if e.reason == "RestartJobSetFailurePolicyAction"]
        assert event.note.endswith(": container main of pod js-workers-0-0-abcde ended with exit code 127")

    def test_a_pod_without_a_failed_container_is_in_the_history_only(self):
        world = started(rjob("workers", exitCodePolicy={}))
        world.fail("js-workers-0")
        world.failed_pods["js-workers-0"] = (FailedPod("evicted", "n9"),)
        world.settle()
        assert world.condition("Failed")[2].endswith("(first failed job: js-workers-0)")
        [entry] = world.status.attempt_history
        assert (entry.pod, entry.node, entry.exit_code) == ("evicted", "n9", None)

    def test_if_no_pod_decided_the_history_names_one_that_was_ended(self):
        world = started(rjob("workers", exitCodePolicy={}), failurePolicy=rules(STOP))
        world.fail("js-workers-0", reason="DeadlineExceeded")
        world.failed_pods["js-workers-0"] = (pod("own", 3), pod("ended", 143, second=8, deleting=True))
        world.settle()
        [entry] = world.status.attempt_history
        assert (entry.pod, entry.exit_code) == ("ended", 143)
        assert world.condition("RestartingJobSet")[2].endswith("(first failed job: js-workers-0)")
