"""Calls functions in the event loop of relays and failover, from the threads of a run."""

from collections.abc import Callable
from typing import TypeVarTuple

from anyio.from_thread import BlockingPortal

Ts = TypeVarTuple("Ts")

CALL_SECONDS = 30.0


def call_in_portal(portal: BlockingPortal, act: Callable[[*Ts], object], *arguments: *Ts) -> None:
    """Run a function or coroutine function in the loop of the portal. Raises its error, or TimeoutError after 30 s."""
    portal.start_task_soon(act, *arguments).result(CALL_SECONDS)
