"""One run of `jobset certs status`: connect, read the certificates, write the findings."""

from dataclasses import dataclass
from functools import partial
from typing import TextIO

import msgspec

from cli import session
from cli.messages import printable
from cli.output import FORMS, columns, dump
from kube.clock import now
from kube.errors import KubeError
from manifests.installed.certificates import Status, certificate_status
from manifests.installed.read_certificates import read_certificates
from manifests.naming import (
    NAMESPACE,
    WEBHOOK_SECRET,
)


@dataclass(frozen=True)
class Options(session.Where):
    """Flags of the command."""

    namespace: str = NAMESPACE
    secret: str = WEBHOOK_SECRET
    output: str = "table"


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Write the status to `out`, or why there is none to `err`. Returns the exit code."""
    return session.run("certs status", partial(_run, options, out), err, right="")


async def _run(options: Options, out: TextIO) -> int:
    session.check_name(options.namespace)
    session.check_name(options.secret)
    async with session.connect_to(options) as to:
        found = await read_certificates(to.client, options.namespace, options.secret)
    if not (found.secret or found.crd or any(found.configurations.values())):
        raise KubeError(session.NOT_INSTALLED)
    status = certificate_status(found, now())
    write(status, options.output, out)
    return session.FAILED if status.problems else session.DONE


def write(status: Status, output: str, out: TextIO) -> None:
    """As a table for people, or with the same facts for programs."""
    if output in FORMS:
        out.write(dump(msgspec.to_builtins(status), output))
    else:
        _table(status, out)


def _table(status: Status, out: TextIO) -> None:
    renewed_by = f", renewed by {status.renewed_by}" if status.renewed_by else ": no certificate"
    out.write(printable(f"Secret {status.secret}{renewed_by}") + "\n\n")
    rows = [
        ("CERTIFICATE", "KEY", "FROM", "UNTIL", "DAYS LEFT", "RENEWAL", "ISSUER", "NAMES"),
        *(
            (
                each.use,
                each.key,
                each.not_before,
                each.not_after,
                str(each.days_left),
                each.renewal or "-",
                each.issuer,
                ", ".join(each.names) or "-",
            )
            for each in status.certificates
        ),
    ]
    out.writelines(columns(rows, 2))
    out.write("\n")
    has_serving = any(each.use == "serving" for each in status.certificates)
    fine = "trusted" if has_serving else "there is none"
    callers = [
        (f"{each.kind} {each.name}", each.webhook, each.host, each.bundle_written_by, each.problem or fine)
        for each in status.callers
    ]
    head = ("CALLED BY", "WEBHOOK", "AS", "CABUNDLE WRITTEN BY", "CERTIFICATE")
    out.writelines(columns([head, *callers], 2))
    out.write("\n" + printable(f"conversion of the CRD: {status.conversion}") + "\n")
    out.writelines(printable(f"problem: {problem}") + "\n" for problem in status.problems)
