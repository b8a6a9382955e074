"""`jobset explain` where it may not read something, or finds no JobSet, configuration or cluster."""

import pytest

from manifests import NAMESPACE
from tests.support.cluster.requests import new_namespace, request
from tests.support.explain.objects import causes, walk
from tests.support.explain.world import World, explain, report
from tests.support.objects.jobsets import jobset


def test_without_the_right_to_read_nodes(waiting: World):
    body = report(waiting.user("nodeless", everywhere=True), waiting.namespace)
    assert causes(body) == ["leader-waits", "leader-unscheduled", "domains"]
    fixes = [one["remedy"] for one in walk(body) if one["cause"] == "domains"]
    assert fixes[0].startswith("jobset validate FILE --server and the warnings when a JobSet is created say if no node")
    assert body["notLookedAt"] == [
        f"the manager: you may not get leases in namespace {NAMESPACE}",
        "nodes: you may not list nodes, so which values of rack there are is not known",
    ]


def test_without_the_right_to_read_pods_of_others(waiting: World):
    body = report(waiting.user("lonely", nodes=True), waiting.namespace)
    assert causes(body) == ["leader-waits", "leader-unscheduled", "domains"]
    assert any("pods of other namespaces: you may not list them" in text for text in body["notLookedAt"])


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ("pods", ["followers-gated", "not-ready"]),
        ("jobs", ["status"]),
        ("events", ["leader-waits", "leader-unscheduled"]),
    ],
)
def test_without_the_right_to_read_something_it_says_so_and_continues(
    waiting: World, resource: str, expected: list[str]
):
    kubeconfig = waiting.user(f"less-{resource}", without=resource)
    body = report(kubeconfig, waiting.namespace)
    assert set(causes(body)) & {*expected}, body
    assert any(f"you may not list {resource}" in text for text in body["notLookedAt"])
    code, out, _ = explain(kubeconfig, waiting.namespace)
    assert code == 0
    assert "not looked at: " in out.splitlines()[-1]


def test_without_any_right(waiting: World):
    code, out, err = explain(waiting.cluster.kubeconfig_for("nobody-in-particular"), waiting.namespace)
    assert (code, out) == (2, "")
    assert "403 Forbidden" in err
    assert "ask for the right to get jobsets" in err


def test_a_name_that_nobody_has(world: World):
    code, out, err = explain(world.cluster.kubeconfig, world.namespace, "tarin")
    assert (code, out) == (1, "")
    assert err == f"jobset explain: there is no JobSet tarin in namespace {world.namespace}: there is none at all\n"
    world.jobset(jobset())
    world.jobset(jobset(name="other"))
    code, _, err = explain(world.cluster.kubeconfig, world.namespace, "tarin")
    assert code == 1
    assert 'did you mean "train"? there are: "other", "train"' in err


def test_a_name_of_another_namespace(world: World):
    world.jobset(jobset(name=f"only-{world.namespace}"))
    elsewhere = new_namespace(world.cluster)
    code, _, err = explain(world.cluster.kubeconfig, elsewhere, f"only-{world.namespace}")
    request(world.cluster, "DELETE", f"/api/v1/namespaces/{elsewhere}")
    assert code == 1
    assert f"but in {world.namespace}: use -n {world.namespace}" in err
