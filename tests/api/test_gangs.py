"""How many pods a group counts, and the disruption mode, claims and priority class that it gets."""

import pytest

from api.batch import pods_at_once
from api.gangs import forest
from kube.model.jsontree import without_nulls
from tests.support.objects.gang_trees import ALL, GANG, SINGLE, a_set, at_least, entry, picture, workers
from tests.support.objects.stored_sets import rjob


class TestCounts:
    @pytest.mark.parametrize(
        ("size", "pods"),
        [
            ({"parallelism": 4, "completions": 4}, 4),
            ({"parallelism": 4, "completions": 2}, 2),
            ({"parallelism": 2, "completions": 9}, 2),
            ({"parallelism": 3}, 3),
            ({}, 1),
        ],
    )
    def test_pods_that_a_job_has_at_once(self, size, pods):
        js = a_set(rjob("a", 2, **size), scheduling={})
        assert pods_at_once(js.spec.replicated_jobs[0]) == pods
        assert picture(js) == [f"PG jobset gang {2 * pods}: a-0 a-1"]

    def test_a_number_of_the_user(self):
        job = {"schedulingPolicy": {"gang": {"minCount": 1}}}
        scheduling = {"replicatedJobs": [entry("workers", schedulingPolicy=at_least(1), job=job)]}
        js = a_set(workers(), scheduling=scheduling)
        assert picture(js)[:2] == ["CPG rj-workers gang 1", "  PG job-workers gang 1: workers-0"]

    def test_nothing_is_made_for_no_pods(self):
        entries = [entry("none", job={}, disruptionMode=ALL), entry("zero"), entry("workers")]
        js = a_set(
            workers("none", 0),
            rjob("zero", 2, parallelism=0),
            workers(),
            scheduling={"schedulingPolicy": GANG, "replicatedJobs": entries},
        )
        assert picture(js) == ["CPG jobset gang 1", "  PG rj-workers gang 4: workers-0 workers-1"]

    def test_a_set_of_no_pods_has_no_tree(self):
        found = forest(a_set(workers(jobs=0), scheduling={"replicatedJobs": [entry("workers", job={})]}))
        assert found is not None
        assert found.roots == ()


class TestModes:
    def test_single_is_not_inherited(self):
        scheduling = {"replicatedJobs": [entry("workers", disruptionMode=SINGLE, job={})]}
        assert picture(a_set(workers(jobs=1), scheduling=scheduling)) == [
            "CPG rj-workers gang 1 single",
            "  PG job-workers gang 2: workers-0",
        ]


def test_claims_go_to_the_pod_groups_that_ask_for_them():
    claims = [{"name": "gpus", "resourceClaimTemplateName": "t"}]
    entries = [entry("a", resourceClaims=claims), entry("b", disruptionMode=ALL, job={"resourceClaims": claims})]
    groups = [*forest(a_set(workers("a"), workers("b"), scheduling={"replicatedJobs": entries})).groups()]
    having = {group.template for group in groups if group.claims}
    assert having == {"rj-a", "job-b"}


def test_the_class_of_the_pods_is_that_of_the_groups():
    js = a_set(workers(pod={"priorityClassName": "training"}), scheduling={})
    assert forest(js).priority_class == "training"


def test_nulls_of_an_answer_are_nothing():
    assert without_nulls({"a": None, "b": [{"c": None, "d": 1}], "e": {}}) == {"b": [{"d": 1}], "e": {}}
