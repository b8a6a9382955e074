"""How many pods a group counts, and the disruption mode, claims and priority class that it gets."""

import pytest

from api.batch import pods_at_once
from api.gangs import forest
from kube.model.jsontree import without_nulls
from tests.support.objects.gang_trees import ALL, GANG, a_set, entry, picture, workers
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

    def test_nothing_is_made_for_no_pods(self):
        entries = [entry("none", job={}, disruptionMode=ALL), entry("zero"), entry("workers")]
        js = a_set(
            workers("none", 0),
            rjob("zero", 2, parallelism=0),
            workers(),
            scheduling={"schedulingPolicy": GANG, "replicatedJobs": entries},
        )
        assert picture(js) == ["CPG jobset gang 1", "  PG rj-workers gang 4: workers-0 workers-1"]


def test_the_class_of_the_pods_is_that_of_the_groups():
    js = a_set(workers(pod={"priorityClassName": "training"}), scheduling={})
    assert forest(js).priority_class == "training"


def test_nulls_of_an_answer_are_nothing():
    assert without_nulls({"a": None, "b": [{"c": None, "d": 1}], "e": {}}) == {"b": [{"d": 1}], "e": {}}
