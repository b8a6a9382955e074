"""Runs `jobset wait`: watches a JobSet until it is in a state, or can no longer get into this state."""

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
"""Exit code after the time limit, as of timeout(1)."""


@dataclass(frozen=True, slots=True)
class Options(session.NamedJobSet):
    """A JobSet, and the state to wait for. `timeout`: the time limit in seconds; 0 for no limit."""

    state: str
    timeout: float = 0


class _Reached(Exception):  # noqa: N818 -- no error: it ends the watch
    """The JobSet is in the requested state."""


@session.command("wait", verbs="get, list and watch")
async def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Wait, and write the state to `out`, or that the time limit has passed to `err`. Returns the exit code."""
    name = session.jobset_name(options.name)
    async with session.connect(options) as connection:
        time_limit = asyncio.timeout(options.timeout or None)
        try:
            async with time_limit:
                js = await wait_for_state(connection, await session.get_jobset(connection, name), options.state)
        except TimeoutError:
            if not time_limit.expired():
                raise
            err.write(
                f"jobset wait: JobSet {connection.namespace}/{name}: not {options.state} after"
                f" {options.timeout:g} s; jobset explain {name} -n {connection.namespace} says why\n"
            )
            return TIMED_OUT
    end = f": {end_summary(js)}" if options.state == "finished" else ""
    out.write(f"{title(js)}: {options.state}{end}\n")
    return session.DONE


async def wait_for_state(connection: session.Session, js: JobSet, state: str) -> JobSet:
    """Wait until the JobSet is in the state, and return it. Another JobSet of the same name does not count.

    `js`: the JobSet as it was read. Raises `NeverError` if the JobSet can no longer get into the state.
    """
    wait_decision = Wait(js, state)
    if wait_decision.is_over(js):
        return js
    final_jobsets: list[JobSet] = []

    def handle_event(event: Event) -> None:
        match event:
            case Init():
                wait_decision.start_list()
            case Apply(JobSet() as changed_js) if wait_decision.is_over(changed_js):
                final_jobsets.append(changed_js)
                raise _Reached
            case Delete():
                wait_decision.delete()
            case InitDone():
                wait_decision.end_list()
            case _:
                pass

    with contextlib.suppress(_Reached):
        await watch_jobset(connection, js, handle_event)
    return final_jobsets[0]


async def watch_jobset(connection: session.Session, js: JobSet, handle_event: Callable[[Event], None]) -> None:
    """Pass each event about JobSets with the name of `js` to `handle_event`, until cancelled."""
    name = f"metadata.name={js.metadata.name}"
    target = Target(JOBSETS, JobSet, namespace=connection.namespace, field_selector=name, streaming=False)
    await watch(connection.client, target, handle_event, on_error=raise_refusal)


def raise_refusal(error: KubeError) -> None:
    """Raise an error about a missing right. After other errors the watch continues."""
    if isinstance(error, Forbidden | Unauthorized):
        raise error
