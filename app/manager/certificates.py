"""The stage of certificates: a TLS context with a pair that the API server trusts, kept up to date from then on."""

import ssl
from pathlib import Path

from app.health import Health, passes
from app.manager.options import Deps, own_namespace
from certs.files import FileCertificates
from certs.source import CertificateSource, Live
from certs.tls import server_context


async def start_certificates(deps: Deps, health: Health) -> ssl.SSLContext:
    """Wait for the first pair; readiness fails until it is there.

    Our own CA is tried until it succeeds. Files that do not come in time end the manager: the part that reads them
    raises `certs.files.MissingFilesError`.
    """
    tls = deps.options.settings.tls
    context = server_context(tls.min_version, tls.cipher_suites)
    source = _source(deps, Live(context, deps.metrics.certificate("webhook")))
    deps.supervisor.start(source.run(), "certificates")
    await source.ready.wait()
    health.set_readiness("certificates", passes)
    return context


def _source(deps: Deps, live: Live) -> CertificateSource:
    """Our own CA, or files that the user provides."""
    settings = deps.options.settings
    internal = settings.internal_cert_management
    if not internal.enable:
        return FileCertificates(Path(settings.webhook.cert_dir), live)
    from certs.manager import CertManager, CertOptions, service_hosts  # noqa: PLC0415 (9 MiB of cryptography)

    extra = [settings.webhook.host] if settings.webhook.host else []
    hosts = service_hosts(internal.webhook_service_name, own_namespace(), *extra)
    return CertManager(deps.client, live, CertOptions(own_namespace(), internal.webhook_secret_name, hosts))
