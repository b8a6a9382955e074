"""The stage of certificates: keeps a TLS context with a certificate that the API server trusts up to date."""

import ssl
from functools import partial
from pathlib import Path

from app.health import Health, passes
from app.manager.options import Deps, own_namespace
from certs.clients import ClientAuthority
from certs.files import FileCertificates
from certs.manager import CertManager, CertOptions, service_hosts
from certs.source import CertificateSource, LiveContext
from certs.tls import server_context
from httpserver.address import is_loopback
from kube.config import pod_namespace


async def start_certificates(deps: Deps, health: Health) -> tuple[ssl.SSLContext, CertificateSource]:
    """Wait for the first certificate. Readiness fails until then.

    Returns the TLS context and the source of its certificate. With our own CA, errors are retried until a certificate
    is issued. Raises `certs.files.MissingFilesError` if certificate files do not appear in time, and
    `certs.tls.CertificateError` if the CA of clients cannot be read. Both errors end the manager.
    """
    tls = deps.options.settings.tls
    new_context = partial(server_context, tls.min_version, tls.cipher_suites)
    live = LiveContext(new_context(), deps.metrics.certificate("webhook"))
    source = _certificate_source(deps, live, health)
    deps.supervisor.start(source.run(), "certificates")
    await source.ready.wait()
    context = live.context
    if tls.client_ca_file:
        clients = ClientAuthority(Path(tls.client_ca_file), live, new_context)
        clients.load()
        deps.supervisor.start(clients.run(), "client-ca")
        context = clients.context
    health.set_readiness("certificates", passes)
    return context, source


def _certificate_source(deps: Deps, live: LiveContext, health: Health) -> CertificateSource:
    """The source of certificates: our own CA, or files that the user provides."""
    settings = deps.options.settings
    cert_settings = settings.internal_cert_management
    extra = [settings.webhook.host] if settings.webhook.host else []
    if not cert_settings.enable:
        hosts = (f"{cert_settings.webhook_service_name}.{own_namespace()}.svc", *extra)
        return FileCertificates(Path(settings.webhook.cert_dir), live, hosts=hosts)
    hosts = service_hosts(cert_settings.webhook_service_name, own_namespace(), *extra)
    namespace, secret = own_namespace(), cert_settings.webhook_secret_name
    options = CertOptions(
        namespace,
        secret,
        hosts,
        key_algorithm=cert_settings.key_algorithm or "ECDSA",
        is_local=not pod_namespace() and is_loopback(settings.webhook.host),
    )
    certs = CertManager(deps.client, live, options)
    if options.is_local:
        health.set_readiness("called", certs.unreachable_service)
    return certs
