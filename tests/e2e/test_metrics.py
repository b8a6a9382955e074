"""What a scrape of a real manager shows about JobSets that really ran."""

import ssl
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dev import local
from tests.support.cluster.jobs import group, manifest
from tests.support.cluster.requests import kubectl, wait_for

Sample = Callable[..., float]


@pytest.fixture
def token(sets) -> Iterator[str]:
    """A token of an account that may read metrics."""
    name, who = f"scraper-{sets.namespace}", f"system:serviceaccount:{sets.namespace}:default"
    kubectl(sets.cluster, "create", "clusterrolebinding", name, "--clusterrole=jobset-metrics-reader", f"--user={who}")
    can = ("auth", "can-i", "get", "/metrics", "--as", who)
    wait_for(lambda: "yes" in kubectl(sets.cluster, *can, check=False).split(), what="the scraper's right")
    yield kubectl(sets.cluster, "create", "token", "default", namespace=sets.namespace).strip()
    kubectl(sets.cluster, "delete", "clusterrolebinding", name)


@pytest.fixture
def sample(manager, token) -> Sample:
    """The value of a sample, by name and labels, as a scraper reads it now."""
    port = local.free_port()
    manager.start(metrics={"bindAddress": f"127.0.0.1:{port}"})
    trusting = ssl._create_unverified_context()  # noqa: S323 - a certificate of the manager's own making
    scrape = urllib.request.Request(f"https://127.0.0.1:{port}/metrics", headers={"Authorization": f"Bearer {token}"})

    def read(name: str, **labels: str) -> float:
        with urllib.request.urlopen(scrape, context=trusting, timeout=10) as answer:  # noqa: S310
            text = answer.read().decode()
        samples = (s for family in text_string_to_metric_families(text) for s in family.samples)
        return sum(s.value for s in samples if s.name == name and labels.items() <= s.labels.items())

    return read


def test_what_sets_reached_is_counted_once_and_timed(sets, sample):
    sets.apply(manifest(group(replicas=3), failurePolicy={"maxRestarts": 1}))
    sets.wait_ready(3)
    sets.end(sets.pods()[0], 1)
    wait_for(
        lambda: sets.status()["restarts"] == 1 and sets.counts()["ready"] == 3, what="the restart is over", timeout=60
    )
    wait_for(lambda: sample("jobset_restart_seconds_count") == 1, what="the restart is timed")
    assert sample("jobset_jobs_created_seconds_count") == 1
    assert sample("jobset_ready_seconds_count") == 1
    took = sets.status()["lastRestart"]["durationSeconds"]
    assert sample("jobset_restart_seconds_sum") == took
    for pod in sets.pods():
        sets.end(pod)
    sets.wait_state("Completed")
    who = {"jobset_name": "js", "namespace": sets.namespace}
    wait_for(lambda: sample("jobset_completed_total", **who) == 1, what="the end is counted")
    reconciles = sample("jobset_reconcile_api_calls_count", controller="jobset")
    assert sample("jobset_reconcile_api_calls_sum", controller="jobset") >= 3 + 1 + 3 + 3, "Jobs, Service, and again"
    assert sample("controller_runtime_reconcile_time_seconds_count", controller="jobset") == reconciles
