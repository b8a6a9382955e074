"""How the manager starts and refuses to: exit codes and the one line that says what is wrong."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from certs.renewal import self_signed
from dev import local
from dev.cluster.cluster import Cluster
from tests.support.cluster.admission import GROUPS
from tests.support.cluster.dry_run import container, granted, pod
from tests.support.cluster.jobs import JOBSETS, group, manifest
from tests.support.cluster.manager import USER
from tests.support.cluster.requests import kubectl, request, wait_for
from tests.support.objects.jobsets import jobset, rjob, stored
from tests.support.objects.reviews import review

COMMAND = [sys.executable, "-m", "cli", "manager"]


def run(*flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    command = [*COMMAND, *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=env)  # noqa: S603 - ourselves


def refused(done: subprocess.CompletedProcess[str], *words: str, code: int = 1) -> None:
    """Ended with this code and one line that holds all the words."""
    assert done.returncode == code, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("jobset manager: "), done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in last


def test_gos_single_dash_flags_are_taken(tmp_path):
    refused(run(f"-config={tmp_path}/none.yaml"), "none.yaml", "No such file")


def test_credentials_of_another_cluster_are_an_error(tmp_path, jobset_server: Cluster):
    config = yaml.safe_load(jobset_server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "of-another-cluster"}
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    refused(run(f"--kubeconfig={file}", "--metrics-bind-address=0"), "Unauthorized")


def test_a_taken_port_is_named(jobset_server: Cluster):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        flags = (f"--health-probe-bind-address=127.0.0.1:{port}", "--metrics-bind-address=0")
        refused(run(f"--kubeconfig={jobset_server.kubeconfig}", *flags), f"127.0.0.1:{port}", "another process has it")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Ports of our own, certificates from a folder, a lease of our own."""
    sections = {
        "webhook": {"certDir": str(tmp_path)},
        "internalCertManagement": {"enable": False},
        "leaderElection": {"resourceName": f"lease-{tmp_path.name.lower().replace('_', '-')}"},
    }
    body = local.configuration(local.free_port(), local.free_port(), **sections)
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(body))
    return file


@pytest.fixture
def certificate(config: Path) -> bytes:
    """A certificate that is served; its key lies beside it."""
    certificate, key = self_signed()
    (config.parent / "tls.crt").write_bytes(certificate)
    (config.parent / "tls.key").write_bytes(key)
    return certificate


def start(cluster: Cluster, config: Path, *flags: str) -> local.Manager:
    body = yaml.safe_load(config.read_text())
    log = config.with_suffix(".log")
    with log.open("wb") as output:
        command = [*COMMAND, f"--config={config}", f"--kubeconfig={cluster.kubeconfig}", *flags]
        process = subprocess.Popen(command, stdout=output, stderr=output)  # noqa: S603 - ourselves
    address = body["health"]["healthProbeBindAddress"]
    return local.Manager(process, log, f"http://{address}/readyz", body["webhook"]["port"])


def is_answered(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10):  # noqa: S310 - http on loopback
            return True
    except urllib.error.URLError:
        return False


def test_the_reconcile_loop_runs_without_webhooks(jobset_server: Cluster, namespace: str, config: Path):
    body = {**manifest(group(replicas=2)), "metadata": {"name": "alone", "namespace": namespace}}
    assert request(jobset_server, "POST", JOBSETS.format(namespace), body)[0] == 201
    manager = start(jobset_server, config, "--webhooks=false", "--leader-elect=false")
    try:
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        wait_for(lambda: len(request(jobset_server, "GET", path)[1]["items"]) == 2, what=f"Jobs; {manager.tail()}")
    finally:
        assert local.stop(manager) == 0, manager.tail()


def test_webhooks_run_without_the_reconcile_loop_on_given_certificates(
    jobset_server: Cluster, namespace: str, config: Path, certificate: bytes
):
    manager = start(jobset_server, config, "--controllers=false")
    try:
        wait_for(lambda: "webhooks serve" in manager.log.read_text(), what="the webhooks")
        review = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {"uid": "1", "operation": "CREATE", "namespace": "default", "object": manifest(group())},
        }
        tls = ssl.create_default_context(cadata=certificate.decode())
        call = urllib.request.Request(
            f"https://localhost:{manager.webhook_port}/mutate-jobset-x-k8s-io-v1alpha2-jobset",
            data=json.dumps(review).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(call, context=tls, timeout=10) as answer:  # noqa: S310 - https, see above
            assert json.load(answer)["response"]["allowed"] is True
        path = JOBSETS.format(namespace)
        body = {**manifest(group()), "metadata": {"name": "idle", "namespace": namespace}}
        assert request(jobset_server, "POST", path, body)[0] == 201
    finally:
        manager.process.send_signal(signal.SIGINT)
        assert manager.process.wait(15) == 0, manager.tail()
    assert kubectl(jobset_server, "get", "jobs", "-o", "name", namespace=namespace) == ""


def test_a_manager_that_looks_up_secrets_is_ready_with_the_right_and_then_warns(
    jobset_server: Cluster, namespace: str, config: Path, certificate: bytes
):
    body = {**yaml.safe_load(config.read_text()), "childDryRun": {"lookUp": ["Secrets"], "budget": "8s"}}
    config.write_text(yaml.safe_dump(body))
    js = stored(jobset(rjob(pod=pod(container(envFrom=[{"secretRef": {"name": "token"}}]))), namespace=namespace))
    sent = review(js)
    sent["request"]["namespace"] = namespace
    manager = start(jobset_server, config, f"--kubeconfig={jobset_server.kubeconfig_for(USER, GROUPS)}")
    try:
        fault = "not ready: the manager may not get secrets: take Secrets out of childDryRun.lookUp, or grant the right"
        wait_for(lambda: fault in manager.log.read_text(), what="the missing right")
        assert not is_answered(manager.health)
        with granted(jobset_server, "secrets"):
            wait_for(lambda: is_answered(manager.health), what="readiness")
            call = urllib.request.Request(
                f"https://localhost:{manager.webhook_port}/validate-jobset-x-k8s-io-v1alpha2-jobset",
                data=json.dumps(sent).encode(),
                headers={"Content-Type": "application/json"},
            )
            tls = ssl.create_default_context(cadata=certificate.decode())
            with urllib.request.urlopen(call, context=tls, timeout=10) as answer:  # noqa: S310 - https, see above
                warnings = json.load(answer)["response"]["warnings"]
            place = "spec.replicatedJobs[0].template.spec.template.spec.containers[0].envFrom[0].secretRef.name"
            assert warnings == [f"{place}: no Secret token: pods wait for it; create it [secret-missing]"]
    finally:
        assert local.stop(manager) == 0, manager.tail()


@pytest.mark.usefixtures("certificate")
def test_a_ca_of_clients_that_cannot_be_read_is_named(jobset_server: Cluster, config: Path):
    body = {**yaml.safe_load(config.read_text()), "tls": {"clientCAFile": str(config.parent / "none.crt")}}
    config.write_text(yaml.safe_dump(body))
    flags = (f"--config={config}", f"--kubeconfig={jobset_server.kubeconfig}", "--controllers=false")
    refused(run(*flags), "tls.clientCAFile: cannot read", "none.crt")


def test_a_request_that_runs_when_the_manager_is_stopped_gets_its_answer(
    jobset_server: Cluster, config: Path, certificate: bytes
):
    manager = start(jobset_server, config, "--controllers=false")
    try:
        wait_for(lambda: "webhooks serve" in manager.log.read_text(), what="the webhooks")
        review = {"uid": "1", "operation": "CREATE", "namespace": "default", "object": manifest(group())}
        kind = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        body = json.dumps({**kind, "request": review}).encode()
        head = (
            "POST /validate-jobset-x-k8s-io-v1alpha2-jobset HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        tls = ssl.create_default_context(cadata=certificate.decode())
        with (
            socket.create_connection(("localhost", manager.webhook_port), timeout=10) as plain,
            tls.wrap_socket(plain, server_hostname="localhost") as slow,
        ):
            slow.sendall(head.encode() + body[:50])
            manager.process.send_signal(signal.SIGTERM)
            wait_for(lambda: "stopping" in manager.log.read_text(), what="the stop")
            time.sleep(2)  # a client that is slow, not a wait for something to have happened
            slow.sendall(body[50:])
            answer = b"".join(iter(lambda: slow.recv(65536), b""))
        assert b'"allowed":true' in answer
        assert manager.process.wait(10) == 0, manager.tail()
    finally:
        local.stop(manager)
