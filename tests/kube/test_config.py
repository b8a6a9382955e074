"""Kubeconfig and in-cluster credentials: found in the usual order, kept fresh, one clear line when wrong."""

import base64
import json
import os
import ssl
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import certifi
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from kube.config import describe_target, explain_error, load
from kube.errors import KubeconfigError, Status, TransportError, from_status


def write(path: Path, *, server="http://one:8080", user=None, cluster=None, context=None) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u", **(context or {})}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "u", "user": {"token": "abc"} if user is None else user}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture(autouse=True)
def _bare(monkeypatch, tmp_path):
    """No configuration but the test's."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def in_cluster(monkeypatch, tmp_path) -> Path:
    file, ca = tmp_path / "token", tmp_path / "ca.crt"
    file.write_text("pod-token\n")
    ca.write_text("# Főtanúsítvány\n" + Path(certifi.where()).read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr("kube.config.SERVICE_ACCOUNT", tmp_path)
    return file


async def test_the_given_path_then_the_variable_then_the_cluster_then_home(monkeypatch, tmp_path):
    home = tmp_path / "home" / ".kube"
    home.mkdir(parents=True)
    write(home / "config", server="http://home")
    assert (await load()).server == "http://home"
    in_cluster(monkeypatch, tmp_path)
    assert (await load()).server == "https://10.0.0.1:443"
    monkeypatch.setenv("KUBECONFIG", str(write(tmp_path / "env", server="http://env")))
    assert (await load()).server == "http://env"
    assert (await load(str(write(tmp_path / "flag", server="http://flag/")))).server == "http://flag"


async def test_what_would_be_chosen_is_told_in_words(monkeypatch, tmp_path):
    path = write(tmp_path / "flag", server="https://flag:6443")
    assert describe_target(str(path)) == f"https://flag:6443 (kubeconfig {path}, context 'dev')"
    with pytest.raises(KubeconfigError, match="/none: no such file"):
        describe_target("/none")
    in_cluster(monkeypatch, tmp_path)
    assert describe_target() == "the cluster of this pod (10.0.0.1)"


@pytest.mark.parametrize("form", ["data", "file"])
def test_a_refusal_names_the_client_certificate_that_has_expired(tmp_path, form):
    end = datetime(2026, 3, 1, tzinfo=UTC)
    pem = certificate(end)
    (tmp_path / "client.crt").write_bytes(pem)
    by_form = {
        "data": {"client-certificate-data": base64.b64encode(pem).decode()},
        "file": {"client-certificate": "client.crt"},
    }
    path = write(tmp_path / "config", user=by_form[form])
    refused = from_status(Status(reason="Unauthorized", message="Unauthorized"), code=401)
    where = f"401 Unauthorized: Unauthorized; this is http://one:8080 (kubeconfig {path}, context 'dev')"
    login = "log in again, or write a new token or certificate of this user into the kubeconfig"
    expired = f"{where}: the client certificate of user 'u' has expired at 2026-03-01T00:00:00Z; {login}"
    assert explain_error(refused, str(path), at=end) == expired
    assert explain_error(refused, str(path), at=end - timedelta(seconds=1)) == (
        f"{where}: user 'u' is not accepted: its token or certificate is wrong or has expired; {login}"
    )
    assert explain_error(TransportError("refused"), str(path), at=end).endswith("'dev')"), (
        "nothing that the API server has seen"
    )


def test_a_refusal_is_told_whatever_the_kubeconfig_holds(tmp_path):
    refused = from_status(Status(reason="Unauthorized"), code=401)
    bad = write(tmp_path / "config", user={"client-certificate-data": "bm90IGEgcGVt"})
    where = f"401 Unauthorized; this is http://one:8080 (kubeconfig {bad}, context 'dev')"
    assert explain_error(refused, str(bad)).startswith(f"{where}: user 'u' is not accepted: ")
    none = write(tmp_path / "none", user={})
    assert "context 'dev'): user 'u' has no token or certificate; log in again, " in explain_error(refused, str(none))
    assert explain_error(refused, str(tmp_path / "gone")) == "401 Unauthorized"
    with pytest.raises(KubeconfigError, match="no such context"):
        describe_target(str(bad), "other")


def certificate(end: datetime) -> bytes:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, end - timedelta(days=1), end)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


async def test_the_namespace_is_the_one_of_the_context_or_of_the_pod(monkeypatch, tmp_path):
    assert (await load(str(write(tmp_path / "none")))).namespace == ""
    assert (await load(str(write(tmp_path / "one", context={"namespace": "team"})))).namespace == "team"
    in_cluster(monkeypatch, tmp_path)
    assert (await load()).namespace == ""
    (tmp_path / "namespace").write_text("pods\n")
    assert (await load()).namespace == "pods"


async def test_files_of_the_variable_are_merged(monkeypatch, tmp_path):
    first = write(tmp_path / "first", context={"cluster": "elsewhere"})
    second = tmp_path / "second"
    second.write_text(yaml.safe_dump({"clusters": [{"name": "elsewhere", "cluster": {"server": "http://elsewhere"}}]}))
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([str(first), str(tmp_path / "missing"), str(second)]))
    assert (await load()).server == "http://elsewhere"


BAD = [
    ({"server": "one:6443"}, r"server 'one:6443' is not an http or https URL"),
    ({"context": {"user": "who"}}, r"its user 'who' is not in the file"),
    ({"context": {"cluster": "where"}}, r"its cluster 'where' is not in the file"),
    ({"user": {"as": "root", "token": "t"}}, r"impersonation \(`as`\) is not supported"),
    ({"cluster": {"proxy-url": "socks5://p"}}, r"only http and https proxies"),
    ({"server": "https://one", "cluster": {"certificate-authority": "/no/such/ca"}}, r"/no/such/ca"),
    (
        {"server": "https://one", "cluster": {"certificate-authority-data": "bm90IGEgcGVt"}},
        r"certificate authority unusable: ",
    ),
    (
        {
            "server": "https://one",
            "user": {"client-certificate-data": "bm90IGEgcGVt", "client-key-data": "bm90IGEgcGVt"},
        },
        r"client certificate or its key unusable: no PEM file that can be read, or a key of another certificate$",
    ),
    ({"server": "https://one", "cluster": {"certificate-authority-data": "%%%"}}, r"context 'dev': certificate"),
    (
        {"user": {"exec": {"command": "/no/such/plugin", "apiVersion": "v1"}}},
        r"there is no program '/no/such/plugin', the credential plugin that users\[\].user.exec.command names: install",
    ),
    (
        {"user": {"exec": {"command": "no-such-plugin", "apiVersion": "v1", "installHint": "get it\n at x"}}},
        r"there is no program 'no-such-plugin', .* names: get it at x$",
    ),
    (
        {"server": "https://one", "user": {"client-certificate": "/no/c", "client-key": "/no/k"}},
        r"there is no file /no/c",
    ),
    ({"user": {"tokenFile": "/no/such/token"}}, r"/no/such/token"),
]


@pytest.mark.parametrize(("parts", "message"), BAD, ids=[message for _, message in BAD])
async def test_a_mistake_is_one_line_that_names_file_context_and_cause(tmp_path, parts, message):
    path = write(tmp_path / "config", **parts)
    with pytest.raises(KubeconfigError, match=message) as caught:
        await load(str(path))
    line = str(caught.value)
    assert "\n" not in line
    assert str(path) in line
    assert "context 'dev'" in line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such file; give --kubeconfig"),
        ("", "not a kubeconfig"),
        ("{a: [", "not YAML"),
        ("just text", "not a kubeconfig"),
        ("apiVersion: v1\nkind: Config\n", "it has no current-context, and no other was chosen"),
    ],
)
async def test_what_is_no_kubeconfig_is_reported(tmp_path, text, message):
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(KubeconfigError, match=message):
        await load(str(path))


@pytest.mark.parametrize(
    ("environment", "cluster", "proxy"),
    [
        ({}, {}, None),
        ({"https_proxy": "http://p:3128"}, {}, "http://p:3128"),
        ({"http_proxy": "http://p:3128"}, {}, None),
        ({"https_proxy": "http://p:3128", "no_proxy": "other,one"}, {}, None),
        ({"https_proxy": "http://p:3128"}, {"proxy-url": "http://own:1"}, "http://own:1"),
    ],
)
async def test_a_proxy_comes_from_the_kubeconfig_or_the_environment(monkeypatch, tmp_path, environment, cluster, proxy):
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    path = write(tmp_path / "config", server="https://one:6443", cluster={"insecure-skip-tls-verify": True, **cluster})
    assert (await load(str(path))).connection()["proxy"] == proxy


async def test_another_context_can_be_chosen_and_a_missing_one_lists_what_there_is(tmp_path):
    with pytest.raises(KubeconfigError, match=r"context 'prod': no such context \(the file has: dev\)"):
        await load(str(write(tmp_path / "config")), context="prod")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_a_rotated_token_is_picked_up_in_a_pod_and_from_a_file(monkeypatch, tmp_path):
    clock = Clock()
    pod = in_cluster(monkeypatch, tmp_path)
    inside = await load(clock=clock)
    file = tmp_path / "token-file"
    file.write_text("first\n")
    outside = await load(str(write(tmp_path / "config", user={"tokenFile": str(file)})), clock=clock)
    assert await inside.headers() == {"Authorization": "Bearer pod-token"}
    assert await outside.headers() == {"Authorization": "Bearer first"}, "no newline may get into a header"
    pod.write_text("new-pod-token")
    file.write_text("second")
    assert await outside.headers() == {"Authorization": "Bearer first"}
    clock.now += 61
    assert await inside.headers() == {"Authorization": "Bearer new-pod-token"}
    assert await outside.headers() == {"Authorization": "Bearer second"}


@pytest.mark.parametrize("skip_at_first", [True, False])
async def test_renewed_credentials_verify_the_server_as_the_kubeconfig_now_says(tmp_path, skip_at_first):
    path = tmp_path / "config"

    def write_file(skip: bool) -> None:
        write(path, server="https://one:6443", cluster={"insecure-skip-tls-verify": skip})

    modes = {True: (ssl.CERT_NONE, False), False: (ssl.CERT_REQUIRED, True)}
    write_file(skip_at_first)
    credentials = await load(str(path))
    for skip in (skip_at_first, not skip_at_first, skip_at_first):
        write_file(skip)
        assert await credentials.renew(credentials.generation)
        context = credentials.connection()["ssl"]
        assert (context.verify_mode, context.check_hostname) == modes[skip]


async def test_a_tls_context_is_kept_while_its_settings_stay(tmp_path):
    path = write(tmp_path / "config", server="https://one:6443")
    credentials = await load(str(path))
    context = credentials.connection()["ssl"]
    write(path, server="https://two:6443", user={"token": "new"})
    assert await credentials.renew(credentials.generation)
    assert credentials.connection()["ssl"] is context


async def test_credentials_that_cannot_be_renewed_stay_and_are_tried_again(tmp_path):
    clock = Clock()
    file = tmp_path / "token-file"
    file.write_text("first")
    credentials = await load(str(write(tmp_path / "config", user={"tokenFile": str(file)})), clock=clock)
    file.unlink()
    clock.now += 61
    assert await credentials.headers() == {"Authorization": "Bearer first"}
    file.write_text("second")
    assert await credentials.headers() == {"Authorization": "Bearer first"}, "not at every request"
    clock.now += 11
    assert await credentials.headers() == {"Authorization": "Bearer second"}


async def test_an_exec_plugin_runs_once_until_its_token_nears_its_end_or_is_refused(tmp_path):
    clock = Clock()
    runs = tmp_path / "runs"
    expiry = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1000))
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    plugin = tmp_path / "plugin.py"
    plugin.write_text(
        "import json, pathlib\n"
        f"runs = pathlib.Path({str(runs)!r})\n"
        "count = int(runs.read_text()) + 1 if runs.exists() else 1\n"
        "runs.write_text(str(count))\n"
        f"answer = json.loads({json.dumps(answer)!r})\n"
        f"answer['status'] = {{'token': f'token-{{count}}', 'expirationTimestamp': {expiry!r}}}\n"
        "print(json.dumps(answer))\n"
    )
    user = {"exec": {"apiVersion": answer["apiVersion"], "command": sys.executable, "args": [str(plugin)]}}
    credentials = await load(str(write(tmp_path / "config", user=user)), clock=clock)
    for _ in range(3):
        assert await credentials.headers() == {"Authorization": "Bearer token-1"}
    clock.now += 700
    assert await credentials.headers() == {"Authorization": "Bearer token-1"}
    clock.now += 150
    assert await credentials.headers() == {"Authorization": "Bearer token-2"}
    generation = credentials.generation
    assert await credentials.renew(generation)
    assert await credentials.renew(generation), "two requests that were refused together renew once"
    assert await credentials.headers() == {"Authorization": "Bearer token-3"}
