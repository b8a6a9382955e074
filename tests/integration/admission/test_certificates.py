"""Our own certificates with a real API server: whatever the Secret holds, and while the CA is replaced."""

import base64
import json
import subprocess
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from certs.manager import service_hosts
from certs.material import Material, secret_data
from dev.cluster.cluster import Cluster
from manifests import NAMESPACE
from tests.support.bad_certificates import chain, curve, on_unknown_curve
from tests.support.cluster.admission_calls import manifest, path
from tests.support.cluster.requests import MERGE, request, wait_for
from tests.support.cluster.rotation import (
    CONFIGURATIONS,
    SECRET_PATH,
    authorities,
    bundles,
    drop_authority_key,
    under_load,
)
from tests.support.commands import run_command
from tests.support.objects.jobsets import JSON, rjob

HOSTS = service_hosts("jobset-webhook-service", NAMESPACE, "127.0.0.1")
WORST = {
    "CA is none": chain(hosts=HOSTS, authority=[x509.BasicConstraints(ca=False, path_length=None)]),
    "CA on a curve that Go does not know": chain(hosts=HOSTS, authority_key=curve(ec.SECP256K1)),
    "keys on an unknown curve": Material(b"x", on_unknown_curve(), b"x", on_unknown_curve()),
}


def secret(server: Cluster) -> JSON:
    data: JSON = request(server, "GET", SECRET_PATH)[1]["data"]
    return data


@pytest.mark.parametrize("bad", WORST.values(), ids=WORST.keys())
def test_admission_survives_the_worst_certificates(server: Cluster, ns: str, bad: Material):
    spoilt = {"data": secret_data(bad)}
    status, answer = request(server, "PATCH", SECRET_PATH, spoilt, MERGE)
    assert status == 200, answer
    wait_for(lambda: secret(server)["ca.crt"] != spoilt["data"]["ca.crt"], what="the CA to be renewed")
    wait_for(lambda: bundles(server) == {secret(server)["ca.crt"]}, what="the new CA in the configurations")
    assert b"BEGIN CERTIFICATE" in base64.b64decode(secret(server)["tls.crt"])
    # The API server takes a moment to take over the configurations; before and after that it can call the webhooks.
    for _ in range(20):
        status, answer = request(server, "POST", path(ns) + "?dryRun=All", manifest(ns, rjob("a")))
        assert status == 201, answer


def port_of(server: Cluster) -> int:
    """Where the webhooks serve."""
    hook = request(server, "GET", CONFIGURATIONS[0])[1]["webhooks"][0]
    return urlsplit(hook["clientConfig"]["url"]).port or 0


def test_no_admission_fails_while_the_ca_is_replaced(server: Cluster, ns: str):
    """tests/e2e/test_certificate_rotation.py does the same for longer, with two replicas."""
    with under_load(server, ns, [port_of(server)], rate=50) as load:
        wait_for(lambda: load.served, what="the first handshake")
        for _ in range(3):
            before, seen = authorities(server), len(load.served)
            drop_authority_key(server)
            wait_for(lambda: authorities(server) != before, what="the CA to be replaced")  # noqa: B023 (called at once)
            wait_for(lambda: len(load.served) > seen, what="a certificate of the new CA")  # noqa: B023 (called at once)
    assert load.failures == []
    assert len(load.served) >= 4
    assert load.admitted > 20, "hardly any load"


def status(server: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command("certs", "status", *arguments, "--kubeconfig", str(server.kubeconfig))


def test_the_status_of_an_installation_says_that_all_is_well(server: Cluster):
    wait_for(lambda: bundles(server) == {authorities(server)}, what="the CA in the configurations")
    shown = status(server, "-o", "json")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    body = json.loads(shown.stdout)
    assert (body["renewedBy"], body["conversion"], body["problems"]) == ("the manager", "None", [])
    assert {caller["host"] for caller in body["callers"]} == {"127.0.0.1"}


def test_the_status_names_what_is_missing(server: Cluster):
    shown = status(server, "--secret", "other")
    assert shown.returncode == 1
    assert f"problem: Secret {NAMESPACE}/other does not exist" in shown.stdout
