"""What a simulated API server says that it serves."""

import pytest

from dev.simulator.discovery import discovery
from kube.resources import JOBS, PODS, SERVICES

SERVED = (PODS, SERVICES, JOBS)


def test_groups_and_resources_are_those_that_are_served():
    assert discovery("/api", SERVED)["versions"] == ["v1"]
    version = {"groupVersion": "batch/v1", "version": "v1"}
    groups = discovery("/apis", SERVED)["groups"]
    assert groups == [{"name": "batch", "versions": [version], "preferredVersion": version}]
    core = discovery("/api/v1", SERVED)
    assert [(r["name"], r["kind"], r["namespaced"]) for r in core["resources"]] == [
        ("pods", "Pod", True),
        ("services", "Service", True),
    ]
    assert discovery("/apis/batch/v1", SERVED)["groupVersion"] == "batch/v1"


@pytest.mark.parametrize("path", ["/apis/batch/v2", "/apis/scheduling.k8s.io/v1beta1", "/openapi/v3", "/"])
def test_what_is_not_served_is_not_found(path):
    assert discovery(path, SERVED) is None
