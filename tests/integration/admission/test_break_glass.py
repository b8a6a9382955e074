"""Webhooks that stand in the way of a real API server are taken out of it with one command, and put back."""

import json
import subprocess
from functools import partial
from urllib.parse import urlsplit

import pytest

from dev.cluster.cluster import Cluster
from manifests.naming import MUTATING_CONFIGURATION, VALIDATING_CONFIGURATION
from tests.support.cluster.admission_calls import manifest, path
from tests.support.cluster.requests import replace_object, request, wait_for
from tests.support.commands import run_command
from tests.support.objects.jobsets import JSON

PLACES = [
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{name}"
    for kind, name in (("mutating", MUTATING_CONFIGURATION), ("validating", VALIDATING_CONFIGURATION))
]


def webhooks(server: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command("webhooks", *arguments, "--kubeconfig", str(server.kubeconfig))


def configurations(server: Cluster) -> list[JSON]:
    return [request(server, "GET", place)[1] for place in PLACES]


def code_of_a_faulty_set(server: Cluster, ns: str) -> int:
    """What the API server answers to a set that only a webhook refuses."""
    return request(server, "POST", path(ns) + "?dryRun=All", manifest(ns, managedBy=""))[0]


def lose_webhooks(server: Cluster) -> None:
    """The API server calls an address at which nobody listens."""

    def point_at_nobody(configuration):
        for hook in configuration["webhooks"]:
            hook["clientConfig"]["url"] = f"https://127.0.0.1:1{urlsplit(hook['clientConfig']['url']).path}"
            hook["clientConfig"].pop("service", None)

    for place in PLACES:
        status, answer = replace_object(partial(request, server), place, point_at_nobody)
        assert status == 200, answer


@pytest.fixture
def as_before(server):
    """The webhooks of all tests of this folder are put back whatever happens."""
    before = configurations(server)
    yield before
    for place, body in zip(PLACES, before, strict=True):
        status, answer = replace_object(partial(request, server), place, lambda _, body=body: body)
        assert status == 200, answer
    wait_for(lambda: code_of_a_faulty_set(server, "default") == 422, what="the webhooks")


def test_they_are_off_and_on_again(server, ns, as_before):
    assert webhooks(server, "status").returncode == 0
    lose_webhooks(server)
    wait_for(lambda: code_of_a_faulty_set(server, ns) == 500, what="webhooks that nobody answers")

    off = webhooks(server, "off")
    assert off.returncode == 0, off.stderr
    assert "while they are off, JobSets get no defaults" in off.stderr
    wait_for(lambda: code_of_a_faulty_set(server, ns) == 201, what="no webhooks")
    assert webhooks(server, "off").stdout == off.stdout, "it has been off since then"
    status = webhooks(server, "status", "-o", "json")
    assert status.returncode == 1
    assert [found["state"] for found in json.loads(status.stdout)["configurations"]] == ["off", "off"]

    on = webhooks(server, "on")
    assert (on.returncode, on.stderr) == (0, "")
    assert [line.split()[0] for line in on.stdout.splitlines()] == ["on", "on"]
    wait_for(lambda: code_of_a_faulty_set(server, ns) == 500, what="the webhooks as they were")
    names = [[hook["name"] for hook in found["webhooks"]] for found in configurations(server)]
    assert names == [[hook["name"] for hook in found["webhooks"]] for found in as_before]


def test_what_is_not_there_cannot_be_put_back(server, as_before):
    status, answer = replace_object(partial(request, server), PLACES[1], lambda found: {**found, "webhooks": []})
    assert status == 200, answer
    on = webhooks(server, "on")
    assert on.returncode == 1
    assert f"{VALIDATING_CONFIGURATION}: no webhooks are there: apply again what you have installed" in on.stderr
