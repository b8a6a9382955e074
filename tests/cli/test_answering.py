"""Webhooks that a Service leads to and no replica answers: `certs status` and `webhooks status` say it."""

import pytest

from manifests import crd, install_objects
from tests.cli.test_certs_status import NOW, found
from tests.support.endpoints import endpoints

STATUS = [("certs", "status"), ("webhooks", "status")]
NO_REPLICA = "no replica answers: Service jobset-system/jobset-webhook-service has no ready endpoint, so JobSets can be"


def installed(*more, **options):
    here = found()
    secret = {**(here.secret or {}), "kind": "Secret", "metadata": {"name": "jobset-webhook-server-cert"}}
    configurations = [body for body in install_objects(**options) if body["kind"].endswith("WebhookConfiguration")]
    return [secret, crd(), *(configurations if options else filter(None, here.configurations.values())), *more]


@pytest.fixture(autouse=True)
def _then(monkeypatch):
    monkeypatch.setattr("cli.certificates.run.now", lambda: NOW)


@pytest.mark.parametrize("status", STATUS)
@pytest.mark.parametrize(
    "slices", [[], [endpoints()], [endpoints(False, False)], [endpoints(True, of="another")]], ids=str
)
def test_a_service_without_ready_endpoints_is_a_problem(command, connected, status, slices):
    connected(*installed(*slices))
    code, out, err = command(*status)
    assert code == 1
    assert (out + err).count(NO_REPLICA) == 1
    assert "kubectl -n jobset-system get deployments,pods shows" in out + err


@pytest.mark.parametrize("status", STATUS)
@pytest.mark.parametrize("ready", [True, None])
def test_one_ready_endpoint_is_enough_and_one_read_finds_it(command, connected, status, ready):
    cluster = connected(*installed(endpoints(False, ready)))
    assert command(*status)[::2] == (0, "")
    assert sum("endpointslices" in request.path for request in cluster.asked) == 1


@pytest.mark.parametrize("status", STATUS)
def test_without_the_right_to_look_nothing_is_said(command, connected, status):
    connected(*installed()).refuse("endpointslices")
    assert command(*status)[::2] == (0, "")


def test_webhooks_that_are_called_by_url_have_no_endpoints(command, connected):
    cluster = connected(*installed(webhook_url="https://127.0.0.1:9443"))
    assert command("webhooks", "status")[::2] == (0, "")
    assert not any("endpointslices" in request.path for request in cluster.asked)


def test_who_switches_them_on_may_just_have_started_the_manager(command, connected):
    connected(*installed())
    assert command("webhooks", "on")[::2] == (0, "")
