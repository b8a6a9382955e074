"""Failure policy rules by exit code: what they decide, which pods are asked for first, and what is reported."""

from __future__ import annotations

import msgspec

from api.pod import DetailedPod as Pod
from controllers.jobset.failed_pods import summary
from controllers.planning.actions import FailedPodQuery
from controllers.planning.decisive_pod import MOST_COUNTED
from controllers.planning.observed import Ended, FailedPod
from controllers.planning.plan import plan
from tests.support.model.lives import started
from tests.support.model.world import World
from tests.support.objects.exit_codes import BY_POLICY, STOP, at, on, pod, rules
from tests.support.objects.stored_sets import rjob


def uid(world: World, name: str) -> str:
    return world.jobs[name]["metadata"]["uid"]


class TestDecisions:
    def test_a_rule_matches_by_the_exit_code_of_the_decisive_pod(self):
        for code, state in ((3, "Failed"), (4, "")):
            world = started(rjob("workers", 2), failurePolicy=rules(STOP))
            world.fail("js-workers-1")
            world.failed_pods["js-workers-1"] = (pod("p", code),)
            world.settle()
            assert world.status.terminal_state == state
            assert world.status.restarts == (code != 3)

    def test_exit_codes_reasons_patterns_and_targets_hold_together(self):
        full = {
            **STOP,
            "onJobFailureReasons": ["BackoffLimitExceeded"],
            "onJobFailureMessagePatterns": ["^boo"],
            "targetReplicatedJobs": ["workers"],
        }
        for change, code, state in [
            ({}, 3, "Failed"),
            ({"onExitCodes": {"operator": "In", "values": [4]}}, 3, ""),
            ({"onJobFailureReasons": ["DeadlineExceeded"]}, 3, ""),
            ({"onJobFailureMessagePatterns": ["^far"]}, 3, ""),
            ({"targetReplicatedJobs": ["driver"]}, 3, ""),
        ]:
            world = started(rjob("workers"), rjob("driver"), failurePolicy=rules({**full, **change}))
            world.fail("js-workers-0")
            world.failed_pods["js-workers-0"] = (pod("p", code),)
            world.settle()
            assert world.status.terminal_state == state, change

    def test_without_pods_it_does_not_match(self):
        world = started(
            rjob("workers"), failurePolicy=rules({**STOP, "onExitCodes": {"operator": "NotIn", "values": [9]}})
        )
        world.fail("js-workers-0")
        world.settle()
        assert (world.status.restarts, world.status.terminal_state) == (1, "")

    def test_more_failed_pods_than_are_counted_are_decided_by_and_reported(self):
        world = started(rjob("workers", backoffLimit=MOST_COUNTED), failurePolicy=rules(STOP))
        world.fail("js-workers-0")
        world.failed_pods["js-workers-0"] = tuple(
            FailedPod(f"p{number:05}", "n", (Ended("c", 3),), at(1)) for number in range(MOST_COUNTED + 1)
        )
        world.settle()
        assert world.status.terminal_state == "Failed"
        [warning] = world.warnings
        assert (warning.type, warning.reason) == ("Warning", "TooManyFailedPods")
        assert "Job js-workers-0 has 10000 failed pods or more" in warning.note

    def test_a_job_that_is_gone_does_not_match_and_no_pods_are_read(self):
        world = started(
            rjob("workers"), failurePolicy=rules({**STOP, "onExitCodes": {"operator": "NotIn", "values": [9]}})
        )
        world.fail("js-workers-0")
        world.failed_pods["js-workers-0"] = (pod("p", 3),)
        world.remove("js-workers-0")
        assert plan(world.observe(), world.gates).pod_query is None
        world.settle()
        assert (world.status.restarts, world.status.terminal_state) == (1, "")

    def test_the_first_matching_rule_of_the_list_wins_whatever_it_matches_by(self):
        again = {"action": "RestartJobSet", "targetReplicatedJobs": ["b"]}
        world = started(rjob("a"), rjob("b"), failurePolicy=rules(on(7, action="FailJobSet"), again, STOP))
        for name in ("js-a-0", "js-b-0"):
            world.fail(name)
            world.failed_pods[name] = (pod(f"p-{name}", 3),)
        world.settle()
        assert world.status.last_restart.reason == "FailurePolicy_r1"

    def test_a_rule_by_exit_code_may_have_any_action(self):
        actions = ["RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts", "RestartJob", "RestartJobAndIgnoreMaxRestarts"]
        for action in [*actions, "RestartReplicatedJob", "FailJobSet"]:
            world = started(rjob("workers", 2), gates={"RestartJob": True}, failurePolicy=rules(on(3, action=action)))
            world.fail("js-workers-0")
            world.failed_pods["js-workers-0"] = (pod("p", 3, node="n7"),)
            world.step()
            [event] = [e for e in world.events if e.reason == f"{action}FailurePolicyAction"]
            assert event.note == (
                f"applying {action} failure policy action (first failed job: js-workers-0): container c0 of pod p on"
                " node n7 ended with exit code 3"
            )


class TestAsking:
    """What decides is known before anything is decided."""

    def test_nothing_happens_before_the_answer(self):
        world = started(rjob("workers", 3), failurePolicy=rules(STOP))
        world.fail("js-workers-0")
        world.fail("js-workers-2")
        del world.jobs["js-workers-1"]
        decided = plan(world.observe(), world.gates)
        jobs = tuple((name, uid(world, name)) for name in ("js-workers-0", "js-workers-2"))
        assert decided.pod_query == FailedPodQuery(jobs, needed=True)
        assert decided.actions == decided.events == ()
        assert decided.status is None or not decided.status.terminal_state

    def test_one_question_names_all_jobs_it_needs_and_no_other(self):
        specific = {**STOP, "targetReplicatedJobs": ["a"], "onJobFailureReasons": ["BackoffLimitExceeded"]}
        first = {"action": "RestartJob", "onJobFailureMessagePatterns": ["^single"]}
        gates = {"RestartJob": True}
        world = started(rjob("a", 5), rjob("b"), gates=gates, failurePolicy=rules(first, specific))
        world.fail("js-a-0")
        world.fail("js-a-1", message="single")
        world.fail("js-a-2", reason="FailedIndexes")
        world.fail("js-a-3")
        world.fail("js-b-0")
        pod_query = plan(world.observe(), world.gates).pod_query
        assert [name for name, _ in pod_query.jobs] == ["js-a-0", "js-a-3"]

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

    def test_the_history_of_another_job_is_asked_for_afterwards(self):
        """The Job whose pods were needed did not match; the one that decides is asked about for its own sake."""
        only_b = {"action": "RestartJobSet", "targetReplicatedJobs": ["b"]}
        world = started(rjob("a"), rjob("b"), failurePolicy=rules({**STOP, "targetReplicatedJobs": ["a"]}, only_b))
        world.fail("js-a-0")
        world.fail("js-b-0")
        world.failed_pods = {"js-a-0": (pod("pa", 9),), "js-b-0": (pod("pb", 4),)}
        world.settle()
        [entry] = world.status.attempt_history
        assert (entry.failed_job, entry.pod, entry.container, entry.exit_code) == ("js-b-0", "pb", "c0", 4)

    def test_sets_without_exit_codes_ask_for_the_history_only(self):
        world = started(rjob("workers", 2), failurePolicy={"maxRestarts": 1})
        world.fail("js-workers-0")
        world.fail("js-workers-1")
        assert plan(world.observe(), world.gates).pod_query == FailedPodQuery(
            (("js-workers-0", uid(world, "js-workers-0")),)
        )
        world.failed_pods["js-workers-0"] = (pod("p", 3),)
        assert world.step().events[0].note == (
            "applying RestartJobSet failure policy action (first failed job: js-workers-0)"
        )


class TestMessages:
    """Exit code, container, pod and node are reported where exit codes decide."""

    def test_an_exit_code_policy_adds_the_exit_code_to_the_message(self):
        message = "Container c1 for pod ns/p failed with exit code 3 matching FailJob rule at index 1"
        for policy, reported in ((None, ""), ({}, ": container c1 of pod p on node n ended with exit code 3")):
            extra = {} if policy is None else {"exitCodePolicy": policy}
            world = started(rjob("workers", **extra))
            world.fail("js-workers-0", reason=BY_POLICY, message=message)
            world.failed_pods["js-workers-0"] = (pod("p", 9, 3), pod("a", 1, second=0, deleting=True))
            world.settle()
            text = f"jobset failed due to one or more job failures (first failed job: js-workers-0){reported}"
            assert world.condition("Failed") == ("True", "FailedJobs", text)
        [entry] = world.status.attempt_history
        assert (entry.pod, entry.node, entry.container, entry.exit_code) == ("p", "n", "c1", 3)

    def test_the_container_that_the_policy_names_is_reported(self):
        world = started(rjob("workers", exitCodePolicy={"permanent": [9], "containerName": "c1"}))
        world.fail("js-workers-0")
        world.failed_pods["js-workers-0"] = (pod("p", 143, 3),)
        world.settle()
        assert world.condition("Failed")[2].endswith(": container c1 of pod p on node n ended with exit code 3")

    def test_the_restart_of_one_job_asks_for_pods_only_with_an_exit_code_policy(self):
        policy = rules({"action": "RestartJob"})
        for extra in ({}, {"exitCodePolicy": {}}):
            world = started(rjob("workers", 2, **extra), gates={"RestartJob": True}, failurePolicy=policy)
            world.fail("js-workers-0")
            world.fail("js-workers-1")
            pod_query = plan(world.observe(), world.gates).pod_query
            if not extra:
                assert pod_query is None
                continue
            assert (len(pod_query.jobs), pod_query.needed) == (2, False)
            world.failed_pods["js-workers-1"] = (pod("p", 5, node=""),)
            base = "applying RestartJob failure policy action (first failed job: js-workers-"
            assert [event.note for event in world.step().events] == [
                f"{base}0)",
                f"{base}1): container c0 of pod p ended with exit code 5",
            ]

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

    def test_a_sidecar_that_ends_in_the_same_second_is_not_reported(self):
        def entry(name: str, code: int) -> dict:
            return {"name": name, "state": {"terminated": {"exitCode": code, "finishedAt": at(3)}}}

        status = {"initContainerStatuses": [entry("log", 143)], "containerStatuses": [entry("main", 3)]}
        world = started(rjob("workers", exitCodePolicy={"permanent": [9]}), failurePolicy={"maxRestarts": 9})
        world.fail("js-workers-0")
        world.failed_pods["js-workers-0"] = (
            summary(msgspec.convert({"metadata": {"name": "p"}, "status": status}, Pod)),
        )
        world.settle()
        [attempt] = world.status.attempt_history
        assert (attempt.container, attempt.exit_code) == ("main", 3)

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
