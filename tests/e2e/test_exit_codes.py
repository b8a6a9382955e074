"""What exit codes, budgets and early detection do, with pods that really end so and the real Job controller."""

import re
from typing import Any

import pytest

from tests.support.cluster.jobs import Sets, group, manifest
from tests.support.cluster.requests import MERGE, listed, request, wait_for

JSON = dict[str, Any]


def running(sets: Sets, number: int, selector: str = "") -> list[JSON]:
    """The set's pods, once so many run."""

    def found() -> list[JSON] | None:
        living = [p for p in sets.pods(selector) if p["status"]["phase"] == "Running"]
        return living if len(living) == number else None

    return wait_for(found, what=f"{number} running pods")


def index(pod: JSON) -> str:
    return pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]


def others(sets: Sets, before: dict[str, JSON]) -> list[JSON] | None:
    """As many running pods as before, and none of those."""
    known = {pod["metadata"]["name"] for pod in before.values()}
    found = [p for p in sets.pods() if p["status"]["phase"] == "Running" and p["metadata"]["name"] not in known]
    return found if len(found) == len(before) else None


def of_job(name: str) -> str:
    return f"batch.kubernetes.io/job-name={name}"


def end_one(sets: Sets, job: str, code: int, pods: int = 1) -> JSON:
    """End the first running pod of a Job, and give it when it runs no more."""
    pod = running(sets, pods, of_job(job))[0]
    sets.end(pod, code)
    wait_for(lambda: name(pod) not in map(name, sets.pods(of_job(job))), what=f"the end of {name(pod)}")
    return pod


def name(pod: JSON) -> str:
    return str(pod["metadata"]["name"])


def blamed(pod: JSON, code: int) -> str:
    return f"container main of pod {name(pod)} on node {pod['spec']['nodeName']} ended with exit code {code}"


class TestExitCodePolicy:
    def test_retryable_codes_cost_nothing_and_permanent_ones_fail_the_job_at_once(self, sets):
        """For a Job that allows one retry: the free one does not take it, the permanent code does not wait for it."""
        sets.apply(manifest(group(job={"backoffLimit": 1}, exitCodePolicy={})))
        end_one(sets, "js-workers-0", 137)
        pod = running(sets, 1)[0]
        assert sets.jobs()[0]["status"].get("failed", 0) == 0, "what is retried for free does not count"
        sets.end(pod, 127)
        sets.wait_state("Failed")
        job = sets.jobs()[0]
        assert [c["reason"] for c in job["status"]["conditions"] if c["type"] == "Failed"] == ["PodFailurePolicy"]
        assert job["status"]["failed"] == 1
        reported = f"jobset failed due to one or more job failures (first failed job: js-workers-0): {blamed(pod, 127)}"
        assert sets.condition("Failed")["message"] == reported
        wait_for(lambda: ("Warning", "FailedJobs", reported) in sets.events(), what="the event")
        [attempt] = sets.status()["attemptHistory"]
        assert (attempt["pod"], attempt["node"], attempt["container"], attempt["exitCode"]) == (
            pod["metadata"]["name"],
            pod["spec"]["nodeName"],
            "main",
            127,
        )
        explained = sets.explain()
        assert f"pod {pod['metadata']['name']} on node {pod['spec']['nodeName']}" in explained
        assert re.search(r"container main.* exit code 127", explained)


def rule(name: str, action: str, **more: Any) -> JSON:
    return {"name": name, "action": action, **more}


def codes(*values: int, operator: str = "In") -> JSON:
    return {"onExitCodes": {"operator": operator, "values": list(values)}}


class TestRulesByExitCode:
    RULES = (
        rule("maintenance", "RestartJobSetAndIgnoreMaxRestarts", **codes(143)),
        rule("bug", "FailJobSet", **codes(1, 2), targetReplicatedJobs=["workers"]),
    )

    @pytest.mark.slow
    def test_where_each_index_may_fail_the_one_that_failed_for_good_decides(self, sets):
        """Index 0 fails and is tried again with success, index 1 fails twice, later: the first failed pod is not a cause."""
        rules = [rule("late", "FailJobSet", **codes(7)), rule("early", "RestartJobSet", **codes(5))]
        job = {"backoffLimit": None, "backoffLimitPerIndex": 1}
        sets.apply(manifest(group(pods_per_job=2, job=job), failurePolicy={"maxRestarts": 1, "rules": rules}))
        first = {index(pod): pod for pod in running(sets, 2)}
        sets.end(first["0"], 5)
        sets.end(first["1"], 7)
        again = {index(pod): pod for pod in wait_for(lambda: others(sets, first), what="both once more", timeout=60)}
        sets.end(again["0"], 0)
        sets.end(again["1"], 7)
        sets.wait_state("Failed")
        assert blamed(again["1"], 7) in sets.condition("Failed")["message"]

    def test_a_restart_after_a_disruption_does_not_count_where_a_rule_says_so(self, sets):
        """The recipe of exit-codes.md. The condition has no time, which the API server stores as null."""
        own = {"rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
        free = rule("drained", "RestartJobSetAndIgnoreMaxRestarts", onJobFailureReasons=["PodFailurePolicy"])
        free["onJobFailureMessagePatterns"] = ["has condition DisruptionTarget"]
        sets.apply(manifest(group(job={"podFailurePolicy": own}), failurePolicy={"maxRestarts": 0, "rules": [free]}))
        pod = running(sets, 1)[0]["metadata"]["name"]
        at = "2026-01-01T00:00:05Z"
        ended = {"terminated": {"exitCode": 143, "startedAt": at, "finishedAt": at}}
        main = {"name": "main", "image": "busybox", "imageID": "", "ready": False, "restartCount": 0, "state": ended}
        disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        body = {"status": {"phase": "Failed", "containerStatuses": [main], "conditions": [disrupted]}}
        path = f"/api/v1/namespaces/{sets.namespace}/pods/{pod}/status"
        code, answer = request(sets.cluster, "PATCH", path, body, "application/strategic-merge-patch+json")
        assert code == 200, answer
        wait_for(lambda: sets.status().get("restarts") == 1, what="the free restart")
        sets.wait_ready(1)
        assert sets.status().get("restartsCountTowardsMax", 0) == 0

    def test_each_code_has_its_own_action(self, sets):
        """Maintenance is free, a bug is final, anything else is counted by maxRestarts."""
        sets.apply(manifest(group(replicas=2), failurePolicy={"maxRestarts": 1, "rules": list(self.RULES)}))
        pod = end_one(sets, "js-workers-1", 143)
        wait_for(lambda: sets.status().get("restarts") == 1, what="the free restart")
        assert sets.status().get("restartsCountTowardsMax", 0) == 0
        note = f"first failed job: js-workers-1): {blamed(pod, 143)}"
        noted = wait_for(lambda: [n for _, r, n in sets.events() if r == "FailurePolicy_maintenance"], what="the event")
        assert [n.endswith(note) for n in noted] == [True]
        sets.wait_ready(2)
        end_one(sets, "js-workers-0", 9)
        wait_for(lambda: sets.status().get("restartsCountTowardsMax") == 1, what="the counted restart")
        sets.wait_ready(2)
        pod = end_one(sets, "js-workers-0", 2)
        sets.wait_state("Failed")
        assert sets.condition("Failed")["reason"] == "FailJobSetFailurePolicyAction"
        assert sets.condition("Failed")["message"].endswith(blamed(pod, 2))
        history = [(a["reason"], a["container"], a["exitCode"]) for a in sets.status()["attemptHistory"]]
        assert history == [
            ("FailurePolicy_maintenance", "main", 143),
            ("DefaultFailurePolicy", "main", 9),
            ("FailJobSetFailurePolicyAction", "main", 2),
        ]


GRACE = "kwok.jobset.dev/grace-seconds"


class TestEarlyDetection:
    def doomed(self, sets: Sets, **policy: Any) -> JSON:
        """A Job of two pods, of which one has failed and the other, which is given, takes its time to end."""
        slow = group(pods_per_job=2)
        slow["template"]["spec"]["template"]["metadata"]["annotations"] = {GRACE: "60"}
        sets.apply(manifest(slow, failurePolicy={"maxRestarts": 1, **policy}))
        first, second = running(sets, 2)
        sets.end(first, 1)
        wait_for(lambda: self.first_job_is(sets, "FailureTarget"), what="a Job that is bound to fail")
        return second

    def let_go(self, sets: Sets, pod: JSON) -> None:
        path = f"/api/v1/namespaces/{sets.namespace}/pods/{pod['metadata']['name']}"
        body = {"metadata": {"annotations": {GRACE: None}}}
        status, answer = request(sets.cluster, "PATCH", path, body, MERGE)
        assert status == 200, answer

    def first_job_is(self, sets: Sets, kind: str) -> bool:
        """Whether a Job of the first attempt has this condition."""
        path = f"/apis/batch/v1/namespaces/{sets.namespace}/jobs"
        found = listed(sets.cluster, path, "jobset.sigs.k8s.io/restart-attempt=0")
        conditions = (c for job in found for c in job["status"].get("conditions", []))
        return any(c["type"] == kind and c["status"] == "True" for c in conditions)

    def test_a_doomed_job_is_acted_on_before_its_last_pod_has_gone(self, sets):
        second = self.doomed(sets, failOn="FailureTarget")
        wait_for(lambda: sets.status().get("restarts") == 1, what="the restart")
        assert not self.first_job_is(sets, "Failed")
        self.let_go(sets, second)
        sets.wait_ready(1)
        assert sets.status()["restarts"] == 1, "one failure, one restart"
