"""One run of `jobset wait`: reads the JobSet, then watches it until it is in a state or never will be."""

import asyncio
from dataclasses import dataclass
from typing import TextIO

from api.jobset import JobSet
from cli import session
from controllers.resources import JOBSETS
from diagnose.states import end_summary, reached
from kube.errors import Forbidden, KubeError, Unauthorized
from kube.options import COMMAND_TIMEOUT
from kube.reflector import Target, watch
from kube.watcher import Apply, Delete, Event, InitDone

TIMED_OUT = 124
"""Exit code, as timeout(1) has it."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to wait for. `timeout` in seconds; 0 is without end. Empty: as for `session.connect`."""

    name: str
    state: str
    timeout: float = 0
    namespace: str = ""
    kubeconfig: str = ""
    context: str = ""


class _Reached(Exception):  # noqa: N818 -- no error: it ends the watch
    """The JobSet is in the state."""

    def __init__(self, js: JobSet) -> None:
        super().__init__()
        self.js = js


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Wait; write what came to `out`, or to `err` why it never will; gives the exit code."""

    async def work() -> int:
        name = session.jobset_name(options.name)
        place = {"kubeconfig": options.kubeconfig, "context": options.context, "namespace": options.namespace}
        async with session.connect(**place) as to:
            title = f"JobSet {to.namespace}/{name}"
            waiting = asyncio.timeout(options.timeout or None)
            try:
                async with waiting:
                    async with session.naming(to, name):
                        js = await to.client.get(
                            JOBSETS, name, namespace=to.namespace, type=JobSet, timeout=COMMAND_TIMEOUT
                        )
                    js = await until(to, js, options.state)
            except TimeoutError:
                if not waiting.expired():
                    raise
                err.write(
                    f"jobset wait: {title}: not {options.state} after {options.timeout:g} s;"
                    f" jobset explain {name} -n {to.namespace} says why\n"
                )
                return TIMED_OUT
        how = f": {end_summary(js)}" if options.state == "finished" else ""
        out.write(f"{title}: {options.state}{how}\n")
        return session.DONE

    return session.run("wait", work, err, right="get, list and watch")


async def until(to: session.Session, first: JobSet, state: str) -> JobSet:
    """The JobSet, once it is in the state: no other of its name. Raises `RefusedError` when it never will be."""
    name = first.metadata.name
    seen = False

    def look(js: JobSet) -> None:
        if reached(js, state):
            raise _Reached(js)
        if how := end_summary(js) or ("is being deleted" if js.metadata.deletion_timestamp is not None else ""):
            raise session.RefusedError(f"JobSet {to.namespace}/{name} {how}; it will never be {state}")

    def sink(event: Event) -> None:
        nonlocal seen
        match event:
            case Apply(JobSet() as js) if js.metadata.uid == first.metadata.uid:
                seen = True
                look(js)
            case Delete() | Apply(JobSet()):
                seen = False
            case _:
                pass
        if not seen and isinstance(event, Delete | InitDone):
            raise session.RefusedError(f"JobSet {to.namespace}/{name} was deleted; it will never be {state}")

    target = Target(
        JOBSETS, JobSet, namespace=to.namespace, field_selector=f"metadata.name={name}", streaming=False
    )  # fmt: skip
    try:
        look(first)
        await watch(to.client, target, sink, on_error=_rights)
    except _Reached as end:
        return end.js
    raise AssertionError("a watch does not end by itself")


def _rights(error: KubeError) -> None:
    """Without the right to watch there is nothing to wait with; other faults pass, and the watch goes on."""
    if isinstance(error, Forbidden | Unauthorized):
        raise error
