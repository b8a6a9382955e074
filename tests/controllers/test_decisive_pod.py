"""Which failed pod decides about a failed Job, and which of its containers a rule matches."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api import keys
from api.batch import Job
from api.jobset import ReplicatedJob
from api.pod import DetailedPod as Pod
from api.policies import OnExitCodes
from controllers.jobset.failed_pods import failed_pod
from controllers.planning.decisive_pod import (
    MAX_COUNTED,
    candidates,
    decisive_pod,
    first_failed_container,
    first_matching_end,
    may_have_missed_pods,
    without_victims,
)
from controllers.planning.observed import Ended, FailedPod
from tests.support.explain.stuck_kubelet import SITUATIONS, status_of
from tests.support.objects.exit_codes import BY_POLICY, at, pod

FAILED = [{**given, "status": status} for given in SITUATIONS if (status := status_of(given))["phase"] == "Failed"]


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
        assert names(decisive_pod(failed_job(), of(**spec), self.PODS)) == name

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
        assert names(decisive_pod(failed_job(reason), of(**spec), pods)) == name

    def test_conditions_without_a_time_are_read_as_the_api_server_stores_them(self):
        """A gate that somebody patches may lack it; the set must not wait for ever for such a pod to be read."""
        conditions = [
            {"type": kind, "status": "False", "lastTransitionTime": None} for kind in ("Ready", "example.com/gate")
        ]
        stored = {"metadata": {"name": "p"}, "status": {"phase": "Failed", "conditions": conditions}}
        seen = failed_pod(msgspec.json.decode(msgspec.json.encode(stored), type=Pod))
        assert (seen.ended_at, ("example.com/gate", "False") in seen.conditions) == ("", True)

    def test_absent_a_backoff_limit_is_six(self):
        pods = [pod(f"p{i}", 1, second=i) for i in range(9)]
        assert names(decisive_pod(failed_job(), of(), pods)) == "p6"

    def test_the_first_rule_that_matches_a_pod_says_whether_it_counts(self):
        count = {"action": "Count", "onExitCodes": {"operator": "In", "values": [137]}}
        disrupted = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
        pods = (
            pod("evicted", 1, conditions=frozenset({("DisruptionTarget", "True")})),
            pod("spared", 143, second=2),
            pod("counted", 137, second=5),
        )
        spec = of(backoffLimit=0, podFailurePolicy={"rules": [disrupted, count]}, policy={"retryable": [137, 143]})
        assert names(decisive_pod(failed_job(), spec, pods)) == "counted"

    @pytest.mark.parametrize("container", ["main", "", "other"])
    def test_an_ignore_rule_for_a_container_ignores_only_that(self, container):
        ignore = {"action": "Ignore", "onExitCodes": {"operator": "NotIn", "values": [1]}}
        if container:
            ignore["onExitCodes"]["containerName"] = container
        pods = (FailedPod("p", ends=(Ended("main", 9), Ended("log", 1))),)
        found = decisive_pod(failed_job(), of(podFailurePolicy={"rules": [ignore]}), pods)
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
        assert names(decisive_pod(failed_job(BY_POLICY, message), of(), pods)) == "victim"
        assert decisive_pod(failed_job(BY_POLICY, message), of(), pods[:1]) is None, "no other stands in for it"

    def test_a_job_that_names_none_failed_for_the_first_that_a_fail_job_rule_matches(self):
        pods = (pod("early", 9), pod("second", 3, second=5), pod("third", 3, second=7))
        assert (
            names(decisive_pod(failed_job(BY_POLICY, "in other words"), of(policy={"permanent": [3]}), pods))
            == "second"
        )

    def test_of_a_job_that_ran_out_of_time_none_decided(self):
        assert decisive_pod(failed_job("DeadlineExceeded"), of(), self.PODS) is None

    def test_a_pod_that_never_ran_has_its_turn_by_when_it_was_not_ready_any_more(self):
        def seen(name: str, status: dict) -> FailedPod:
            meta = {"name": name, "labels": {keys.JOB_UID: "u"}}
            return failed_pod(msgspec.convert({"metadata": meta, "status": {"phase": "Failed", **status}}, Pod))

        def ran(second: int) -> dict:
            return {
                "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1, "finishedAt": at(second)}}}]
            }

        evicted = {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at(5)}]}
        pods = (seen("a", ran(7)), seen("b", evicted), seen("c", ran(3)))
        assert [names(decisive_pod(failed_job(), of(backoffLimit=limit), pods)) for limit in range(3)] == [
            "c",
            "b",
            "a",
        ]


FAILED_PODS = st.lists(
    st.builds(
        pod,
        st.uuids().map(str),
        st.sampled_from([0, 1, 3, 9]),
        st.sampled_from([0, 1, 3, 9]),
        second=st.integers(0, 9),
        deleting=st.booleans(),
        index_failures=st.integers(0, 2),
    ),
    max_size=12,
)
REASONS = ["BackoffLimitExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", BY_POLICY, "DeadlineExceeded"]


class TestVictims:
    """Pods that the Job controller deletes once a Job has failed are not blamed for that."""

    DECIDED = "2026-01-01T00:00:30Z"

    def doomed(self) -> Job:
        job = msgspec.to_builtins(failed_job())
        when = {"status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": self.DECIDED}
        job["status"]["conditions"] = [*job["status"]["conditions"], {"type": "FailureTarget", **when}]
        return msgspec.convert(job, Job)

    def pod(self, name: str, code: int, ended: int, asked: int | None = None, reason: str = "Error") -> FailedPod:
        end = {"exitCode": code, "reason": reason, "finishedAt": f"2026-01-01T00:00:{ended:02}Z"}
        meta: dict = {"name": name}
        if asked is not None:
            meta |= {"deletionTimestamp": f"2026-01-01T00:01:{asked:02}Z", "deletionGracePeriodSeconds": 60}
        status = {"containerStatuses": [{"name": "main", "state": {"terminated": end}}]}
        return failed_pod(msgspec.convert({"metadata": meta, "status": status}, Pod))

    @pytest.mark.parametrize(
        ("name", "pods"),
        [
            ("", [("sibling", 137, 59, 30)]),
            ("", [("sibling", 143, 30, 30)]),
            ("", [("sibling", 0, 31, 30), ("other", 1, 45, 31)]),
            ("first", [("first", 1, 29), ("sibling", 137, 31, 30)]),
            ("deleted", [("deleted", 137, 58, 28), ("sibling", 137, 59, 30)]),
            ("killed", [("killed", 137, 30, 30, "OOMKilled"), ("sibling", 143, 30, 30)]),
        ],
    )
    def test_a_pod_that_was_killed_after_the_decision_is_not_blamed(self, name: str, pods: list[tuple]):
        found = without_victims(self.doomed(), [self.pod(*given) for given in pods])
        assert first_failed_container(found).pod == name

    def test_pages_do_not_change_who_is_blamed(self):
        pods = [self.pod("a-sibling", 143, 30, 30), self.pod("first", 1, 30)]
        kept = candidates(self.doomed(), of(backoffLimit=0), pods)
        assert first_failed_container(without_victims(self.doomed(), kept)).pod == "first"


class TestInTheWordsOfTheKubelet:
    """What the history says of the pod beside its exit code."""

    @pytest.mark.parametrize("situation", FAILED, ids=[situation["title"] for situation in FAILED])
    def test_the_pod_is_named_with_what_its_kubelet_says(self, situation: dict):
        found = first_failed_container(
            [failed_pod(msgspec.convert({"metadata": {"name": "p"}, "status": situation["status"]}, Pod))]
        )
        assert found.pod == "p"
        words = [*found.kubelet_reason.removesuffix("...").split(": ", 1), *found.message.splitlines()[-1:]]
        assert words[-1].strip()[:150] in situation["says"]
        assert any(words) or situation["says"].endswith("exit code 1"), "it says more than the exit code"

    def test_control_characters_and_length(self):
        status = {"phase": "Failed", "reason": "Evicted", "message": "\x1b[31mno\n\tdisk " + "x" * 9999}
        why = first_failed_container(
            [failed_pod(msgspec.convert({"metadata": {"name": "p"}, "status": status}, Pod))]
        ).kubelet_reason
        assert why.startswith("Evicted: [31mno disk xxx")
        assert len(why) <= 200


class TestReadingInParts:
    """Nothing depends on the pods that are not kept."""

    @given(
        parts=st.lists(FAILED_PODS, max_size=4),
        reason=st.sampled_from(REASONS),
        limit=st.integers(0, 5),
        per_index=st.sampled_from([None, 0, 1]),
    )
    def test_candidates_lead_to_the_same_decision_as_all_pods(self, parts, reason, limit, per_index):
        spec = {"backoffLimit": limit, "backoffLimitPerIndex": per_index, "maxFailedIndexes": limit // 2}
        job, rjob = failed_job(reason), of(**spec, policy={"permanent": [9], "retryable": [3]})
        kept: tuple[FailedPod, ...] = ()
        for part in parts:
            kept = candidates(job, rjob, (*kept, *part))
            assert len(kept) <= limit + 3
        pods = [pod for part in parts for pod in part]
        assert decisive_pod(job, rjob, kept) == decisive_pod(job, rjob, pods)
        assert first_failed_container(kept) == first_failed_container(pods)
        ending = [[pod for pod in some if pod.deleting] for some in (kept, pods)]
        assert first_failed_container(ending[0]) == first_failed_container(ending[1])

    @pytest.mark.parametrize(
        ("limit", "more", "beyond"),
        [(6, 1, False), (MAX_COUNTED - 1, 1, False), (MAX_COUNTED, -1, False), (MAX_COUNTED, 1, True)],
    )
    def test_no_more_failed_pods_are_kept_than_are_counted(self, limit, more, beyond):
        pods = [FailedPod(f"p{number:05}", ended_at=at(1)) for number in range(MAX_COUNTED + more)]
        job, rjob = failed_job(), of(backoffLimit=limit)
        kept = candidates(job, rjob, pods)
        assert len(kept) == min(limit + 1, MAX_COUNTED, len(pods))
        assert names(decisive_pod(job, rjob, kept)) == f"p{len(kept) - 1:05}"
        assert may_have_missed_pods(job, rjob, kept) is beyond


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
        found = first_matching_end(OnExitCodes(operator=operator, values=values, container_name=name), self.ENDS)
        assert (found and found.container) == container

    def test_without_a_failed_container_nothing_matches(self):
        assert first_matching_end(OnExitCodes(operator="NotIn", values=(3,)), ()) is None
