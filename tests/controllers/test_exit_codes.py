"""Failure policy rules by exit code: which pod decides, what is asked before, and what is told of it."""

from __future__ import annotations

import msgspec
import pytest

from api import keys
from api.batch import Job
from api.jobset import ReplicatedJob
from api.pod import DetailedPod as Pod
from api.policies import OnExitCodes
from controllers.jobset.controller import JobSetReconciler
from controllers.jobset.evidence import JOBS_AT_ONCE, MOST_PAGES, look_up, summary
from controllers.planning.actions import Question
from controllers.planning.culprit import decisive, matching
from controllers.planning.observed import Ended, FailedPod
from controllers.planning.plan import plan
from kube.client import Client
from kube.errors import KubeError
from kube.store import ChangeKind
from kube.transport import Request as Call
from kube.transport import Response
from tests.support.blind import Blind
from tests.support.lives import counts_of, started
from tests.support.memory_api import MemoryApi
from tests.support.world import World, jobset, rjob

BY_POLICY = "PodFailurePolicy"


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}Z"


def pod(name: str, *codes: int, second: int = 0, node: str = "n", **more) -> FailedPod:
    """A failed pod; its containers are called c0, c1, ... and end one after the other."""
    ends = tuple(Ended(f"c{i}", code, at(second + i)) for i, code in enumerate(codes) if code)
    ended_at = at(second + max(len(codes) - 1, 0)) if codes else at(second)
    return FailedPod(name, node, ends, ended_at, **more)


def failed_job(reason: str = "BackoffLimitExceeded", message: str = "too often") -> Job:
    condition = {"type": "Failed", "status": "True", "reason": reason, "message": message}
    return msgspec.convert({"metadata": {"name": "js-a-0"}, "status": {"conditions": [condition]}}, Job)


def of(**job_spec) -> ReplicatedJob:
    policy = job_spec.pop("policy", None)
    body = {"name": "a", "template": {"spec": job_spec}}
    return msgspec.convert(body | ({"exitCodePolicy": policy} if policy is not None else {}), ReplicatedJob)


def names(found: FailedPod | None) -> str | None:
    return found and found.name


class TestDecisivePod:
    """The one that the Job controller failed the Job for."""

    PODS = (pod("late", 7, second=9), pod("early", 3, second=1), pod("b-mid", 5, second=4), pod("a-mid", 4, second=4))

    @pytest.mark.parametrize(
        ("spec", "name"),
        [
            ({"backoffLimit": 0}, "early"),
            ({"backoffLimit": 1}, "a-mid"),
            ({"backoffLimit": 2}, "b-mid"),
            ({"backoffLimit": 3}, "late"),
            ({"backoffLimit": 9}, "late"),
            ({}, "late"),
            ({"backoffLimitPerIndex": 0, "backoffLimit": 1}, "a-mid"),
        ],
    )
    def test_is_the_one_beyond_the_backoff_limit_in_the_order_of_their_ends(self, spec, name):
        assert names(decisive(failed_job(), of(**spec), self.PODS)) == name

    @pytest.mark.parametrize(
        ("reason", "spec", "name"),
        [
            ("FailedIndexes", {"backoffLimitPerIndex": 1}, "b-again"),
            ("FailedIndexes", {"backoffLimitPerIndex": 0}, "a-retried"),
            ("FailedIndexes", {"backoffLimitPerIndex": 1, "backoffLimit": 9, "maxFailedIndexes": 3}, "b-again"),
            ("MaxFailedIndexesExceeded", {"backoffLimitPerIndex": 1, "maxFailedIndexes": 1}, "d-for-good"),
            ("MaxFailedIndexesExceeded", {"backoffLimitPerIndex": 1, "maxFailedIndexes": 0}, "b-again"),
            ("BackoffLimitExceeded", {"backoffLimitPerIndex": 9, "backoffLimit": 2}, "b-again"),
        ],
    )
    def test_with_a_limit_for_each_index_is_one_by_which_an_index_failed_for_good(self, reason, spec, name):
        """Index a fails once and is tried again with success, b fails twice, d by a rule."""
        fail_index = {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [9]}}
        pods = (
            pod("a-retried", 5, second=1),
            pod("b-first", 7, second=2),
            pod("b-again", 7, second=6, index_failures=1),
            pod("d-for-good", 9, second=8),
        )
        spec = spec | {"podFailurePolicy": {"rules": [fail_index]}}
        assert names(decisive(failed_job(reason), of(**spec), pods)) == name

    def test_conditions_without_a_time_are_read_as_the_api_server_stores_them(self):
        """A gate that somebody patches may lack it; the set must not wait for ever for such a pod to be read."""
        conditions = [
            {"type": kind, "status": "False", "lastTransitionTime": None} for kind in ("Ready", "example.com/gate")
        ]
        stored = {"metadata": {"name": "p"}, "status": {"phase": "Failed", "conditions": conditions}}
        seen = summary(msgspec.json.decode(msgspec.json.encode(stored), type=Pod))
        assert (seen.ended_at, ("example.com/gate", "False") in seen.conditions) == ("", True)

    def test_how_often_its_index_had_failed_is_read_from_the_pod(self):
        meta = {"name": "p", "annotations": {"batch.kubernetes.io/job-index-failure-count": "2"}}
        seen = [summary(msgspec.convert({"metadata": of}, Pod)) for of in (meta, {"name": "p"})]
        assert [pod.index_failures for pod in seen] == [2, 0]

    def test_absent_a_backoff_limit_is_six(self):
        pods = [pod(f"p{i}", 1, second=i) for i in range(9)]
        assert names(decisive(failed_job(), of(), pods)) == "p6"

    def test_is_none_that_the_failed_job_is_deleting(self):
        pods = (pod("victim", 143, deleting=True), pod("cause", 3, second=5))
        assert names(decisive(failed_job(), of(backoffLimit=0), pods)) == "cause"
        assert decisive(failed_job(), of(backoffLimit=0), pods[:1]) is None

    def test_is_none_that_an_ignore_rule_spared(self):
        pods = (pod("spared", 137), pod("cause", 5, second=5))
        assert names(decisive(failed_job(), of(backoffLimit=0, policy={}), pods)) == "cause"
        assert names(decisive(failed_job(), of(backoffLimit=0), pods)) == "spared"

    def test_the_first_rule_that_matches_a_pod_says_whether_it_counts(self):
        count = {"action": "Count", "onExitCodes": {"operator": "In", "values": [137]}}
        disrupted = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
        pods = (
            pod("evicted", 1, conditions=frozenset({("DisruptionTarget", "True")})),
            pod("spared", 143, second=2),
            pod("counted", 137, second=5),
        )
        spec = of(backoffLimit=0, podFailurePolicy={"rules": [disrupted, count]}, policy={"retryable": [137, 143]})
        assert names(decisive(failed_job(), spec, pods)) == "counted"

    @pytest.mark.parametrize("container", ["main", "", "other"])
    def test_an_ignore_rule_for_a_container_spares_only_that(self, container):
        ignore = {"action": "Ignore", "onExitCodes": {"operator": "NotIn", "values": [1]}}
        if container:
            ignore["onExitCodes"]["containerName"] = container
        pods = (FailedPod("p", ends=(Ended("main", 9), Ended("log", 1))),)
        found = decisive(failed_job(), of(podFailurePolicy={"rules": [ignore]}), pods)
        assert names(found) == ("p" if container == "other" else None)

    @pytest.mark.parametrize(
        "message",
        [
            "Container main for pod ns/victim failed with exit code 3 matching FailJob rule at index 0",
            "Pod ns/victim has condition DisruptionTarget matching FailJob rule at index 0",
        ],
    )
    def test_is_the_one_that_the_job_names(self, message):
        pods = (pod("early", 3), pod("victim", 3, second=5, deleting=True))
        assert names(decisive(failed_job(BY_POLICY, message), of(), pods)) == "victim"
        assert decisive(failed_job(BY_POLICY, message), of(), pods[:1]) is None, "no other stands in for it"

    def test_a_job_that_names_none_failed_for_the_first_that_a_fail_job_rule_matches(self):
        pods = (pod("early", 9), pod("second", 3, second=5), pod("third", 3, second=7))
        assert names(decisive(failed_job(BY_POLICY, "in other words"), of(policy={"permanent": [3]}), pods)) == "second"

    def test_of_a_job_that_ran_out_of_time_none_decided(self):
        assert decisive(failed_job("DeadlineExceeded"), of(), self.PODS) is None

    def test_a_pod_that_never_ran_has_its_turn_by_when_it_was_not_ready_any_more(self):
        def seen(name: str, status: dict) -> FailedPod:
            meta = {"name": name, "labels": {keys.JOB_UID: "u"}}
            return summary(msgspec.convert({"metadata": meta, "status": {"phase": "Failed", **status}}, Pod))

        def ran(second: int) -> dict:
            return {
                "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1, "finishedAt": at(second)}}}]
            }

        evicted = {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at(5)}]}
        pods = (seen("a", ran(7)), seen("b", evicted), seen("c", ran(3)))
        assert [names(decisive(failed_job(), of(backoffLimit=limit), pods)) for limit in range(3)] == ["c", "b", "a"]


class TestMatching:
    ENDS = (Ended("init", 2, at(4)), Ended("main", 3, at(2)), Ended("log", 143, at(9)))

    @pytest.mark.parametrize(
        ("on", "container"),
        [
            (("In", (3,), ""), "main"),
            (("In", (2, 143), ""), "init"),
            (("In", (143,), "main"), None),
            (("In", (143,), "log"), "log"),
            (("In", (9,), ""), None),
            (("NotIn", (3,), ""), "init"),
            (("NotIn", (2, 3, 143), ""), None),
            (("NotIn", (3,), "main"), None),
            (("NotIn", (9,), "main"), "main"),
            (("NotIn", (9,), "absent"), None),
        ],
    )
    def test_the_first_container_to_fail_of_those_that_are_meant(self, on, container):
        operator, values, name = on
        found = matching(OnExitCodes(operator=operator, values=values, container_name=name), self.ENDS)
        assert (found and found.container) == container

    def test_nothing_that_failed_is_nothing_that_matches(self):
        assert matching(OnExitCodes(operator="NotIn", values=(3,)), ()) is None


def rules(*rules_: dict) -> dict:
    return {"maxRestarts": 9, "rules": [{"name": f"r{i}", **rule} for i, rule in enumerate(rules_)]}


def on(*values: int, operator: str = "In", **more) -> dict:
    return {"onExitCodes": {"operator": operator, "values": list(values)}, **more}


STOP = on(3, action="FailJobSet")


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

    def test_nor_for_a_job_that_is_gone_and_nobody_is_asked(self):
        world = started(
            rjob("workers"), failurePolicy=rules({**STOP, "onExitCodes": {"operator": "NotIn", "values": [9]}})
        )
        world.fail("js-workers-0")
        world.failed_pods["js-workers-0"] = (pod("p", 3),)
        world.remove("js-workers-0")
        assert plan(world.observe(), world.gates).question is None
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

    def test_any_action_can_be_set_off(self):
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
        assert decided.question == Question(jobs, needed=True)
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
        question = plan(world.observe(), world.gates).question
        assert [name for name, _ in question.jobs] == ["js-a-0", "js-a-3"]

    def test_a_job_that_ran_out_of_time_needs_no_answer(self):
        world = started(rjob("workers"), failurePolicy=rules(STOP))
        world.fail("js-workers-0", reason="DeadlineExceeded")
        assert not plan(world.observe(), world.gates).question.needed, "only for the history"
        world.settle()
        assert world.status.restarts == 1

    def test_a_rule_ahead_that_matches_anything_makes_the_answer_needless(self):
        world = started(rjob("workers"), failurePolicy=rules({"action": "RestartJobSet"}, STOP))
        world.fail("js-workers-0")
        assert not plan(world.observe(), world.gates).question.needed

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

    def test_sets_that_know_nothing_of_exit_codes_ask_as_ever(self):
        world = started(rjob("workers", 2), failurePolicy={"maxRestarts": 1})
        world.fail("js-workers-0")
        world.fail("js-workers-1")
        assert plan(world.observe(), world.gates).question == Question((("js-workers-0", uid(world, "js-workers-0")),))
        world.failed_pods["js-workers-0"] = (pod("p", 3),)
        assert world.step().events[0].note == (
            "applying RestartJobSet failure policy action (first failed job: js-workers-0)"
        )


class TestTelling:
    """Exit code, container, pod and node where they have a say."""

    def test_a_policy_for_the_exit_codes_of_the_job_has_one(self):
        message = "Container c1 for pod ns/p failed with exit code 3 matching FailJob rule at index 1"
        for policy, told in ((None, ""), ({}, ": container c1 of pod p on node n ended with exit code 3")):
            extra = {} if policy is None else {"exitCodePolicy": policy}
            world = started(rjob("workers", **extra))
            world.fail("js-workers-0", reason=BY_POLICY, message=message)
            world.failed_pods["js-workers-0"] = (pod("p", 9, 3), pod("a", 1, second=0, deleting=True))
            world.settle()
            text = f"jobset failed due to one or more job failures (first failed job: js-workers-0){told}"
            assert world.condition("Failed") == ("True", "FailedJobs", text)
        [entry] = world.status.attempt_history
        assert (entry.pod, entry.node, entry.container, entry.exit_code) == ("p", "n", "c1", 3)

    def test_the_container_that_the_policy_names_is_told_of(self):
        world = started(rjob("workers", exitCodePolicy={"permanent": [9], "containerName": "c1"}))
        world.fail("js-workers-0")
        world.failed_pods["js-workers-0"] = (pod("p", 143, 3),)
        world.settle()
        assert world.condition("Failed")[2].endswith(": container c1 of pod p on node n ended with exit code 3")

    def test_the_restart_of_one_job_asks_only_where_exit_codes_have_a_say(self):
        policy = rules({"action": "RestartJob"})
        for extra in ({}, {"exitCodePolicy": {}}):
            world = started(rjob("workers", 2, **extra), gates={"RestartJob": True}, failurePolicy=policy)
            world.fail("js-workers-0")
            world.fail("js-workers-1")
            question = plan(world.observe(), world.gates).question
            if not extra:
                assert question is None
                continue
            assert (len(question.jobs), question.needed) == (2, False)
            world.failed_pods["js-workers-1"] = (pod("p", 5, node=""),)
            base = "applying RestartJob failure policy action (first failed job: js-workers-"
            assert [event.note for event in world.step().events] == [
                f"{base}0)",
                f"{base}1): container c0 of pod p ended with exit code 5",
            ]

    def test_of_a_pod_that_is_gone_the_job_itself_tells(self):
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

    def test_of_a_sidecar_that_ends_in_the_same_second_as_the_program_nothing_is_told(self):
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

    def test_of_a_pod_without_a_container_that_failed_only_the_history_tells(self):
        world = started(rjob("workers", exitCodePolicy={}))
        world.fail("js-workers-0")
        world.failed_pods["js-workers-0"] = (FailedPod("evicted", "n9"),)
        world.settle()
        assert world.condition("Failed")[2].endswith("(first failed job: js-workers-0)")
        [entry] = world.status.attempt_history
        assert (entry.pod, entry.node, entry.exit_code) == ("evicted", "n9", None)

    def test_if_no_pod_decided_the_history_tells_of_one_that_was_ended(self):
        world = started(rjob("workers", exitCodePolicy={}), failurePolicy=rules(STOP))
        world.fail("js-workers-0", reason="DeadlineExceeded")
        world.failed_pods["js-workers-0"] = (pod("own", 3), pod("ended", 143, second=8, deleting=True))
        world.settle()
        [entry] = world.status.attempt_history
        assert (entry.pod, entry.exit_code) == ("ended", 143)
        assert world.condition("RestartingJobSet")[2].endswith("(first failed job: js-workers-0)")


class Pods(MemoryApi):
    """Answers lists of pods by the selector's UIDs; `broken`: refuses them with that code."""

    broken = 0

    async def send(self, request: Call) -> Response:
        if self.broken and request.path.endswith("/pods"):
            self.requests.append(request)
            return Response(self.broken, {}, msgspec.json.encode({"kind": "Status", "code": self.broken}))
        return await super().send(request)

    def asked(self) -> list[dict[str, str]]:
        return [dict(call.query) for call in self.requests if call.path.endswith("/pods")]

    def add(self, name: str, job_uid: str, code: int) -> None:
        state = {"terminated": {"exitCode": code, "finishedAt": at(1)}}
        self.put(
            "pods",
            name,
            metadata={"labels": {keys.JOB_UID: job_uid}},
            spec={"nodeName": "n1"},
            status={"phase": "Failed", "containerStatuses": [{"name": "main", "state": state}]},
        )


class TestLookingUp:
    def question(self, number: int, *, needed: bool = True) -> Question:
        return Question(tuple((f"j{i}", f"u{i}") for i in range(number)), needed=needed)

    async def test_one_attempt_costs_the_one_small_list_that_it_always_did(self):
        api = Pods()
        api.add("p", "u0", 3)
        found = await look_up(Client(api), "ns", self.question(1, needed=False))
        assert found == {"u0": (FailedPod("p", "n1", (Ended("main", 3, at(1)),), at(1)),)}
        [query] = api.asked()
        assert query == {"labelSelector": f"{keys.JOB_UID}=u0", "fieldSelector": "status.phase=Failed", "limit": "100"}

    async def test_several_jobs_share_a_call_and_each_has_its_pods(self):
        api = Pods()
        api.add("p1", "u1", 1)
        api.add("q1", "u1", 2)
        api.add("p0", "u0", 3)
        api.add("stranger", "u77", 4)
        found = await look_up(Client(api), "ns", self.question(3))
        assert {u: [p.name for p in pods] for u, pods in found.items()} == {"u0": ["p0"], "u1": ["p1", "q1"], "u2": []}
        [query] = api.asked()
        assert query["labelSelector"] == f"{keys.JOB_UID} in (u0,u1,u2)"

    async def test_many_jobs_take_several_calls_but_one_is_enough_for_the_history(self):
        for needed, calls in ((True, 3), (False, 1)):
            api = Pods()
            found = await look_up(Client(api), "ns", self.question(2 * JOBS_AT_ONCE + 1, needed=needed))
            assert len(found) == 2 * JOBS_AT_ONCE + 1
            assert len(api.asked()) == calls

    async def test_pages_are_followed_and_bounded(self, monkeypatch):
        monkeypatch.setattr("controllers.jobset.evidence.PAGE", 2)
        api = Pods()
        for number in range(5):
            api.add(f"p{number}", "u0", 3)
        found = await look_up(Client(api), "ns", self.question(1))
        assert len(found["u0"]) == 5
        assert len(api.asked()) == 3
        for number in range(5, 3 * MOST_PAGES):
            api.add(f"p{number}", "u0", 3)
        found = await look_up(Client(api), "ns", self.question(1))
        assert len(found["u0"]) == 2 * MOST_PAGES

    async def test_an_error_is_an_error_where_the_answer_is_needed_and_only_there(self):
        api = Pods()
        api.broken = 500
        assert await look_up(Client(api), "ns", self.question(1, needed=False)) == {"u0": ()}
        with pytest.raises(KubeError):
            await look_up(Client(api), "ns", self.question(1))

    async def test_a_pod_that_cannot_be_read_holds_up_what_needs_it_and_nothing_else(self):
        api = Pods()
        api.put(
            "pods", "p", metadata={"labels": {keys.JOB_UID: "u0"}}, status={"phase": "Failed", "containerStatuses": 7}
        )
        assert await look_up(Client(api), "ns", self.question(1, needed=False)) == {"u0": ()}
        with pytest.raises(msgspec.ValidationError):
            await look_up(Client(api), "ns", self.question(1))


class TestReconciling:
    """The reconciler and its questions."""

    ENDED = {
        "conditions": [
            {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": at(2)}
        ]
    }

    async def test_an_outage_delays_the_decision_and_does_not_change_it(self):
        api = Pods()
        blind = Blind(api, jobset(rjob("workers", 2), failurePolicy=rules(STOP)))
        await blind.reconcile()
        blind.change_job("js-workers-1", status=self.ENDED)
        api.add("p", blind.jobs.get("ns", "js-workers-1").metadata.uid, 3)
        api.broken = 503
        before = blind.writes()
        for _ in range(2):
            with pytest.raises(KubeError):
                await blind.reconcile()
        assert blind.writes() == before, "nothing is decided"
        api.broken = 0
        await blind.reconcile()
        status = api.objects("jobsets")["ns", "js"]["status"]
        assert status["terminalState"] == "Failed"
        assert status["attemptHistory"][0]["pod"] == "p"

    async def test_each_job_is_asked_about_once(self, monkeypatch):
        rounds = []
        answer = JobSetReconciler._answer

        async def counting(self, observed, question):
            rounds.append([name for name, _ in question.jobs])
            return await answer(self, observed, question)

        monkeypatch.setattr(JobSetReconciler, "_answer", counting)
        only_b = {"action": "FailJobSet", "targetReplicatedJobs": ["b"]}
        blind = Blind(
            Pods(), jobset(rjob("a"), rjob("b"), failurePolicy=rules({**STOP, "targetReplicatedJobs": ["a"]}, only_b))
        )
        await blind.reconcile()
        for name in ("js-a-0", "js-b-0"):
            blind.change_job(name, status=self.ENDED)
        await blind.reconcile()
        assert rounds == [["js-a-0"], ["js-b-0"]]


class TestFailureTarget:
    """failOn: a doomed Job counts at once, or not before it is over."""

    def world(self, fail_on: str | None, **policy) -> World:
        extra = {} if fail_on is None else {"failOn": fail_on}
        return started(
            rjob("workers", 2), gates={"RestartJob": True}, failurePolicy={"maxRestarts": 1, **extra, **policy}
        )

    @pytest.mark.parametrize("fail_on", [None, "", "JobFailed"])
    def test_unless_asked_for_the_last_pod_is_waited_for(self, fail_on):
        world = self.world(fail_on)
        world.doom("js-workers-0")
        assert world.step().actions == ()
        assert world.counts()["active"] == 2
        assert world.status.restarts == 0
        world.fail("js-workers-0")
        world.settle()
        assert world.status.restarts == 1

    def test_reason_message_and_time_are_those_of_the_target(self):
        rules_ = [
            {
                "name": "x",
                "action": "FailJobSet",
                "onJobFailureReasons": [BY_POLICY],
                "onJobFailureMessagePatterns": ["bad"],
            }
        ]
        world = self.world("FailureTarget", rules=rules_)
        world.seconds = 5
        world.doom("js-workers-1", reason=BY_POLICY, message="it is bad")
        world.doom("js-workers-0", reason="Other")
        world.settle()
        assert world.condition("Failed")[2].endswith("(first failed job: js-workers-1)")
        assert world.status.attempt_history[0].message == "PodFailurePolicy: it is bad"

    def test_the_earliest_failure_decides_by_the_time_of_its_target(self):
        world = self.world("FailureTarget")
        world.seconds = 3
        world.doom("js-workers-1")
        world.seconds = 4
        world.fail("js-workers-0")
        world.settle()
        assert world.status.attempt_history[0].failed_job == "js-workers-1"

    def test_the_doomed_job_is_deleted_for_the_restart_though_its_pods_still_end(self):
        world = self.world("FailureTarget")
        world.doom("js-workers-0")
        world.settle()
        assert world.status.restarts == 1
        assert world.live() == []
        world.collect()
        world.settle()
        assert world.live() == ["js-workers-0", "js-workers-1"]

    def test_at_the_end_it_ends_by_itself_and_what_runs_is_deleted(self):
        world = self.world("FailureTarget", maxRestarts=0)
        world.doom("js-workers-0")
        world.settle()
        assert world.status.terminal_state == "Failed"
        assert world.live() == ["js-workers-0"]
        world.fail("js-workers-0")
        world.settle()
        assert world.live() == ["js-workers-0"]

    def test_it_may_be_restarted_alone(self):
        world = self.world("FailureTarget", rules=[{"name": "one", "action": "RestartJob"}])
        world.doom("js-workers-0")
        world.settle()
        assert counts_of(world).job_restarts == (1, 0)
        assert world.live() == ["js-workers-1"]

    @pytest.mark.parametrize(("fail_on", "restarts"), [("FailureTarget", 1), ("JobFailed", 0)])
    async def test_one_that_is_deleted_before_the_decision_is_remembered_where_it_counts(self, fail_on, restarts):
        blind = Blind(MemoryApi(), jobset(rjob("workers"), failurePolicy={"maxRestarts": 3, "failOn": fail_on}))
        await blind.reconcile()
        doomed = {"conditions": [{**TestReconciling.ENDED["conditions"][0], "type": "FailureTarget"}]}
        blind.change_job("js-workers-0", status=doomed)
        job = blind.jobs.get("ns", "js-workers-0")
        blind.reconciler._job_changed(ChangeKind.DELETED, job, None)
        blind.jobs.overlay_deleted("ns", "js-workers-0", job.metadata.uid)
        blind.api.drop("jobs", "js-workers-0")
        await blind.reconcile()
        status = blind.api.objects("jobsets")["ns", "js"]["status"]
        assert status["restarts"] == restarts
        await blind.reconcile()
        assert blind.jobs.get("ns", "js-workers-0") is not None, "it runs again in either case"
