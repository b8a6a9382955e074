"""Where the API server is and as whom we speak to it: kubeconfig or in-cluster, kept fresh.

kubernetes_asyncio reads the files, runs exec plugins and refreshes OIDC tokens. Around it: every mistake in a
kubeconfig becomes one `KubeconfigError` line (the library answers some with a TypeError), tokens are renewed on time
and after a 401, and a renewed client certificate reaches new connections. Must not send requests to the API server.
"""

import asyncio
import base64
import hashlib
import logging
import os
import re
import shutil
import ssl
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import yaml

from kube.clock import rfc3339
from kube.errors import KubeconfigError, KubeError, Unauthorized
from kube.loaders import (
    SERVICE_HOST_ENV_NAME,
    ConfigException,
    Configuration,
    KubeConfigMerger,
    load_incluster_config,
    load_kube_config,
)
from kube.tls import read_by_record

log = logging.getLogger(__name__)

TOKEN_PERIOD = 60.0
"""Seconds after which a token that lives in a file or comes from an identity provider is read again."""

RETRY_PERIOD = 10.0
"""Seconds to keep the old credentials after a renewal failed, so that a broken plugin is not run per request."""

PLUGIN_TIMEOUT = 60.0
"""Seconds an exec plugin or an identity provider may take."""

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

LOADER_ERRORS = (ConfigException, OSError, ValueError, KeyError, TypeError, AttributeError, AssertionError)


class Loaded(NamedTuple):
    """The credentials, how many seconds it is good for (inf: until a 401), and "where" for messages.

    `namespace` is the context's, empty where it names none.
    """

    configuration: Configuration
    valid_for: float
    where: str
    namespace: str = ""


Load = Callable[[], Awaitable[Loaded]]
Clock = Callable[[], float]
"""Seconds that only go forward."""


class Credentials:
    """The current endpoint, TLS context and token.

    `generation` counts renewals. `namespace` is the context's, or the pod's; empty where there is none.
    """

    def __init__(self, load: Load, loaded: Loaded, clock: Clock) -> None:
        self._load = load
        self._clock = clock
        self._lock = asyncio.Lock()
        self._fingerprint = b""
        self._tls: ssl.SSLContext | None = None
        self.generation = 0
        self.namespace = loaded.namespace
        self._install(loaded)

    @property
    def server(self) -> str:
        """Base URL without a trailing slash."""
        return self.configuration.host

    @property
    def host(self) -> str:
        """host:port, for metrics."""
        return urlsplit(self.server).netloc

    def connection(self) -> dict[str, Any]:
        """Arguments of aiohttp for one request: TLS context, expected server name, proxy."""
        options: dict[str, Any] = {"proxy": self._proxy}
        if self._tls is not None:
            options |= {"ssl": self._tls, "server_hostname": self.configuration.tls_server_name}
        return options

    async def headers(self) -> dict[str, str]:
        """The Authorization header, from a token that is renewed first when it is due."""
        if self._clock() >= self._due:
            await self.renew(self.generation)
        token = self.configuration.api_key.get("BearerToken")
        return {"Authorization": token.strip()} if token else {}

    async def renew(self, generation: int) -> bool:
        """Load again unless somebody did so since `generation`. False: it failed, the old credentials stay."""
        async with self._lock:
            if generation != self.generation:
                return True
            try:
                self._install(await self._load())
            except KubeconfigError as error:
                log.warning("credentials not renewed: %s", error)
                self._due = self._clock() + RETRY_PERIOD
                return False
            self.generation += 1
            return True

    def _install(self, loaded: Loaded) -> None:
        configuration = loaded.configuration
        if configuration.host.startswith("https"):
            fingerprint = _fingerprint(configuration)
            if fingerprint != self._fingerprint:
                self._tls, self._fingerprint = _tls(configuration, loaded.where), fingerprint
        self.configuration = configuration
        self._proxy = configuration.proxy or _environment_proxy(configuration.host)
        self._due = self._clock() + loaded.valid_for


async def load(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    namespace_file: Path = NAMESPACE_FILE,
    clock: Clock = time.monotonic,
) -> Credentials:
    """Standard resolution: the given path, $KUBECONFIG, in-cluster, ~/.kube/config. Raises `KubeconfigError`."""
    path = _path(kubeconfig)
    reload: Load = partial(_load_file, path, context) if path else partial(_load_in_cluster, namespace_file)
    return Credentials(reload, await reload(), clock)


def describe_target(kubeconfig: str = "", context: str = "") -> str:
    """What `load` connects to, in words: server, file and context. Raises `KubeconfigError` as far as files tell."""
    path = _path(kubeconfig)
    if not path:
        return f"the cluster of this pod ({os.environ[SERVICE_HOST_ENV_NAME]})"
    picked = _inspect(path, context or None)
    return f"{picked.server} ({picked.where})"


def explain_error(error: KubeError, kubeconfig: str = "", context: str = "", *, at: datetime | None = None) -> str:
    """The error with its cluster, and what to do about a refused user: for messages to the person who chose both.

    `at`: the time; None: now. Files that cannot be read any more leave the error as it is.
    """
    try:
        text = f"{error}; this is {describe_target(kubeconfig, context)}"
        path = _path(kubeconfig)
        if isinstance(error, Unauthorized) and path:
            text += _refusal(_inspect(path, context or None), Path(path), at or datetime.now(UTC))
    except KubeconfigError:
        return str(error)
    return text


_CREDENTIALS = (
    "auth-provider", "client-certificate", "client-certificate-data", "exec", "password", "token", "tokenFile"
)  # fmt: skip
"""Fields of a user in a kubeconfig by which the API server knows it."""


def _refusal(picked: "_Picked", file: Path, at: datetime) -> str:
    """Why the API server does not know the user, as far as the kubeconfig tells, and how to get in."""
    login = "log in again, or write a new token or certificate of this user into the kubeconfig"
    if expired := _expiry(picked, file, at):
        return f"{expired}; {login}"
    given = any(picked.user.get(key) for key in _CREDENTIALS)
    problem = (
        "is not accepted: its token or certificate is wrong or has expired" if given else "has no token or certificate"
    )
    return f": user {picked.user_name!r} {problem}; {login}"


def _expiry(picked: "_Picked", file: Path, at: datetime) -> str:
    """A sentence that the client certificate has expired; "" if it is valid, absent or unreadable."""
    from cryptography import x509  # noqa: PLC0415 - for a rare message

    data, name = picked.user.get("client-certificate-data"), picked.user.get("client-certificate")
    try:
        pem = base64.b64decode(data) if data else (file.expanduser().parent / name).read_bytes() if name else b""
        end = x509.load_pem_x509_certificate(pem).not_valid_after_utc
    except (OSError, ValueError, TypeError):
        return ""
    return f": the client certificate of user {picked.user_name!r} has expired at {rfc3339(end)}" if end <= at else ""


def _path(kubeconfig: str | None) -> str:
    """The file, or several, of the kubeconfig; empty in a pod."""
    given = kubeconfig or os.environ.get("KUBECONFIG", "")
    return given or ("" if os.environ.get(SERVICE_HOST_ENV_NAME) else str(Path.home() / ".kube" / "config"))


async def _load_in_cluster(namespace_file: Path) -> Loaded:
    configuration = Configuration()
    try:
        load_incluster_config(client_configuration=configuration, try_refresh_token=False)
    except (ConfigException, OSError) as error:
        raise KubeconfigError(f"in-cluster credentials: {_line(error)}") from error
    return Loaded(configuration, TOKEN_PERIOD, "in-cluster credentials", pod_namespace(namespace_file))


def pod_namespace(file: Path = NAMESPACE_FILE) -> str:
    """The namespace of the pod that this process runs in; empty outside a cluster."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


async def _load_file(path: str, context: str | None) -> Loaded:
    user, _, where, namespace, _ = _inspect(path, context)
    configuration = Configuration()
    try:
        async with asyncio.timeout(PLUGIN_TIMEOUT):
            loader = await load_kube_config(path, context=context, client_configuration=configuration)
    except TimeoutError as error:
        raise KubeconfigError(f"{where}: the credential plugin did not answer in {PLUGIN_TIMEOUT:g} s") from error
    except LOADER_ERRORS as error:
        raise KubeconfigError(f"{where}: {_line(error)}") from error
    if "exec" in user and not (configuration.api_key or configuration.cert_file):
        raise KubeconfigError(
            f"{where}: exec plugin {user['exec'].get('command')!r} gave neither token nor certificate"
        )
    expiry = getattr(loader, "exec_plugin_expiry", None)
    if expiry is not None:
        left = (expiry - datetime.now(UTC)).total_seconds()
        return Loaded(configuration, max(left * 0.8, 1.0), where, namespace)
    rotates = {"tokenFile", "auth-provider"} & user.keys()
    return Loaded(configuration, TOKEN_PERIOD if rotates else float("inf"), where, namespace)


class _Picked(NamedTuple):
    """What the context names: its user's entry, "where" for messages, its namespace, and the server."""

    user: dict[str, Any]
    user_name: str
    where: str
    namespace: str
    server: str


def _inspect(path: str, context: str | None) -> _Picked:
    """Check what the library would trip over."""
    files = [Path(part).expanduser() for part in path.split(os.pathsep) if part]
    if not any(file.exists() for file in files):
        raise KubeconfigError(f"kubeconfig {path}: no such file; give --kubeconfig, set KUBECONFIG or run in a cluster")
    try:
        for file in filter(Path.exists, files):
            with file.open(encoding="utf-8") as text:
                fault = _misshapen(yaml.safe_load(text))
            if fault:
                raise KubeconfigError(f"kubeconfig {file}: not a kubeconfig: {fault}")
        merged = KubeConfigMerger(path).config.value
        sections = {
            name: {e.value["name"]: e.value for e in merged[name]} for name in ("contexts", "clusters", "users")
        }
    except yaml.YAMLError as error:
        raise KubeconfigError(f"kubeconfig {path}: not YAML: {_line(error)}") from error
    except LOADER_ERRORS as error:
        raise KubeconfigError(f"kubeconfig {path}: not a kubeconfig: {_line(error)}") from error
    context = context or merged.get("current-context")
    if not context:
        raise KubeconfigError(f"kubeconfig {path}: it has no current-context, and no other was chosen")
    where = f"kubeconfig {path}, context {context!r}"
    if context not in sections["contexts"]:
        known = ", ".join(sorted(sections["contexts"])) or "none"
        raise KubeconfigError(f"{where}: no such context (the file has: {known})")
    named = sections["contexts"][context].get("context") or {}
    entries = {}
    for kind in ("cluster", "user"):
        name = named.get(kind) or ""
        if name not in sections[f"{kind}s"]:
            raise KubeconfigError(f"{where}: its {kind} {name!r} is not in the file")
        entries[kind] = sections[f"{kind}s"][name].get(kind) or {}
    _check(entries["cluster"], entries["user"], where)
    namespace = str(named.get("namespace") or "")
    return _Picked(entries["user"], str(named.get("user") or ""), where, namespace, entries["cluster"]["server"])


def _misshapen(config: Any) -> str:
    """The first part of a file that does not have the form of a kubeconfig; "" if there is none."""
    if not isinstance(config, dict):
        return "it must be a mapping"
    for name in ("contexts", "clusters", "users"):
        entries, inner = config.get(name) or [], name.removesuffix("s")
        if not isinstance(entries, list):
            return f"{name} must be a list"
        for number, entry in enumerate(entries):
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                return f"{name}[{number}] must have a name"
            if not isinstance(entry.get(inner) or {}, dict):
                return f"{name}[{number}].{inner} must be a mapping"
            for key in ("cluster", "user", "server"):
                if not isinstance((entry.get(inner) or {}).get(key), str | None):
                    return f"{name}[{number}].{inner}.{key} must be a text"
    return "" if isinstance(config.get("current-context"), str | None) else "current-context must be a name"


def _check(cluster: dict[str, Any], user: dict[str, Any], where: str) -> None:
    server = str(cluster.get("server") or "")
    if urlsplit(server).scheme not in {"http", "https"}:
        raise KubeconfigError(f"{where}: server {server!r} is not an http or https URL")
    proxy = str(cluster.get("proxy-url") or "http:")
    if urlsplit(proxy).scheme not in {"http", "https"}:
        raise KubeconfigError(f"{where}: proxy-url {proxy!r}: only http and https proxies are supported")
    if {"as", "as-groups", "as-uid", "as-user-extra"} & user.keys():
        raise KubeconfigError(f"{where}: impersonation (`as`) is not supported; use that user's own credentials")
    plugin = user.get("exec")
    if isinstance(plugin, dict) and isinstance(plugin.get("command"), str) and "PATH" not in str(plugin.get("env")):
        _check_program(plugin, where)


def _check_program(plugin: dict[str, Any], where: str) -> None:
    """Raise if the program of an exec plugin does not exist; the library would log that without the context."""
    command = plugin["command"]
    if command and shutil.which(command) is None:
        hint = plugin.get("installHint") or "install it, or correct the path"
        raise KubeconfigError(
            f"{where}: there is no program {command!r}, the credential plugin that users[].user.exec.command names:"
            f" {' '.join(str(hint).split())}"
        )


def _environment_proxy(server: str) -> str | None:
    """The proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY name for this server, as kubectl has it."""
    parts = urlsplit(server)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


def _fingerprint(configuration: Configuration) -> bytes:
    digest = hashlib.sha256()
    for path in (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file):
        digest.update(Path(path).read_bytes() if path else b"-")
    return digest.digest()


def _tls(configuration: Configuration, where: str) -> ssl.SSLContext:
    part = "certificate authority"
    try:
        context = read_by_record(ssl.create_default_context(cafile=configuration.ssl_ca_cert))
        if configuration.cert_file:
            part = "client certificate or its key"
            context.load_cert_chain(configuration.cert_file, configuration.key_file)
    except (ssl.SSLError, OSError) as error:
        raise KubeconfigError(f"{where}: {part} unusable: {_line(error)}") from error
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _line(error: BaseException) -> str:
    """In words: errors of Python about a value of a wrong type quote nothing that helps."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    if isinstance(error, ssl.SSLError):
        return "no PEM file that can be read, or a key of another certificate"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    if not isinstance(error, ConfigException | OSError | yaml.YAMLError):
        return "a value in it has a wrong type or form"
    if missing := re.match(r"Invalid kube-config file\. Expected key (\S+) in ", str(error)):
        return f"the key {missing[1]} is missing or empty"
    said = str(error).replace("File does not exists:", "there is no file")
    return " ".join(said.split()) or "it cannot be used"
