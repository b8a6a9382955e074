"""Users of a kubeconfig: tokens of an identity provider, plugins that fail, passwords."""

import base64
import json
import sys
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml

from kube.config import Credentials, load
from kube.errors import KubeconfigError
from kube.kubeconfig import Entry
from kube.login import _store_tokens
from tests.support.kubeconfigs import Quiet, kubeconfig, serving_http
from tests.support.tls import context_with, material


async def headers_of(tmp_path: Path, **user: Any) -> dict[str, str]:
    return await (await load(kubeconfig(tmp_path, "http://one", **user))).headers()


async def test_a_name_and_a_password(tmp_path: Path):
    assert await headers_of(tmp_path, username="me", password="pw") == {"Authorization": "Basic bWU6cHc="}


def id_token(ends_in: float) -> str:
    body = base64.urlsafe_b64encode(json.dumps({"exp": time.time() + ends_in}).encode()).decode().rstrip("=")
    return f"h.{body}.s"


class Provider(Quiet, BaseHTTPRequestHandler):
    """An identity provider, which accepts a refresh-token once."""

    def do_GET(self) -> None:
        assert self.path == "/issuer/.well-known/openid-configuration"
        self._answer({"token_endpoint": f"https://127.0.0.1:{self.server.server_port}/token"})

    def do_POST(self) -> None:
        asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        secret = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        wanted = {"grant_type": ["refresh_token"], "refresh_token": [f"refresh-{self.server.uses}"]}
        if (self.path, secret, asked) != ("/token", "kube:pw", wanted):
            self.send_error(400)
            return
        self.server.uses += 1
        self._answer({"id_token": id_token(3600), "refresh_token": f"refresh-{self.server.uses}"})

    def _answer(self, body: dict[str, str]) -> None:
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def provider_of(server: str, authorities: bytes = b"", **config: str) -> dict[str, Any]:
    if authorities:
        config["idp-certificate-authority-data"] = base64.b64encode(authorities).decode()
    usual = {"client-id": "kube", "client-secret": "pw", "idp-issuer-url": f"{server}/issuer/"}
    return {"name": "oidc", "config": {**usual, **config}}


def stored_provider(file: str) -> dict[str, str]:
    return yaml.safe_load(Path(file).read_text())["users"][0]["user"]["auth-provider"]["config"]


def test_a_kubeconfig_stays_as_it_is_where_a_new_token_cannot_be_stored(tmp_path: Path):
    file = tmp_path / "config"
    file.write_text("users: []\n")
    _store_tokens(Entry("x", {}, file), {"id-token": "new"})
    assert file.read_text() == "users: []\n"
    assert [path.name for path in tmp_path.iterdir()] == ["config"]


async def test_a_token_of_an_identity_provider_is_renewed_before_its_end_and_stored(tmp_path: Path):
    pair = material()
    with serving_http(Provider, context_with(pair)) as (server, address):
        server.uses = 0
        authorities = "# Főtanúsítvány\n".encode() + pair.authorities
        user = provider_of(address, authorities, **{"id-token": id_token(60), "refresh-token": "refresh-0"})
        file = kubeconfig(tmp_path, "http://one", **{"auth-provider": user})
        for _ in range(2):
            credentials: Credentials = await load(file)
            stored = stored_provider(file)
            assert await credentials.headers() == {"Authorization": f"Bearer {stored['id-token']}"}
            assert stored == {**user["config"], "id-token": stored["id-token"], "refresh-token": "refresh-1"}
            assert server.uses == 1, "a token that is still good for long is not renewed"
        distrusted = {**user, "config": {**stored, "id-token": "", "idp-certificate-authority-data": ""}}
        with pytest.raises(KubeconfigError, match=r"context 'x': oidc: failed to refresh the token: .*verify failed"):
            await headers_of(tmp_path, **{"auth-provider": distrusted})


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        ({"name": "gcp"}, "auth-provider 'gcp' is not supported, nor is it by kubectl; use its exec plugin"),
        (provider_of("http://none"), "oidc: the id-token is missing or has expired, and there is no refresh-token"),
        (provider_of("http://none", **{"id-token": "x"}), "oidc: the id-token must have three parts with a period"),
        ({"name": "oidc", "config": {"refresh-token": "x"}}, "the key client-id is missing"),
        ({"name": "oidc", "config": ["x"]}, "a value in it has a wrong type or form"),
    ],
)
async def test_what_is_wrong_with_an_identity_provider(tmp_path: Path, provider: dict[str, Any], message: str):
    with pytest.raises(KubeconfigError, match=f"context 'x': {message}"):
        await headers_of(tmp_path, **{"auth-provider": provider})


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("raise SystemExit('no\\n network')", "exec: process returned 1. no network$"),
        ("print('{')", "exec: failed to decode process output: "),
        ('print(\'{"apiVersion": "v0"}\')', "exec: plugin api version v0 does not match v1$"),
        ('print(\'{"apiVersion": "v1"}\')', "the key status is missing$"),
        ('print(\'{"apiVersion": "v1", "status": {}}\')', "exec plugin .* gave neither token nor certificate$"),
    ],
)
async def test_what_is_wrong_with_a_plugin(tmp_path: Path, script: str, message: str):
    plugin = {"apiVersion": "v1", "command": sys.executable, "args": ["-c", script]}
    with pytest.raises(KubeconfigError, match=f"context 'x': {message}"):
        await headers_of(tmp_path, exec=plugin)
