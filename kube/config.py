"""Loads the address of the API server and the credentials from a kubeconfig or from the pod, and renews them.

Tokens are renewed in time and after a 401; new connections use a renewed client certificate. Every fault is a
`KubeconfigError` of one line.
"""

import asyncio
import logging
import os
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from kube.errors import KubeconfigError, KubeError, Unauthorized
from kube.kubeconfig import FAULTS, choose_context, describe_fault, explain_refusal
from kube.login import TOKEN_PERIOD, Login, log_in
from kube.tls import client_context, read_by_record

log = logging.getLogger(__name__)

RETRY_PERIOD = 10.0
"""Seconds from a failed renewal to the next, so that a broken plugin does not run for each request."""

PLUGIN_TIMEOUT = 60.0
"""Seconds that an exec plugin or an identity provider may take."""

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
SERVICE_HOST = "KUBERNETES_SERVICE_HOST"


class TlsSettings(NamedTuple):
    """All that a TLS context depends on. Certificates and the key are PEM; an empty `authority` means the system's."""

    authority: bytes = b""
    certificate: bytes = b""
    key: bytes = b""
    verify: bool = True


@dataclass(frozen=True, slots=True)
class Configuration:
    """The address of the API server, and the identity to use."""

    host: str
    """Base URL without a trailing slash."""
    source: str
    """For messages: the file and its context."""
    namespace: str
    """The namespace of the context or of the pod; empty if there is none."""
    login: Login
    tls: TlsSettings
    tls_server_name: str | None = None
    proxy: str | None = None


Load = Callable[[], Awaitable[Configuration]]
Clock = Callable[[], float]
"""Monotonic seconds."""


class Credentials:
    """The current endpoint, TLS context and token.

    `generation` counts renewals. `namespace` is that of the context or the pod; empty if there is none.
    """

    def __init__(self, load: Load, configuration: Configuration, clock: Clock) -> None:
        self._load = load
        self._clock = clock
        self._lock = asyncio.Lock()
        self._tls_settings: TlsSettings | None = None
        self._tls: ssl.SSLContext | None = None
        self.generation = 0
        self.namespace = configuration.namespace
        self._install(configuration)

    @property
    def server(self) -> str:
        """Base URL without a trailing slash."""
        return self._configuration.host

    @property
    def host(self) -> str:
        """host:port, for metrics."""
        return urlsplit(self.server).netloc

    def connection(self) -> dict[str, Any]:
        """Arguments of aiohttp for one request: TLS context, expected server name, proxy."""
        options: dict[str, Any] = {"proxy": self._proxy}
        if self._tls is not None:
            options |= {"ssl": self._tls, "server_hostname": self._configuration.tls_server_name}
        return options

    async def headers(self) -> dict[str, str]:
        """The Authorization header, after a renewal if the credentials are due."""
        if self._clock() >= self._renew_at:
            await self.renew(self.generation)
        authorization = self._configuration.login.authorization
        return {"Authorization": authorization} if authorization else {}

    async def renew(self, generation: int) -> bool:
        """Load the credentials again, unless they are newer than `generation`.

        Returns False if loading failed; the old credentials are then kept.
        """
        async with self._lock:
            if generation != self.generation:
                return True
            try:
                self._install(await self._load())
            except KubeconfigError as error:
                log.warning("credentials not renewed: %s", error)
                self._renew_at = self._clock() + RETRY_PERIOD
                return False
            self.generation += 1
            return True

    def _install(self, configuration: Configuration) -> None:
        if configuration.host.startswith("https"):
            if configuration.tls != self._tls_settings:
                self._tls = _tls_context(configuration.tls, configuration.source)
            self._tls_settings = configuration.tls  # also if equal, which releases the old copy of the key
        self._configuration = configuration
        self._proxy = configuration.proxy or _environment_proxy(configuration.host)
        self._renew_at = self._clock() + configuration.login.valid_for


async def load(
    kubeconfig: str | None = None, context: str | None = None, *, clock: Clock = time.monotonic
) -> Credentials:
    """The credentials from the given path, $KUBECONFIG, the pod, or ~/.kube/config. Raises `KubeconfigError`."""
    path = _kubeconfig_path(kubeconfig)
    reload: Load = partial(_load_file, path, context) if path else _load_in_cluster
    return Credentials(reload, await reload(), clock)


def describe_target(kubeconfig: str = "", context: str = "") -> str:
    """Server, file and context that `load` would use, as a text. Raises `KubeconfigError` for faults of the files."""
    path = _kubeconfig_path(kubeconfig)
    if not path:
        return f"the cluster of this pod ({os.environ[SERVICE_HOST]})"
    chosen = choose_context(path, context or None)
    return f"{chosen.cluster.values['server']} ({chosen.source})"


def explain_error(error: KubeError, kubeconfig: str = "", context: str = "", *, at: datetime | None = None) -> str:
    """The text of the error, the cluster that it came from and, if the user was refused, what to do about it.

    `at`: the time; None means now. Only the error's text if the files cannot be read any more.
    """
    try:
        text = f"{error}; this is {describe_target(kubeconfig, context)}"
        path = _kubeconfig_path(kubeconfig)
        if isinstance(error, Unauthorized) and path:
            text += explain_refusal(choose_context(path, context or None).user, at or datetime.now(UTC))
    except KubeconfigError:
        return str(error)
    return text


def _kubeconfig_path(kubeconfig: str | None) -> str:
    """The path of the kubeconfig, or several paths joined by os.pathsep; empty in a pod."""
    paths = kubeconfig or os.environ.get("KUBECONFIG", "")
    return paths or ("" if os.environ.get(SERVICE_HOST) else str(Path.home() / ".kube" / "config"))


async def _load_in_cluster() -> Configuration:
    source = "in-cluster credentials"
    host, port = os.environ[SERVICE_HOST], os.environ.get("KUBERNETES_SERVICE_PORT")
    if not port:
        raise KubeconfigError(f"{source}: KUBERNETES_SERVICE_PORT is not set")
    try:
        token = (SERVICE_ACCOUNT / "token").read_text(encoding="utf-8").strip()
        authority = (SERVICE_ACCOUNT / "ca.crt").read_bytes()
    except FAULTS as error:
        raise KubeconfigError(f"{source}: {describe_fault(error)}") from error
    for name, content in (("token", token), ("ca.crt", authority)):
        if not content:
            raise KubeconfigError(f"{source}: {SERVICE_ACCOUNT / name} is empty")
    return Configuration(
        f"https://{f'[{host}]' if ':' in host else host}:{port}",
        source,
        pod_namespace(),
        Login(f"Bearer {token}", valid_for=TOKEN_PERIOD),
        TlsSettings(authority),
    )


def pod_namespace() -> str:
    """The namespace of the pod that this process runs in; empty outside a cluster."""
    try:
        return (SERVICE_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


async def _load_file(path: str, context: str | None) -> Configuration:
    cluster, user, source, namespace = choose_context(path, context)
    values = cluster.values
    try:
        async with asyncio.timeout(PLUGIN_TIMEOUT):
            login = await log_in(user)
        authority = cluster.read("certificate-authority")
    except TimeoutError as error:
        raise KubeconfigError(f"{source}: the credential plugin did not answer in {PLUGIN_TIMEOUT:g} s") from error
    except (KubeconfigError, *FAULTS) as error:
        raise KubeconfigError(f"{source}: {describe_fault(error)}") from error
    return Configuration(
        values["server"].rstrip("/"),
        source,
        namespace,
        login,
        TlsSettings(authority, login.certificate, login.key, not values.get("insecure-skip-tls-verify")),
        tls_server_name=values.get("tls-server-name"),
        proxy=values.get("proxy-url"),
    )


def _environment_proxy(server: str) -> str | None:
    """The proxy for this server from HTTPS_PROXY, HTTP_PROXY and NO_PROXY, as in kubectl."""
    url = urlsplit(server)
    return None if proxy_bypass(url.netloc) else getproxies().get(url.scheme)


def _tls_context(settings: TlsSettings, source: str) -> ssl.SSLContext:
    subject = "certificate authority"
    try:
        context = read_by_record(client_context(settings.authority))
        if settings.certificate:
            subject = "client certificate or its key"
            _load_certificate(context, settings)
    except (OSError, ValueError) as error:
        raise KubeconfigError(f"{source}: {subject} unusable: {_describe_tls_fault(error)}") from error
    if not settings.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _load_certificate(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Load a certificate through temporary files, since Python reads certificates from files only."""
    with TemporaryDirectory() as folder:
        certificate, key = Path(folder, "certificate"), Path(folder, "key")
        certificate.write_bytes(settings.certificate)
        key.write_bytes(settings.key)
        context.load_cert_chain(certificate, key)


def _describe_tls_fault(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        # OpenSSL gives no reason if the file contains no PEM, or the key belongs to another certificate.
        unexplained = "no PEM file that can be read, or a key of another certificate"
        return error.reason.replace("_", " ").lower() if error.reason else unexplained
    return describe_fault(error)
