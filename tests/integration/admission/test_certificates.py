"""A Secret that holds a chain which the API server refuses: admission comes back by itself."""

from __future__ import annotations

import base64

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from certs.manager import _data, service_hosts
from certs.pki import Material
from devcluster.cluster import Cluster
from manifests import NAMESPACE
from tests.support.admission import SECRET
from tests.support.admission_calls import manifest, path
from tests.support.bad_certificates import chain, curve, on_unknown_curve
from tests.support.cluster import MERGE, request, wait_for
from tests.support.jobsets import JSON, rjob

HOSTS = service_hosts("jobset-webhook-service", NAMESPACE, "127.0.0.1")
SECRET_PATH = f"/api/v1/namespaces/{NAMESPACE}/secrets/{SECRET}"
CONFIGURATIONS = [
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/jobset-{kind}-webhook-configuration"
    for kind in ("mutating", "validating")
]
WORST = {
    "CA is none": chain(hosts=HOSTS, authority=[x509.BasicConstraints(ca=False, path_length=None)]),
    "CA on a curve that Go does not know": chain(hosts=HOSTS, authority_key=curve(ec.SECP256K1)),
    "keys on an unknown curve": Material(b"x", on_unknown_curve(), b"x", on_unknown_curve()),
}


def secret(server: Cluster) -> JSON:
    data: JSON = request(server, "GET", SECRET_PATH)[1]["data"]
    return data


def bundles(server: Cluster) -> set[str]:
    """The CA bundles by which the API server judges the webhooks."""
    found = [request(server, "GET", configuration)[1]["webhooks"] for configuration in CONFIGURATIONS]
    return {webhook["clientConfig"]["caBundle"] for webhooks in found for webhook in webhooks}


@pytest.mark.parametrize("bad", WORST.values(), ids=WORST.keys())
def test_admission_survives_the_worst_certificates(server: Cluster, ns: str, bad: Material):
    spoilt = {"data": _data(bad)}
    status, answer = request(server, "PATCH", SECRET_PATH, spoilt, MERGE)
    assert status == 200, answer
    wait_for(lambda: secret(server)["ca.crt"] != spoilt["data"]["ca.crt"], what="the CA to be renewed")
    wait_for(lambda: bundles(server) == {secret(server)["ca.crt"]}, what="the new CA in the configurations")
    assert b"BEGIN CERTIFICATE" in base64.b64decode(secret(server)["tls.crt"])
    # The API server takes a moment to take over the configurations; before and after that it can call the webhooks.
    for _ in range(20):
        status, answer = request(server, "POST", path(ns) + "?dryRun=All", manifest(ns, rjob("a")))
        assert status == 201, answer
