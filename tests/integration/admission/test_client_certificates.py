"""A real API server that shows a certificate to the webhooks, and a manager that answers nobody else."""

import json
import ssl
import urllib.request
from pathlib import Path

import pytest

from dev import local
from dev.cluster.assets import Sources
from dev.cluster.cluster import running
from dev.cluster.spec import ClusterSpec
from tests.certs.test_clients import Authority
from tests.support.cluster.jobs import JOBSETS
from tests.support.cluster.requests import request, wait_for
from tests.support.objects.jobsets import jobset

DRY_RUN = JOBSETS.format("default") + "?dryRun=All"


def admission_configuration(folder: Path, webhooks: str, certificate: Path) -> Path:
    """The files that docs/security.md describes, for webhooks of that name. `certificate` holds the key, too."""
    user = {"client-certificate": str(certificate), "client-key": str(certificate)}
    kubeconfig = folder / "webhooks.kubeconfig"
    users = [{"name": webhooks, "user": user}]
    kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "users": users}))
    configuration = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "WebhookAdmissionConfiguration",
        "kubeConfigFile": str(kubeconfig),
    }
    plugins = [
        {"name": name, "configuration": configuration}
        for name in ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
    ]
    file = folder / "admission.json"
    kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
    file.write_text(json.dumps({**kind, "plugins": plugins}))
    return file


def test_the_api_server_is_answered_and_a_client_without_a_certificate_is_not(tmp_path: Path, binaries: Path):
    authority, port = Authority("clients of webhooks"), local.free_port()
    ca = tmp_path / "clients.crt"
    ca.write_bytes(authority.certificate)
    configured = admission_configuration(tmp_path, f"127.0.0.1:{port}", authority.client(tmp_path))
    spec = ClusterSpec(name="client-certificates", profile="api", admission_config=str(configured))
    with running(spec, sources=Sources(assets=binaries), state_root=tmp_path) as cluster:
        local.install(cluster, webhook_port=port)
        manager = local.start(
            cluster,
            tmp_path / "manager",
            webhook_port=port,
            flags=["--controllers=false"],
            sections={"tls": {"clientCAFile": str(ca)}},
        )
        try:
            wait_for(lambda: request(cluster, "POST", DRY_RUN, jobset(managedBy=""))[0] == 422, what="the webhooks")
            status, stored = request(cluster, "POST", DRY_RUN, jobset())
            assert (status, stored["spec"]["successPolicy"]["operator"]) == (201, "All"), "it was defaulted"
            stranger = ssl.create_default_context()
            stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
            url = f"https://127.0.0.1:{port}/validate-jobset-x-k8s-io-v1alpha2-jobset"
            with pytest.raises(OSError, match=r"(?i)certificate.required|EOF occurred|reset|closed connection"):
                urllib.request.urlopen(url, data=b"{}", context=stranger, timeout=10)
        finally:
            local.stop(manager)
