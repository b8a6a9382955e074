"""The stage of certificates: a TLS context with a pair that the API server trusts, kept up to date from then on."""

import ssl
from functools import partial
from pathlib import Path

from app.health import Health, passes
from app.manager.options import Deps, own_namespace
from certs.clients import ClientAuthority
from certs.files import FileCertificates
from certs.manager import CertManager, CertOptions, service_hosts
from certs.source import CertificateSource, Live
from certs.tls import server_context
from httpserver.address import is_loopback
from kube.config import pod_namespace


async def start_certificates(deps: Deps, health: Health) -> tuple[ssl.SSLContext, CertificateSource]:
    """Wait for the first pair; readiness fails until it is there.

    Returns the TLS context and the source of its certificate. Our own CA is tried until it succeeds. Certificate files
    that do not appear in time end the manager: `certs.files.MissingFilesError`; so does an unreadable CA of clients:
    `certs.tls.CertificateError`.
    """
    tls = deps.options.settings.tls
    plain = partial(server_context, tls.min_version, tls.cipher_suites)
    live = Live(plain(), deps.metrics.certificate("webhook"))
    source = _source(deps, live, health)
    deps.supervisor.start(source.run(), "certificates")
    await source.ready.wait()
    context = live.context
    if tls.client_ca_file:
        clients = ClientAuthority(Path(tls.client_ca_file), live, plain)
        clients.load()
        deps.supervisor.start(clients.run(), "client-ca")
        context = clients.context
    health.set_readiness("certificates", passes)
    return context, source


def _source(deps: Deps, live: Live, health: Health) -> CertificateSource:
    """Our own CA, or files that the user provides."""
    settings = deps.options.settings
    internal = settings.internal_cert_management
    extra = [settings.webhook.host] if settings.webhook.host else []
    if not internal.enable:
        hosts = (f"{internal.webhook_service_name}.{own_namespace()}.svc", *extra)
        return FileCertificates(Path(settings.webhook.cert_dir), live, hosts=hosts)
    hosts = service_hosts(internal.webhook_service_name, own_namespace(), *extra)
    namespace, secret = own_namespace(), internal.webhook_secret_name
    options = CertOptions(
        namespace,
        secret,
        hosts,
        key_algorithm=internal.key_algorithm or "ECDSA",
        local=not pod_namespace() and is_loopback(settings.webhook.host),
    )
    certs = CertManager(deps.client, live, options)
    if options.local:
        health.set_readiness("called", certs.unreachable_service)
    return certs
