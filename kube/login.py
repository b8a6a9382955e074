"""Logs a user of a kubeconfig in: by a token or certificate of a file, an exec plugin or an identity provider."""

import asyncio
import base64
import json
import logging
import os
import ssl
import stat
import sys
import time
from asyncio.subprocess import PIPE
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import aiohttp
import yaml

from kube.errors import KubeconfigError
from kube.kubeconfig import Entry
from kube.tls import client_context

log = logging.getLogger(__name__)

TOKEN_PERIOD = 60.0
"""Seconds after which a token of a file or of an identity provider is read again."""

_RENEW_BEFORE = 300
"""A token of an identity provider is renewed this many seconds before it expires."""


class Login(NamedTuple):
    """The value of the Authorization header, a certificate and its key in PEM, each empty if there is none."""

    authorization: str = ""
    certificate: bytes = b""
    key: bytes = b""
    valid_for: float = float("inf")
    """Seconds for which the login is used; inf: until the API server refuses it."""


async def log_in(user: Entry) -> Login:
    """The identity of the user. Raises `KubeconfigError`, or one of `kube.kubeconfig.FAULTS`."""
    values = user.values
    certificate_login = Login("", user.read("client-certificate"), user.read("client-key"))
    if provider := values.get("auth-provider"):
        if provider.get("name") != "oidc":
            raise KubeconfigError(
                f"auth-provider {provider.get('name')!r} is not supported, nor is it by kubectl; use its exec plugin"
            )
        token = await _read_oidc_token(replace(user, values=provider.get("config") or {}))
        return certificate_login._replace(authorization=f"Bearer {token}", valid_for=TOKEN_PERIOD)
    if plugin := values.get("exec"):
        return await _run_plugin(plugin, certificate_login)
    if token_value := values.get("token"):
        return certificate_login._replace(authorization=f"Bearer {token_value.strip()}")
    if token := user.read_file("tokenFile").decode().strip():
        return certificate_login._replace(authorization=f"Bearer {token}", valid_for=TOKEN_PERIOD)
    if "username" in values and "password" in values:
        return certificate_login._replace(authorization=_encode_basic(values["username"], values["password"]))
    return certificate_login


def _encode_basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


async def _run_plugin(plugin: dict[str, Any], certificate_login: Login) -> Login:
    """Run an exec plugin (client.authentication.k8s.io) and return its credentials."""
    version = plugin["apiVersion"]
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": sys.stdout.isatty()}}
    environment = {item["name"]: item["value"] for item in plugin.get("env") or ()}
    process = await asyncio.create_subprocess_exec(
        plugin["command"],
        *(plugin.get("args") or ()),
        env={**os.environ, **environment, "KUBERNETES_EXEC_INFO": json.dumps(info)},
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        stderr = " ".join(err.decode(errors="replace").split())
        raise KubeconfigError(f"exec: process returned {process.returncode}{stderr and f'. {stderr}'}")
    try:
        answer = json.loads(out)
    except ValueError as error:
        raise KubeconfigError(f"exec: failed to decode process output: {error}") from error
    if answer.get("apiVersion") != version:
        raise KubeconfigError(f"exec: plugin api version {answer.get('apiVersion')} does not match {version}")
    status = answer["status"]
    token, certificate = status.get("token"), status.get("clientCertificateData")
    if not token and not (certificate and status.get("clientKeyData")):
        raise KubeconfigError(f"exec plugin {plugin['command']!r} gave neither token nor certificate")
    credential = certificate_login
    if certificate:
        credential = credential._replace(certificate=certificate.encode(), key=status["clientKeyData"].encode())
    if token:
        credential = credential._replace(authorization=f"Bearer {token.strip()}")
    if end := status.get("expirationTimestamp"):
        seconds_left = (datetime.fromisoformat(end) - datetime.now(UTC)).total_seconds()
        credential = credential._replace(valid_for=max(seconds_left * 0.8, 1.0))
    return credential


async def _read_oidc_token(provider: Entry) -> str:
    """The token of an identity provider, renewed if it is about to expire. `provider`: its configuration."""
    token = str(provider.values.get("id-token") or "")
    if token and not _ends_soon(token):
        return token
    if not provider.values.get("refresh-token"):
        raise KubeconfigError("oidc: the id-token is missing or has expired, and there is no refresh-token")
    try:
        tokens = await _refresh_tokens(provider)
    except (aiohttp.ClientError, TimeoutError, ssl.SSLError) as error:
        raise KubeconfigError(f"oidc: failed to refresh the token: {' '.join(str(error).split())}") from error
    _store_tokens(provider, tokens)
    return tokens["id-token"]


def _ends_soon(token: str) -> bool:
    parts = token.split(".")
    if len(parts) != 3:
        raise KubeconfigError("oidc: the id-token must have three parts with a period between them")
    end = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))).get("exp")
    return end is not None and end - _RENEW_BEFORE <= time.time()


async def _refresh_tokens(provider: Entry) -> dict[str, str]:
    """Request new tokens; returns them by their keys in a kubeconfig."""
    config = provider.values
    authority = provider.read("idp-certificate-authority")
    async with aiohttp.ClientSession(
        headers={"Authorization": _encode_basic(config["client-id"], config.get("client-secret") or "")},
        connector=aiohttp.TCPConnector(ssl=client_context(authority)),
        raise_for_status=True,
        trust_env=True,
    ) as session:
        discovery_url = f"{config['idp-issuer-url'].rstrip('/')}/.well-known/openid-configuration"
        async with session.get(discovery_url) as answer:
            endpoint = (await answer.json())["token_endpoint"]
        form = {"grant_type": "refresh_token", "refresh_token": config["refresh-token"]}
        async with session.post(endpoint, data=form) as answer:
            tokens = await answer.json()
    return {"id-token": tokens["id_token"], "refresh-token": tokens.get("refresh_token") or config["refresh-token"]}


def _store_tokens(provider: Entry, tokens: dict[str, str]) -> None:
    """Write the tokens into the kubeconfig, since many providers accept a refresh-token only once.

    The file is replaced atomically, so that it is readable at any time.
    """
    file = provider.file.resolve()
    new_file = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        body = yaml.safe_load(file.read_text(encoding="utf-8"))
        [user] = [entry["user"] for entry in body["users"] if entry["name"] == provider.name]
        user["auth-provider"]["config"].update(tokens)
        new_file.touch(mode=stat.S_IMODE(file.stat().st_mode))
        new_file.write_text(yaml.safe_dump(body, sort_keys=False), encoding="utf-8")
        new_file.replace(file)
    except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError) as error:
        new_file.unlink(missing_ok=True)
        log.warning("kubeconfig %s: the new tokens of user %r are not stored: %s", provider.file, provider.name, error)
