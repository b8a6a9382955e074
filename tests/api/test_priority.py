"""Which priority pods will have, and the label that says so in a child Job's pod template.

That the API server resolves it the same way is in tests/integration/test_priorities.py.
"""

import dataclasses
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api import keys
from api.children import build_job, with_priority
from api.layout import layout_of
from api.priority import Priorities, PriorityClass
from controllers.planning.observed import Observed
from tests.support.model.world import World
from tests.support.objects.stored_sets import jobset, rjob

CLASSES = {"high": 1000000, "low": 5, "negative": -1000, "system-node-critical": 2000001000}


def priority_class(name: str, value: int, *, default: bool = False) -> PriorityClass:
    """As the API server sends it."""
    body = {"metadata": {"name": name, "uid": "u", "resourceVersion": "1"}, "value": value, "description": "d"}
    return msgspec.convert(body | ({"globalDefault": True} if default else {}), PriorityClass)


def priorities(*more: PriorityClass) -> Priorities:
    return Priorities([*(priority_class(name, value) for name, value in CLASSES.items()), *more])


@pytest.mark.parametrize(("name", "value"), CLASSES.items())
def test_a_class_gives_its_value(name, value):
    default = priority_class("default", 7, default=True)
    assert priorities(default).priority_of({"priorityClassName": name}) == value


@pytest.mark.parametrize("spec", [{}, {"priorityClassName": ""}, {"priorityClassName": None}])
def test_without_a_class_it_is_that_of_the_default_or_0(spec):
    assert priorities().priority_of(spec) == 0
    assert priorities(priority_class("default", 7, default=True)).priority_of(spec) == 7
    assert priorities(priority_class("default", -7, default=True)).priority_of(spec) == -7


@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=5))
def test_of_several_defaults_the_lowest_counts(values):
    defaults = [priority_class(f"d{number}", value, default=True) for number, value in enumerate(values)]
    assert priorities(*defaults).priority_of({}) == min(values)


def test_a_class_that_does_not_exist_gives_none():
    assert priorities().priority_of({"priorityClassName": "unknown"}) is None


def test_a_value_of_0_is_not_sent_and_is_0():
    zero = msgspec.convert({"metadata": {"name": "zero"}}, PriorityClass)
    assert Priorities([zero]).priority_of({"priorityClassName": "zero"}) == 0


def job(
    annotations: dict[str, str] | None = None, *, labels: dict[str, str] | None = None, **pod: Any
) -> dict[str, Any]:
    """A child Job; `pod` is laid over the spec of its pods."""
    wanted = rjob(pod=pod)
    wanted["template"]["spec"]["template"]["metadata"] = {"labels": labels or {}}
    js = jobset(wanted, annotations=annotations)
    layout = layout_of(js)
    jobs = layout.ranges[0]
    return build_job(js, layout, jobs, jobs.position("js", 0))


def label_of(body: dict[str, Any]) -> str | None:
    return body["spec"]["template"]["metadata"]["labels"].get(keys.PRIORITY)


class TestLabel:
    @pytest.mark.parametrize("annotations", [None, {keys.EXCLUSIVE_TOPOLOGY: "rack"}])
    @pytest.mark.parametrize(
        ("pod", "label"),
        [
            ({}, "0"),
            ({"priorityClassName": "high"}, "1000000"),
            ({"priorityClassName": "negative"}, "minus1000"),
        ],
    )
    def test_it_is_in_the_pod_template_of_every_job(self, annotations, pod, label):
        assert label_of(with_priority(job(annotations, **pod), priorities())) == label

    def test_no_label_for_the_node_selector_strategy(self):
        by_nodes = {keys.EXCLUSIVE_TOPOLOGY: "rack", keys.NODE_SELECTOR_STRATEGY: "true"}
        before = job(by_nodes)
        assert with_priority(before, priorities()) == before

    def test_no_label_where_the_class_does_not_exist(self):
        """The API server refuses such pods, so there is nothing to say of them."""
        before = job(priorityClassName="unknown")
        assert with_priority(before, priorities()) == before

    def test_ours_wins_over_one_that_a_user_has_made_up(self):
        made_up = job(labels={keys.PRIORITY: "7", "team": "x"})
        assert label_of(made_up) == "7"
        labelled = with_priority(made_up, priorities())
        assert label_of(labelled) == "0"
        assert labelled["spec"]["template"]["metadata"]["labels"]["team"] == "x"


class Cluster(World):
    """A cluster with priority classes, or one (None) of which they are not known."""

    classes: Priorities | None = None

    def observe(self) -> Observed:
        return dataclasses.replace(super().observe(), priorities=self.classes)

    def labels(self) -> set[str | None]:
        return {label_of(body) for body in self.jobs.values()}


class TestLife:
    def cluster(self, **spec: Any) -> Cluster:
        cluster = Cluster(jobset(rjob(replicas=2), **spec))
        cluster.classes = priorities()
        return cluster

    def test_jobs_are_made_with_it(self):
        cluster = self.cluster()
        cluster.settle()
        assert cluster.labels() == {"0"}
