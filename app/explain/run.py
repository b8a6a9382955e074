"""One run of `jobset explain`: connect, read, decide, write. The only place that knows all of them."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TextIO

import yaml

from api.batch import Owned
from api.suggest import MAX_CANDIDATES, did_you_mean
from api.validation import dns1123_subdomain
from app.check.findings import printable
from app.explain import show
from app.explain.gather import TIMEOUT, gather
from app.explain.reasons import Explanation, explain
from app.version import user_agent
from controllers.resources import JOBSETS
from kube.client import Client
from kube.clock import now as wall_clock
from kube.config import load
from kube.errors import ApiError, KubeError, NotFound
from kube.options import METADATA_LIST
from kube.transport import HttpTransport


@dataclass(frozen=True, slots=True)
class Options:
    """What to explain and how to say it. Empty: the context's namespace, the usual kubeconfig, its current context."""

    name: str
    namespace: str = ""
    output: str = "text"
    kubeconfig: str = ""
    context: str = ""


class NoJobSetError(Exception):
    """There is no JobSet of that name; the text says which there are."""


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Write the explanation to `out` or the problem to `err`; gives the exit code."""
    now = wall_clock()
    wrong = next((name for name in (options.name, options.namespace) if name and dns1123_subdomain(name)), None)
    if wrong is not None or not options.name:
        err.write(
            f"jobset explain: {printable(repr(wrong or ''))} is no name: lower case letters, digits, - and . only\n"
        )
        return 2
    try:
        explanation = asyncio.run(_explained(options, now))
    except NoJobSetError as error:
        err.write(f"jobset explain: {printable(str(error))}\n")
        return 1
    except (KubeError, TimeoutError) as error:
        err.write(f"jobset explain: {printable(_reason(error))}\n")
        return 2
    _write(explanation, options.output, now, out)
    return 0


def _write(explanation: Explanation, output: str, now: datetime, out: TextIO) -> None:
    if output == "text":
        out.writelines(f"{printable(line)}\n" for line in show.text(explanation, now))
    elif output == "json":
        json.dump(show.json_form(explanation, now), out, indent=2)
        out.write("\n")
    else:
        yaml.safe_dump(show.json_form(explanation, now), out, sort_keys=False, allow_unicode=True, width=2**31 - 1)


async def _explained(options: Options, now: datetime) -> Explanation:
    credentials = await load(options.kubeconfig or None, options.context or None)
    namespace = options.namespace or credentials.namespace or "default"
    transport = HttpTransport(credentials, user_agent=user_agent())
    try:
        client = Client(transport)
        try:
            return explain(await gather(client, namespace, options.name, now))
        except NotFound as error:
            if not error.details.kind:
                raise KubeError("the cluster does not serve JobSets: apply manifests/install.yaml first") from error
            raise NoJobSetError(await _not_found(client, namespace, options.name)) from error
    finally:
        await transport.close()


async def _not_found(client: Client, namespace: str, name: str) -> str:
    """That there is none, and which may have been meant."""
    text = f"there is no JobSet {name} in namespace {namespace}"
    try:
        here = await _names(client, namespace=namespace)
        elsewhere = await _names(client, field_selector=f"metadata.name={name}")
    except (KubeError, TimeoutError):
        return text
    if elsewhere:
        return f"{text}, but in {elsewhere[0].metadata.namespace}: use -n {elsewhere[0].metadata.namespace}"
    suggestion = did_you_mean(name, [found.metadata.name for found in here])
    return f"{text}; {suggestion}" if suggestion else f"{text}: there is none at all"


async def _names(client: Client, **options: str) -> Sequence[Owned]:
    page = await client.list(
        JOBSETS, type=Owned, accept=METADATA_LIST, limit=MAX_CANDIDATES, timeout=TIMEOUT, **options
    )
    return page.items or ()


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"the API server did not answer within {TIMEOUT:g} s"
    if isinstance(error, ApiError) and error.code == 403:
        return f"{error}; ask for the right to get jobsets.jobset.x-k8s.io"
    return str(error)
