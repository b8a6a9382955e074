"""Runs `jobset certs status`: reads the certificates of a cluster, and writes their status."""

from dataclasses import dataclass
from typing import TextIO

import msgspec

from cli import session
from cli.messages import printable
from cli.output import DATA_FORMATS, columns, dump
from kube.clock import now
from kube.errors import KubeError
from manifests.installed.certificates import Status, certificate_status
from manifests.installed.read_certificates import read_certificates
from manifests.naming import NAMESPACE, WEBHOOK_SECRET


@dataclass(frozen=True)
class Options(session.ClusterFlags):
    """Namespace and Secret of the certificate, and the form of the output."""

    namespace: str = NAMESPACE
    secret: str = WEBHOOK_SECRET
    output: str = "table"


@session.command("certs status", verbs="")
async def run(options: Options, out: TextIO, _: TextIO) -> int:
    """Write the status to `out`. Returns the exit code."""
    session.check_name(options.namespace)
    session.check_name(options.secret)
    async with session.connect(options) as connection:
        certificates = await read_certificates(connection.client, options.namespace, options.secret)
    if not (certificates.secret or certificates.crd or any(certificates.configurations.values())):
        raise KubeError(session.NOT_INSTALLED)
    status = certificate_status(certificates, now())
    write(status, options.output, out)
    return session.FAILED if status.problems else session.DONE


def write(status: Status, output: str, out: TextIO) -> None:
    """Write the status as tables, or as JSON or YAML."""
    if output in DATA_FORMATS:
        out.write(dump(msgspec.to_builtins(status), output))
        return
    renewed_by = f", renewed by {status.renewed_by}" if status.renewed_by else ": no certificate"
    out.write(printable(f"Secret {status.secret}{renewed_by}") + "\n\n")
    rows = [
        ("CERTIFICATE", "KEY", "FROM", "UNTIL", "DAYS LEFT", "RENEWAL", "ISSUER", "NAMES"),
        *(
            (
                certificate.use,
                certificate.key,
                certificate.not_before,
                certificate.not_after,
                str(certificate.days_left),
                certificate.renewal or "-",
                certificate.issuer,
                ", ".join(certificate.names) or "-",
            )
            for certificate in status.certificates
        ),
    ]
    out.writelines(columns(rows, 2))
    out.write("\n")
    has_serving_certificate = any(certificate.use == "serving" for certificate in status.certificates)
    trust_text = "trusted" if has_serving_certificate else "there is none"
    callers = [
        (
            f"{caller.kind} {caller.name}",
            caller.webhook,
            caller.host,
            caller.bundle_written_by,
            caller.problem or trust_text,
        )
        for caller in status.callers
    ]
    header = ("CALLED BY", "WEBHOOK", "AS", "CABUNDLE WRITTEN BY", "CERTIFICATE")
    out.writelines(columns([header, *callers], 2))
    out.write("\n" + printable(f"conversion of the CRD: {status.conversion}") + "\n")
    out.writelines(printable(f"problem: {problem}") + "\n" for problem in status.problems)
