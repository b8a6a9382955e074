"""Certificates that somebody else makes, and CA bundles that somebody else writes (docs/certificates.md).

cert-manager is the real one. Its Secret reaches the manager as mounted files, some seconds late, as by the kubelet.
"""

import base64
import contextlib
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.version import user_agent
from certs.manager import service_hosts
from certs.material import Renewal
from certs.pki import read_certificates, renew
from cli.certificates.run import Options, run
from dev import local
from dev.cluster.assets import Sources
from dev.cluster.cluster import Cluster, running
from dev.cluster.spec import ClusterSpec
from manifests.naming import NAMESPACE, WEBHOOK_SECRET, WEBHOOK_SERVICE
from tests.support.cluster import cert_manager as support
from tests.support.cluster.helm import Helm
from tests.support.cluster.jobs import JOBSETS
from tests.support.cluster.requests import MERGE, kubectl, new_namespace, request, wait_for
from tests.support.cluster.rotation import (
    CONFIGURATIONS,
    SECRET_PATH,
    Load,
    bundles,
    change_webhooks,
    drop_authority_key,
    under_load,
)
from tests.support.objects.jobsets import jobset
from tests.support.tls import fresh, material

FROM_CERTIFICATE, FROM_SECRET = "cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret"
GIVEN = {"internalCertManagement": {"enable": False}}
RATE = 20

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
"""The first run on a machine builds cert-manager and Helm, for some minutes."""


@pytest.fixture
def cluster(tmp_path: Path, binaries: Path) -> Iterator[Cluster]:
    spec = ClusterSpec(name="cert-manager", profile="api")
    with running(spec, sources=Sources(assets=binaries), state_root=tmp_path) as found:
        kubectl(found, "create", "namespace", NAMESPACE)
        yield found


@pytest.fixture
def on_end() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def applied(cluster: Cluster, objects: list[dict[str, Any]]) -> None:
    listing = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    kubectl(cluster, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=listing)


def chart(helm: Helm, port: int, issuer: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """The chart with `certManager.enable`; only the address differs, because the manager runs on this machine."""
    objects: list[dict[str, Any]] = helm.objects({"certManager": {"enable": True, "issuerRef": issuer or {}}})
    for body in objects:
        if body["kind"].endswith("WebhookConfiguration"):
            for hook in body["webhooks"]:
                service = hook["clientConfig"].pop("service")
                hook["clientConfig"]["url"] = f"https://127.0.0.1:{port}{service['path']}"
        if (body["kind"], body["metadata"]["name"]) == ("Certificate", WEBHOOK_SECRET):
            body["spec"]["ipAddresses"] = ["127.0.0.1"]
    return objects


def cert_manager_object(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "cert-manager.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


ISSUER = {"kind": "Issuer", "name": "ours"}
ISSUER_WITH_A_CA = [
    cert_manager_object("Issuer", "bootstrap", selfSigned={}),
    cert_manager_object(
        "Certificate",
        "our-ca",
        isCA=True,
        commonName="our CA",
        secretName="our-ca",
        issuerRef={"kind": "Issuer", "name": "bootstrap"},
    ),
    cert_manager_object("Issuer", "ours", ca={"secretName": "our-ca"}),
]
"""An issuer as a user may have it. A new CA gets a new key."""


def wait_enforced(cluster: Cluster) -> None:
    """Until the webhooks answer: only they refuse this."""

    def answer() -> tuple[int, Any]:
        return request(cluster, "POST", JOBSETS.format("default") + "?dryRun=All", jobset(managedBy=""))

    wait_for(lambda: answer()[0] == 422, what="the webhooks", last=answer)


def bundle(cluster: Cluster) -> bytes:
    """The CA bundle that all webhooks have; none while they differ."""
    found = bundles(cluster)
    return base64.b64decode(found.pop()) if len(found) == 1 else b""


def status(cluster: Cluster) -> dict[str, Any]:
    """What `jobset certs status` says."""
    out = io.StringIO()
    run(Options(output="json", kubeconfig=str(cluster.kubeconfig)), out, out)
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def trust_only(cluster: Cluster, authorities: bytes) -> None:
    """End the trust in earlier CAs, as docs/certificates.md says."""
    for path in CONFIGURATIONS:
        change_webhooks(cluster, path, lambda _: {"caBundle": base64.b64encode(authorities).decode()})


def trusted(cluster: Cluster, load: Load, wanted: bytes) -> None:
    """Wait until all webhooks have this CA bundle, and until callers that are a moment behind have it, too."""
    wait_for(lambda: bundle(cluster) == wanted, what="the CA bundle")
    shaken = load.shaken
    wait_for(lambda: load.shaken > shaken + 1, what="two handshakes after it")


def serves_another(load: Load, change: Callable[[], object]) -> None:
    """Make the change and wait until a certificate is shown that was not before."""
    seen = len(load.served)
    change()
    wait_for(lambda: len(load.served) > seen or load.failures, timeout=60, what="another certificate")
    assert load.failures == []


@pytest.mark.parametrize("helm", [4], indirect=True)
def test_no_admission_fails_while_cert_manager_renews_and_while_issuer_and_ca_change(
    cluster: Cluster,
    helm: Helm,
    cert_manager: Path,
    tmp_path: Path,
    on_end: contextlib.ExitStack,
    record_property: Callable[[str, object], None],
):
    port = local.free_port()
    on_end.enter_context(support.running(cluster, cert_manager, tmp_path / "cert-manager.log"))
    applied(cluster, chart(helm, port))
    wait_for(lambda: "tls.crt" in support.secret_data(cluster, WEBHOOK_SECRET), what="the certificate")
    on_end.enter_context(support.mounted(cluster, WEBHOOK_SECRET, tmp_path / "manager" / "certs"))
    manager = local.start(cluster, tmp_path / "manager", webhook_port=port, sections=GIVEN)
    on_end.callback(local.stop, manager)
    wait_enforced(cluster)

    def renew_serving() -> None:
        support.ask_for_renewal(cluster, WEBHOOK_SECRET)

    def authority() -> bytes:
        return support.secret_data(cluster, "our-ca").get("tls.crt", b"")

    def served_authority() -> bytes:
        return support.secret_data(cluster, WEBHOOK_SECRET)["ca.crt"]

    with under_load(cluster, new_namespace(cluster), [port], rate=RATE, judge=False) as load:
        wait_for(lambda: load.served, what="the first handshake")
        serves_another(load, renew_serving)
        assert status(cluster)["problems"] == [], "it is its own CA, beside the earlier one"

        applied(cluster, ISSUER_WITH_A_CA)
        wait_for(authority, what="the CA")
        serves_another(load, lambda: applied(cluster, chart(helm, port, ISSUER)))
        former = authority()
        assert served_authority() == former

        support.ask_for_renewal(cluster, "our-ca")
        wait_for(lambda: authority() != former, what="another CA")
        serves_another(load, renew_serving)
        assert served_authority() == authority()
        assert former in bundle(cluster), "the injector keeps the earlier CA"

        trust_only(cluster, authority())
        trusted(cluster, load, authority())
        serves_another(load, renew_serving)
        assert bundle(cluster) == authority(), "the earlier CA does not come back"
    record_property("reviews while cert-manager renewed", load.admitted)
    assert load.failures == []
    found = status(cluster)
    assert found["problems"] == []
    assert found["renewedBy"] == f"cert-manager, Certificate {WEBHOOK_SECRET}"
    assert {each["bundleWrittenBy"] for each in found["callers"]} == {FROM_CERTIFICATE}
    assert found["certificates"][0]["names"] == [*service_hosts(WEBHOOK_SERVICE, NAMESPACE), "127.0.0.1"]
    for path in CONFIGURATIONS:
        writers = {each["manager"] for each in request(cluster, "GET", path)[1]["metadata"]["managedFields"]}
        assert "cert-manager-cainjector" in writers
        assert user_agent().partition("/")[0] not in writers


def test_no_admission_fails_while_the_injector_writes_the_managers_own_ca(
    cluster: Cluster, cert_manager: Path, tmp_path: Path, on_end: contextlib.ExitStack
):
    port = local.free_port()
    on_end.enter_context(support.running(cluster, cert_manager, tmp_path / "cert-manager.log"))
    local.install(cluster, webhook_port=port)
    allowed = {"metadata": {"annotations": {"cert-manager.io/allow-direct-injection": "true"}}}
    assert request(cluster, "PATCH", SECRET_PATH, allowed, MERGE)[0] == 200
    injected = {"metadata": {"annotations": {FROM_SECRET: f"{NAMESPACE}/{WEBHOOK_SECRET}"}}}
    for path in CONFIGURATIONS:
        assert request(cluster, "PATCH", path, injected, MERGE)[0] == 200
    manager = local.start(cluster, tmp_path / "manager", webhook_port=port)
    on_end.callback(local.stop, manager)
    wait_enforced(cluster)
    with under_load(cluster, new_namespace(cluster), [port], rate=RATE) as load:
        wait_for(lambda: load.served, what="the first handshake")
        serves_another(load, lambda: drop_authority_key(cluster))
    assert load.failures == []
    found = status(cluster)
    assert (found["renewedBy"], found["problems"]) == ("the manager", [])
    assert {each["bundleWrittenBy"] for each in found["callers"]} == {FROM_SECRET}
    stored = support.secret_data(cluster, WEBHOOK_SECRET)["ca.crt"]
    assert set(read_certificates(bundle(cluster))) == set(read_certificates(stored))


def test_no_admission_fails_while_the_user_gives_the_manager_a_ca(
    cluster: Cluster, tmp_path: Path, on_end: contextlib.ExitStack
):
    port, theirs = local.free_port(), material()
    local.install(cluster, webhook_port=port)
    on_end.callback(local.stop, local.start(cluster, tmp_path / "manager", webhook_port=port))
    wait_enforced(cluster)
    with under_load(cluster, new_namespace(cluster), [port], rate=RATE) as load:
        wait_for(lambda: load.served, what="the first handshake")
        encoded = {"ca.crt": theirs.authorities, "ca.key": theirs.authority_key}
        data = {name: base64.b64encode(pem).decode() for name, pem in encoded.items()}
        change = {"data": {**data, "tls.crt": None, "tls.key": None}}
        serves_another(load, lambda: request(cluster, "PATCH", SECRET_PATH, change, MERGE))
    assert load.failures == []
    assert bundle(cluster).startswith(theirs.authorities)
    assert status(cluster)["problems"] == []


def test_no_admission_fails_while_the_user_replaces_certificate_and_ca(
    cluster: Cluster, tmp_path: Path, on_end: contextlib.ExitStack
):
    """Neither cert-manager nor the manager makes anything: first the bundle, then the files, then the bundle again."""
    port, folder = local.free_port(), tmp_path / "manager" / "certs"
    one, other = (material(hosts=("127.0.0.1",)) for _ in range(2))

    def files(of: Any, number: int) -> None:
        support.mount({"tls.crt": of.certificate, "tls.key": of.key}, folder, number)

    local.install(cluster, webhook_port=port, ca_bundle=one.authorities)
    files(one, 1)
    manager = local.start(cluster, tmp_path / "manager", webhook_port=port, sections=GIVEN)
    on_end.callback(local.stop, manager)
    wait_enforced(cluster)
    with under_load(cluster, new_namespace(cluster), [port], rate=RATE) as load:
        wait_for(lambda: load.served, what="the first handshake")
        serves_another(load, lambda: files(renew(one, Renewal.SERVING, ("127.0.0.1",), fresh()), 2))
        local.install(cluster, webhook_port=port, ca_bundle=one.authorities + other.authorities)
        trusted(cluster, load, one.authorities + other.authorities)
        serves_another(load, lambda: files(other, 3))
        local.install(cluster, webhook_port=port, ca_bundle=other.authorities)
        trusted(cluster, load, other.authorities)
    assert load.failures == []
