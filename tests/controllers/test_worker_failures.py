"""Workers that fail while their agent goes on (docs/reference/in-place-restart.md#the-worker-fails)."""

import pytest

from api.pod import LONGEST_REPORT, with_short_reports
from api.termination import end_of_message
from controllers.jobset.last_ends import LastEnds
from controllers.planning.observed import Ended
from tests.controllers.test_in_place import pod
from tests.support.model.lives import started
from tests.support.objects.stored_sets import rjob

CODES = {"operator": "In", "values": [42]}


def attempts(world):
    return (world.status.previous_in_place_restart_attempt, world.status.current_in_place_restart_attempt)


class TestContainersThatStartAgain:
    """Agents that say nothing: the history has what the kubelet said a moment before."""

    def seen(self, *containers, restarts=0):
        statuses = [
            {"name": name, "restartCount": restarts, "state": {"terminated": {"exitCode": code, "reason": reason}}}
            for name, code, reason in containers
        ]
        return pod(1, owner="js-workers-0-uid", containerStatuses=statuses)

    def test_the_first_that_failed_by_itself(self):
        ends = LastEnds()
        ends.on_event(None, None, self.seen(("log", 0, "Completed"), ("train", 7, "Error")))
        removed = self.seen(
            ("log", 137, "RestartingAllContainers"), ("train", 137, "RestartingAllContainers"), restarts=1
        )
        ends.on_event(None, None, removed)
        assert list(ends.ends_of([removed]).values()) == [Ended("train", 7)]
        later = self.seen(("train", 137, "RestartingAllContainers"), restarts=2)
        assert ends.ends_of([later]) == {}, "it has failed since, and how is not known"

    def test_nothing_is_kept_of_a_pod_that_is_gone(self):
        ends, one = LastEnds(), self.seen(("train", 7, "Error"))
        ends.on_event(None, None, one)
        assert ends.ends_of([one])
        ends.on_event(None, one, None)
        assert not ends.ends_of([one])

    def test_a_restart_in_place_names_it_and_no_rule_decides_about_it(self):
        stop = {"name": "stop", "action": "FailJobSet", "onExitCodes": {"operator": "In", "values": [7]}}
        world = TestReports().running(stop)
        world.last_ends = {"pod-1-uid": Ended("train", 7)}
        TestReports().report(world, (0, None), (1, None), (0, None))
        assert (attempts(world)[0], world.status.terminal_state) == (0, "")
        [entry] = world.status.attempt_history
        assert (entry.reason, entry.pod, entry.container, entry.exit_code) == ("InPlaceRestart", "pod-1", "train", 7)

    def test_one_that_has_restarted_too_often_is_named_before_its_agent_says_anything(self):
        world = TestReports().running(max_restarts=0)
        world.last_ends = {"pod-0-uid": Ended("train", 7), "pod-1-uid": Ended("train", 8)}
        uid, again = world.jobs["js-workers-0"]["metadata"]["uid"], [{"name": "train", "restartCount": 1}]
        others = [pod(0, owner=uid, name=name) for name in ("pod-0", "pod-2")]
        world.pods = [*others, pod(0, owner=uid, name="pod-1", containerStatuses=again)]
        world.settle()
        [entry] = world.status.attempt_history
        assert (entry.reason, entry.pod, entry.exit_code) == ("ReachedMaxRestarts", "pod-1", 8)


class TestReports:
    """The report on the pod stands for the end of its container: rules by exit code, the history, the budgets."""

    def running(self, *rules, pods=3, max_restarts=3, avoidNodes=None, **gates):  # noqa: N803 - a field of the API
        """A set of one Job whose pods run attempt 0."""
        agent = {"image": "agent", "mode": "MainContainer"}
        policy = {"maxRestarts": max_restarts, "restartStrategy": "InPlaceRestart", "agent": agent, "rules": rules}
        policy |= {"avoidNodes": avoidNodes} if avoidNodes is not None else {}
        template = {"containers": [{"name": "train", "image": "train", "command": ["train"]}]}
        workers = rjob("workers", parallelism=pods, completions=pods, pod=template)
        world = started(workers, failurePolicy=policy, gates={"InPlaceRestart": True, **gates})
        self.report(world, *[(0, None)] * pods)
        assert world.status.current_in_place_restart_attempt == 0
        return world

    def report(self, world, *reports, **fields):
        """Each pod its attempt, and how its worker failed."""
        uid = world.jobs["js-workers-0"]["metadata"]["uid"]
        world.pods = [
            pod(attempt, owner=uid, name=f"pod-{i}", failure=failure, **fields)
            for i, (attempt, failure) in enumerate(reports)
        ]
        world.settle()

    def test_if_all_fail_at_once_it_is_said_once_too(self):
        world = self.running(pods=1)
        for attempt in (1, 2):
            self.report(world, (attempt, "7 Error"))
            world.settle()
            assert attempts(world)[1] == attempt
            assert len(world.status.attempt_history) == attempt

    def test_a_rule_by_exit_code_decides_in_place_of_the_restart(self):
        stop = {"name": "stop", "action": "FailJobSet", "onExitCodes": {"operator": "In", "values": [3]}}
        whatever = {"name": "whatever", "action": "RestartJobSet"}
        of_jobs = {**stop, "name": "jobs", "onJobFailureReasons": ["PodFailurePolicy"]}
        others = {**stop, "name": "others", "targetReplicatedJobs": ["others"]}
        world = self.running(whatever, of_jobs, others, stop)
        self.report(world, (0, None), (1, "4 Error"), (0, None))
        assert (attempts(world)[0], world.status.terminal_state) == (0, ""), "no rule is about it"
        self.report(world, (0, None), (1, "4 Error"), (1, "3 Error"))
        assert world.status.terminal_state == "Failed"
        [failed] = [c for c in world.status.conditions if c.type == "Failed"]
        assert failed.reason == "FailJobSetFailurePolicyAction"
        assert failed.message.endswith("container train of pod pod-2 on node node-1 ended with exit code 3")
        assert world.status.attempt_history[-1].exit_code == 3

    def test_a_rule_may_recreate_the_job(self):
        one = {"name": "one", "action": "RestartJob", "maxRestarts": 1}
        world = self.running({**one, "onExitCodes": {"operator": "NotIn", "values": [1]}}, RestartJob=True)
        self.report(world, (0, None), (1, "42 Error"), (0, None))
        [entry] = world.status.replicated_jobs_status
        assert entry.job_restarts == (1,)
        assert attempts(world)[0] is None, "its pods begin the next attempt"

    @pytest.mark.parametrize("code", [42, 1])
    @pytest.mark.parametrize("container_starts_again", [False, True])
    def test_its_node_fails_the_set_by_an_exit_code(self, code, container_starts_again):
        world = self.running(avoidNodes={"onExitCodes": CODES}, JobSetAvoidNodes=True)
        report = None if container_starts_again else f"{code} Error"
        world.last_ends = {"pod-1-uid": Ended("train", code)} if container_starts_again else {}
        for attempt in (1, 2):
            world.seconds += 1
            for others in (attempt - 1, attempt):
                self.report(world, (others, None), (attempt, report), (others, None))
        assert attempts(world)[1] == 2
        counted = [(node.name, node.failures, node.reason) for node in world.status.failed_nodes]
        assert counted == [("node-1", 2, f"container train of pod pod-1 ended with exit code {code}")] * (code == 42)

    def test_so_does_that_of_a_worker_about_which_a_rule_decides(self):
        rule = {"name": "all", "action": "RestartJobSet", "onExitCodes": CODES}
        world = self.running(rule, avoidNodes={"onExitCodes": CODES}, JobSetAvoidNodes=True)
        self.report(world, (0, None), (1, "42 Error"), (0, None))
        assert (world.status.restarts, [node.name for node in world.status.failed_nodes]) == (1, ["node-1"])

    @pytest.mark.parametrize(
        "said",
        ["", "0 Error", "1000 Error", "-3 Error", "3", "three Error", "3 " + "E" * 33, "3 \x1b[31m", "x" * 2**18],
    )
    def test_what_is_no_report_is_no_failure(self, said):
        stop = {"name": "stop", "action": "FailJobSet", "onExitCodes": {"operator": "NotIn", "values": [250]}}
        world = self.running(stop)
        self.report(world, (0, None), (1, said), (0, None))
        assert (attempts(world)[0], world.status.terminal_state, world.status.attempt_history) == (0, "", ())

    def test_the_history_keeps_the_last_lines_without_control_characters(self):
        world = self.running(pods=1)
        self.report(world, (1, "7 Error\nTraceback:\n\tx\x1b[31m\x00\nRuntimeError: boom\n"))
        assert world.status.attempt_history[0].termination_message == "Traceback:\n x[31m\nRuntimeError: boom"

    @pytest.mark.parametrize(
        ("reports", "fields"),
        [
            pytest.param([(1, "7 Error")], {"deleting": True}, id="of a pod in deletion"),
            pytest.param([(1, "7 Error")], {"phase": "Failed"}, id="of a pod that has failed"),
            pytest.param([(0, None), (0, "7 Error"), (0, None)], {}, id="of an attempt that runs or is over"),
        ],
    )
    def test_reports_that_say_nothing(self, reports, fields):
        world = self.running({"name": "stop", "action": "FailJobSet", "onExitCodes": {"operator": "In", "values": [7]}})
        self.report(world, *reports, **fields)
        assert (world.status.terminal_state, world.status.attempt_history) == ("", ())


def test_no_more_of_an_annotation_is_kept_than_is_read():
    long = with_short_reports(pod("1" * 2**18, failure="x" * 2**18)).metadata.annotations
    assert len(long.in_place_restart_attempt) == len(long.in_place_restart_failure) == LONGEST_REPORT
    short = pod(1, failure="7 Error")
    assert with_short_reports(short) is short


@pytest.mark.parametrize("message", ["é" * 2000, "x" * 4096, "\x00" * 4096, "\ud800"])
def test_of_a_termination_message_the_end_is_kept(message):
    kept = end_of_message(message)
    assert len(kept.encode()) <= 1024
    assert kept.isprintable()
    assert kept in message
