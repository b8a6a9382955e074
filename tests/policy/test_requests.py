"""What a pod requests is counted as kube-scheduler counts it."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.model.requests import LARGEST_AMOUNT, amount_of, countable_amount, pod_requests
from tests.support.objects.jobsets import rjob
from tests.support.objects.policies import judged


def container(
    requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    return {"resources": {"requests": requests or {}, "limits": limits or {}}, **more}


def cpu(*amounts: str, sidecar: bool = False) -> list[dict[str, Any]]:
    more = {"restartPolicy": "Always"} if sidecar else {}
    return [container({"cpu": amount}, **more) for amount in amounts]


@pytest.mark.parametrize(
    ("spec", "cpus"),
    [
        pytest.param({"containers": cpu("1", "500m")}, Fraction(3, 2), id="containers add up"),
        pytest.param({"containers": cpu("1"), "initContainers": cpu("3", "2")}, 3, id="the largest init container"),
        pytest.param({"containers": cpu("4"), "initContainers": cpu("3")}, 4, id="an init container that is smaller"),
        pytest.param(
            {"containers": cpu("1"), "initContainers": cpu("2", sidecar=True)}, 3, id="a sidecar runs beside containers"
        ),
        pytest.param(
            {"containers": cpu("1"), "initContainers": [*cpu("2", sidecar=True), *cpu("5")]},
            7,
            id="an init container beside an earlier sidecar",
        ),
        pytest.param(
            {"containers": cpu("1"), "initContainers": [*cpu("5"), *cpu("2", sidecar=True)]},
            5,
            id="an init container before a sidecar",
        ),
        pytest.param({"containers": cpu("1"), "overhead": {"cpu": "250m"}}, Fraction(5, 4), id="overhead"),
        pytest.param({"containers": [container(limits={"cpu": 2})]}, 2, id="a limit is taken for the request"),
        pytest.param({"containers": [container({"cpu": 1}, {"cpu": 2})]}, 1, id="a request is not"),
        pytest.param(
            {"containers": cpu("1"), "resources": {"requests": {"cpu": "6"}}}, 6, id="the request of the pod as a whole"
        ),
        pytest.param(
            {"containers": cpu("1"), "resources": {"limits": {"cpu": "6"}}},
            1,
            id="containers' requests below its limit",
        ),
        pytest.param(
            {"containers": [{}], "resources": {"limits": {"cpu": "6"}}},
            6,
            id="the pod's limit where nothing is requested",
        ),
        pytest.param(
            {"containers": [{}], "resources": {"requests": {"cpu": "1"}}, "overhead": {"cpu": "1"}},
            2,
            id="overhead beside the pod's request",
        ),
        pytest.param({"containers": cpu("wrong")}, None, id="what is not a quantity is not counted"),
        pytest.param({"containers": [{}]}, None, id="nothing"),
    ],
)
def test_requests_of_a_pod(spec: dict[str, Any], cpus: Fraction | int | None):
    assert pod_requests(spec).get("cpu") == cpus


def test_a_pod_requests_no_devices_as_a_whole():
    spec = {
        "containers": [container(limits={"nvidia.com/gpu": 4})],
        "resources": {"requests": {"nvidia.com/gpu": 1, "hugepages-2Mi": "4Mi"}},
    }
    assert pod_requests(spec) == {"nvidia.com/gpu": 4, "hugepages-2Mi": 4 << 20}


AMOUNTS = st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=5)


@given(init=AMOUNTS, containers=st.lists(st.integers(0, 9), min_size=1, max_size=4))
def test_the_count_is_the_most_that_ever_runs_at_once(init: list[tuple[bool, int]], containers: list[int]):
    """Played through: init containers in order, sidecars stay."""
    spec = {
        "initContainers": [each for sidecar, n in init for each in cpu(str(n), sidecar=sidecar)],
        "containers": [each for n in containers for each in cpu(str(n))],
    }
    stay, most = 0, 0
    for sidecar, n in init:
        most = max(most, stay + n)
        stay += n if sidecar else 0
    assert pod_requests(spec)["cpu"] == max(most, stay + sum(containers))


def test_a_set_requests_what_all_its_pods_do_at_once():
    pod = {"containers": cpu("500m")}
    js = judged(rjob("a", replicas=3, parallelism=4, completions=2, pod=pod), rjob("b", parallelism=5, completions=5))
    assert (js.job_count, js.pod_count, js.requests) == (4, 3 * 2 + 5, {"cpu": 3})


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        (2, 2), (0.5, Fraction(1, 2)), ("0" * 255 + "8", 8), ("0" * 256 + "8", None), ("1e0003", 1000), ("1e999", 10**999),
        ("1e1000", None), ("1e4294967299", None), ("-1", None), (-1, None), ("1e1.5", None), (True, None), (None, None), ("", None),
    ],
)  # fmt: skip
def test_amounts(value: Any, amount: Any):
    assert amount_of(value) == amount


@pytest.mark.parametrize(
    ("resource", "value", "amount"),
    [
        ("cpu", "1.0001", Fraction(1001, 1000)),
        ("cpu", "1n", Fraction(1, 1000)),
        ("memory", "1.5", 2),
        ("memory", "1.5Gi", 3 << 29),
        ("memory", LARGEST_AMOUNT, 10**15),
        ("memory", 10**15 + 1, None),
        ("memory", "1e999", None),
    ],
)
def test_a_pod_states_what_kube_scheduler_counts(resource: str, value: Any, amount: Any):
    assert countable_amount(resource, value) == amount
