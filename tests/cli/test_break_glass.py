"""What `jobset webhooks` does to a configuration (docs/break-glass.md)."""

import copy
import json

import pytest

from manifests import install_objects
from manifests.installed.webhook_switch import OFF_ANNOTATION, State, configuration_state, switched_off, switched_on
from tests.support.endpoints import endpoints

NOW = "2026-01-01T00:00:00Z"
STORED = [body for body in install_objects() if body["kind"].endswith("WebhookConfiguration")]


def state(body) -> State:
    return configuration_state("kind", "name", body).state


@pytest.mark.parametrize("stored", STORED, ids=lambda body: body["kind"])
def test_on_again_it_is_what_it_was(stored):
    before = copy.deepcopy(stored)
    off = switched_off(stored, NOW)
    assert (state(stored), state(off)) == (State.ON, State.OFF)
    assert off["webhooks"] == []
    on = switched_on(off)
    on["metadata"].pop("annotations") if not on["metadata"]["annotations"] else None
    assert on == before == stored


def test_webhooks_that_are_called_where_nothing_is_served_are_named(command, connected):
    stored = copy.deepcopy(STORED)
    stored[1]["webhooks"][0]["clientConfig"]["service"]["path"] = "/validate"
    answering = endpoints(True)
    connected(answering, *stored)
    code, out, err = command("webhooks", "status")
    assert (code, out.count("on  ")) == (1, 2)
    assert err.startswith(
        "jobset webhooks: called where the manager does not serve them: vjobset.kb.io at /validate: apply again"
    )
    connected(answering, *STORED)
    assert command("webhooks", "status")[::2] == (0, "")


def manager(image: str) -> dict:
    meta = {"name": "m-0", "namespace": "jobset-system", "labels": {"control-plane": "controller-manager"}}
    return {"kind": "Pod", "metadata": meta, "spec": {"containers": [{"name": "manager", "image": image}]}}


@pytest.mark.parametrize(
    ("image", "foreign"),
    [
        ("registry.k8s.io/jobset/jobset:v0.10.1", True),
        ("mirror.example/registry.k8s.io/jobset/jobset@sha256:1234", True),
        ("us-central1-docker.pkg.dev/k8s-staging-images/jobset/jobset:main", True),
        ("registry.example/jobset/jobset:v0.1.0", False),
        ("registry.k8s.io/jobset/jobset-other:v1", False),
        ("ghcr.io/owner/jobset:v0.1.0", False),
    ],
)
def test_status_names_the_go_jobset_under_our_webhooks(command, connected, image: str, foreign: bool):
    connected(endpoints(True), manager(image), *STORED)
    code, _, err = command("webhooks", "status")
    assert code == int(foreign)
    if foreign:
        assert err.startswith(
            "jobset webhooks: another program is the manager, and fields that the Go JobSet does not "
        )
        assert f": {image} runs in namespace jobset-system: kubectl -n jobset-system get deployments" in err
        assert err.count("\n") == 1
    else:
        assert err == ""


def test_status_without_the_right_to_list_pods_says_the_rest(command, connected):
    cluster = connected(endpoints(True), manager("registry.k8s.io/jobset/jobset:v0.10.1"), *STORED)
    cluster.refuse("/pods$")
    assert command("webhooks", "status")[::2] == (0, "")


@pytest.mark.parametrize("url", ["https://127.0.0.1:9443", "https://proxy.example.com/jobset/"])
def test_webhooks_that_are_called_by_url_are_served(url):
    for stored in install_objects(webhook_url=url):
        if stored["kind"].endswith("WebhookConfiguration"):
            assert configuration_state("kind", "name", stored).misdirected == ()


def test_what_is_off_names_what_would_be_called_and_since_when():
    [stored] = [body for body in STORED if body["kind"].startswith("Validating")]
    found = configuration_state("kind", "name", switched_off(stored, NOW))
    assert (found.webhooks, found.since) == (("vjobset.kb.io", "vpod.kb.io"), NOW)


def test_a_configuration_that_somebody_applied_again_is_on():
    applied = {**switched_off(STORED[0], NOW), "webhooks": STORED[0]["webhooks"]}
    assert state(applied) is State.ON


@pytest.mark.parametrize(
    "held",
    [None, "", "{", "[]", "7", "{}", '{"webhooks": []}', '{"webhooks": {}}', '{"webhooks": null}', '{"webhooks": [7]}'],
)
def test_an_annotation_that_holds_no_webhooks_is_no_way_back(held):
    annotations = None if held is None else {OFF_ANNOTATION: held}
    for webhooks in ({}, {"webhooks": None}, {"webhooks": []}):
        assert state({"metadata": {"name": "a", "annotations": annotations}, **webhooks}) is State.MISSING


def test_a_list_without_a_time_is_put_back_too():
    body = {"metadata": {"annotations": {OFF_ANNOTATION: json.dumps({"webhooks": [{"name": "a"}]}), "other": "x"}}}
    assert configuration_state("kind", "name", body).since == ""
    assert switched_on(body) == {"metadata": {"annotations": {"other": "x"}}, "webhooks": [{"name": "a"}]}


def test_no_configuration_is_missing():
    assert configuration_state("kind", "name", None).state is State.MISSING
