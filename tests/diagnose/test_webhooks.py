"""What `jobset explain` says of a set that was stored without defaults, by the state of the webhooks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnose.gather import gather
from diagnose.webhook_switch import State, switched_off
from kube.client import Client
from manifests.naming import MUTATING_CONFIGURATION
from tests.diagnose.test_look_ups import Refusing
from tests.support.explain.objects import NOW, explanation_of, facts, job_of, lease, made
from tests.support.explain.stuck import JSON, a_set
from tests.support.model.fake_cluster import Cluster

REPLACE = "make it again: kubectl get jobset train -n team-a -o yaml | sed '/^  resourceVersion:/d' | kubectl replace --force -f -"


def bare() -> tuple[JSON, JSON]:
    """A set without defaults, and its Job, which is ready."""
    js = a_set()
    del js["spec"]["network"]
    return js, made(job_of(js, 0), active=1, ready=1)


@pytest.mark.parametrize(
    ("state", "first"),
    [
        (State.ON, ""),
        (State.OFF, "first jobset webhooks on, for they are off; then "),
        (State.MISSING, "first have the webhooks back, which are not there: jobset webhooks status says how; then "),
        (None, "once jobset webhooks status says that they are on, "),
    ],
)
def test_the_webhooks_are_switched_on_before_the_set_is_made_again(state: State | None, first: str):
    js, job = bare()
    text, _ = explanation_of(replace(facts(js, [job], lease=lease()), webhooks=state))
    assert f"to fix: {first}{REPLACE}" in text


CALLED = {
    "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": MUTATING_CONFIGURATION},
    "webhooks": [{"name": "mjobset.kb.io"}],
}
OFF = switched_off(CALLED, "2026-11-21T14:05:03Z")


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("stored", "state"), [([CALLED], State.ON), ([OFF], State.OFF), ([], State.MISSING)], ids=["on", "off", "missing"]
)
async def test_the_state_of_the_webhooks_is_read_for_such_a_set(stored: list[JSON], state: State):
    cluster = Cluster(*bare(), *stored)
    found = await gather(Client(cluster), "team-a", "train", NOW)
    assert found.webhooks is state
    assert sum("mutatingwebhookconfigurations" in request.path for request in cluster.asked) == 1
    js = a_set()
    other = Cluster(js, made(job_of(js, 0), active=1, ready=1), *stored)
    assert (await gather(Client(other), "team-a", "train", NOW)).webhooks is None
    assert not any("mutatingwebhookconfigurations" in request.path for request in other.asked)


@pytest.mark.looptime
async def test_without_the_right_to_read_the_webhooks_it_says_how_to_look():
    cluster = Refusing(*bare(), OFF)
    cluster.refused = ("mutatingwebhookconfigurations",)
    text, _ = explanation_of(await gather(Client(cluster), "team-a", "train", NOW))
    assert "once jobset webhooks status says that they are on, make it again" in text
    assert "not looked at: webhooks: you may not get mutatingwebhookconfigurations" in text
