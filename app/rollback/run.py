"""One run of `jobset rollback-check`: connect, read every JobSet and gated pod, write, lift gates if asked to."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TextIO

import yaml

from api.keys import AWAITS_LEADER, PLACEMENT_GATE
from api.meta import JSON
from app.check.findings import printable
from app.rollback.concerns import Concern, of_jobset, of_pod
from app.version import user_agent
from controllers.resources import JOBSETS
from kube.client import Client, PatchType
from kube.config import load
from kube.errors import Conflict, KubeError, NotFound
from kube.resources import PODS
from kube.transport import HttpTransport

_UNGATED: JSON = {
    "metadata": {"labels": {AWAITS_LEADER: None}},
    "spec": {"schedulingGates": [{"$patch": "delete", "name": PLACEMENT_GATE}]},
}


@dataclass(frozen=True, slots=True)
class Options:
    """What to look at and how to say it. Empty: all namespaces, the usual kubeconfig, its current context."""

    namespace: str = ""
    output: str = "table"
    release: bool = False
    kubeconfig: str = ""
    context: str = ""


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Write what is concerned to `out` or the problem to `err`; gives the exit code."""
    try:
        found, released = asyncio.run(_checked(options))
    except (KubeError, TimeoutError) as error:
        err.write(f"jobset rollback-check: {printable(str(error) or 'the API server did not answer in time')}\n")
        return 2
    err.writelines(f"lifted the gate of pod {printable(name)}\n" for name in released)
    _write(found, options.output, out)
    return 1 if found else 0


async def _checked(options: Options) -> tuple[list[Concern], list[str]]:
    """What is concerned, after gates were lifted if that is asked for, and the pods whose gates were."""
    transport = HttpTransport(await load(options.kubeconfig or None, options.context or None), user_agent=user_agent())
    try:
        client = Client(transport)
        found = [
            concern async for js in client.pages(JOBSETS, namespace=options.namespace) for concern in of_jobset(js)
        ]
        released = []
        async for pod in client.pages(PODS, namespace=options.namespace, label_selector=f"{AWAITS_LEADER}=true"):
            gated = list(of_pod(pod))
            if gated and options.release:
                released += await _released(client, pod)
            else:
                found += gated
        return found, released
    finally:
        await transport.close()


async def _released(client: Client, pod: JSON) -> list[str]:
    """Lift the gate of this very pod, by its UID; gives its name unless it is gone."""
    meta = pod["metadata"]
    body = {**_UNGATED, "metadata": {**_UNGATED["metadata"], "uid": meta["uid"]}}
    try:
        await client.patch(PODS, meta["name"], body, patch_type=PatchType.STRATEGIC, namespace=meta["namespace"])
    except (NotFound, Conflict):  # gone, or another pod of this name
        return []
    return [f"{meta['namespace']}/{meta['name']}"]


def _write(found: Sequence[Concern], output: str, out: TextIO) -> None:
    body = {"concerned": [asdict(concern) for concern in found]}
    if output == "json":
        out.write(json.dumps(body, indent=2) + "\n")
    elif output == "yaml":
        yaml.safe_dump(body, out, sort_keys=False, allow_unicode=True, width=2**31 - 1)
    elif not found:
        out.write("nothing would behave otherwise under the Go JobSet\n")
    else:
        for concern in found:
            who = f"{concern.kind} {concern.namespace}/{concern.name}: {concern.path}"
            out.write(printable(f"{who}: {concern.happens}; {concern.remedy}") + "\n")
