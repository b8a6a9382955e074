"""One run of `jobset certs status`: connect, read what there is, write what is said about it."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TextIO

import yaml
from pydantic.alias_generators import to_camel

from api.meta import JSON
from app.certificates.look import Found, Status, look
from app.check.findings import printable
from app.session import TIMEOUT, UsageError, checked
from app.version import user_agent
from controllers.resources import JOBSETS
from kube.client import Client
from kube.clock import now
from kube.config import load
from kube.errors import KubeError, NotFound
from kube.resources import CRDS, MUTATING_WEBHOOK_CONFIGURATIONS, SECRETS, VALIDATING_WEBHOOK_CONFIGURATIONS, Resource
from kube.transport import HttpTransport
from manifests.naming import MUTATING_CONFIGURATION, NAMESPACE, VALIDATING_CONFIGURATION, WEBHOOK_SECRET

_CONFIGURATIONS = (
    (MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING_CONFIGURATION),
    (VALIDATING_WEBHOOK_CONFIGURATIONS, VALIDATING_CONFIGURATION),
)
_CRD = f"{JOBSETS.plural}.{JOBSETS.group}"


@dataclass(frozen=True)
class Options:
    """What to look at and how to say it. Empty: the usual kubeconfig, its current context."""

    namespace: str = NAMESPACE
    secret: str = WEBHOOK_SECRET
    output: str = "table"
    kubeconfig: str = ""
    context: str = ""


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Write the status to `out`, or why there is none to `err`; gives the exit code."""
    try:
        found = asyncio.run(_found(options))
    except (UsageError, KubeError, TimeoutError) as error:
        err.write(f"jobset certs status: {printable(str(error) or 'the API server did not answer in time')}\n")
        return 2
    status = look(found, now())
    write(status, options.output, out)
    return 1 if status.problems else 0


async def _found(options: Options) -> Found:
    checked(options.namespace)
    checked(options.secret)
    transport = HttpTransport(await load(options.kubeconfig or None, options.context or None), user_agent=user_agent())
    client = Client(transport)
    try:
        return Found(
            f"{options.namespace}/{options.secret}",
            await _get(client, SECRETS, options.secret, options.namespace),
            {(kind.kind, name): await _get(client, kind, name) for kind, name in _CONFIGURATIONS},
            _CRD,
            await _get(client, CRDS, _CRD),
        )
    finally:
        await transport.close()


async def _get(client: Client, resource: Resource, name: str, namespace: str | None = None) -> JSON | None:
    try:
        return await client.get(resource, name, namespace=namespace, timeout=TIMEOUT)
    except NotFound:
        return None


def write(status: Status, output: str, out: TextIO) -> None:
    """As a table for people, or with the same facts for programs."""
    if output == "json":
        out.write(json.dumps(_camel(asdict(status)), indent=2) + "\n")
    elif output == "yaml":
        yaml.safe_dump(_camel(json.loads(json.dumps(asdict(status)))), out, sort_keys=False, allow_unicode=True)
    else:
        _table(status, out)


def _camel(value: object) -> object:
    if isinstance(value, dict):
        return {to_camel(key): _camel(part) for key, part in value.items()}
    return [_camel(part) for part in value] if isinstance(value, list | tuple) else value


def _table(status: Status, out: TextIO) -> None:
    out.write(printable(f"Secret {status.secret}, renewed by {status.renewed_by}") + "\n\n")
    _columns(
        [
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
        ],
        out,
    )
    out.write("\n")
    rows = [
        (f"{each.kind} {each.name}", each.webhook, each.host, each.bundle_written_by, each.problem or "trusted")
        for each in status.callers
    ]
    _columns([("CALLED BY", "WEBHOOK", "AS", "CABUNDLE WRITTEN BY", "CERTIFICATE"), *rows], out)
    out.write("\n" + printable(f"conversion of the CRD: {status.conversion}") + "\n")
    out.writelines(printable(f"problem: {problem}") + "\n" for problem in status.problems)


def _columns(rows: Sequence[tuple[str, ...]], out: TextIO) -> None:
    """Columns as wide as they need to be; the last is never cut."""
    shown = [tuple(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)][:-1]
    out.writelines(
        "".join(f"{cell:{width}}  " for cell, width in zip(cells, widths, strict=True)) + last + "\n"
        for *cells, last in shown
    )
