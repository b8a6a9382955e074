"""One run of `jobset wait`: reads the JobSet, then watches it until it reaches a state or cannot reach it any more."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from api.jobset import JobSet
from cli import session
from controllers.resources import JOBSETS
from jobset_client.states import Wait, end_summary, title
from kube.errors import Forbidden, KubeError, Unauthorized
from kube.reflector import Target, watch
from kube.watcher import Apply, Delete, Event, Init, InitDone

TIMED_OUT = 124
"""Exit code, the same as that of timeout(1)."""


@dataclass(frozen=True, slots=True)
class Options(session.NamedJobSet):
    """What to wait for. `timeout` in seconds; 0: none."""

    state: str
    timeout: float = 0


class _Reached(Exception):  # noqa: N818 -- no error: it ends the watch
    """The JobSet is in the state."""


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Wait; write the state to `out`, or to `err` why it cannot be reached. Returns the exit code."""

    async def work() -> int:
        name = session.jobset_name(options.name)
        async with session.connect_to(options) as to:
            waiting = asyncio.timeout(options.timeout or None)
            try:
                async with waiting:
                    js = await until(to, await session.get_jobset(to, name), options.state)
            except TimeoutError:
                if not waiting.expired():
                    raise
                err.write(
                    f"jobset wait: JobSet {to.namespace}/{name}: not {options.state} after {options.timeout:g} s;"
                    f" jobset explain {name} -n {to.namespace} says why\n"
                )
                return TIMED_OUT
        how = f": {end_summary(js)}" if options.state == "finished" else ""
        out.write(f"{title(js)}: {options.state}{how}\n")
        return session.DONE

    return session.run("wait", work, err, right="get, list and watch")


async def until(to: session.Session, first: JobSet, state: str) -> JobSet:
    """The JobSet, once it is in the state; a later JobSet of its name does not count.

    Raises `NeverError` if it cannot reach it.
    """
    waiting = Wait(first, state)
    if waiting.is_over(first):
        return first
    found: list[JobSet] = []

    def sink(event: Event) -> None:
        match event:
            case Init():
                waiting.start_list()
            case Apply(JobSet() as js) if waiting.is_over(js):
                found.append(js)
                raise _Reached
            case Delete():
                waiting.delete()
            case InitDone():
                waiting.end_list()
            case _:
                pass

    with contextlib.suppress(_Reached):
        await watch_jobset(to, first, sink)
    return found[0]


async def watch_jobset(to: session.Session, js: JobSet, sink: Callable[[Event], None]) -> None:
    """Pass each change of the JobSets of this name to the sink, until cancelled."""
    name = f"metadata.name={js.metadata.name}"
    target = Target(JOBSETS, JobSet, namespace=to.namespace, field_selector=name, streaming=False)
    await watch(to.client, target, sink, on_error=raise_refusal)


def raise_refusal(error: KubeError) -> None:
    """Raise the error of a missing right to watch; after other errors the watch continues."""
    if isinstance(error, Forbidden | Unauthorized):
        raise error
