"""The stage of admission in a manager whose worker processes serve it. Does not import the server."""

import asyncio
import socket
from collections.abc import Sequence

from app.health import Check, Health, webhook_check
from app.manager.options import Deps, Shared
from app.settings import Settings
from app.workers import Worker
from httpserver.address import bind

DIAL_EVERY = 0.05
"""Seconds between two checks whether admission answers."""


def bind_webhooks(settings: Settings) -> socket.socket:
    """A socket that is bound to the port of the webhooks. Raises `BindError`."""
    return bind((settings.webhook.host, settings.webhook.port), "webhooks")


def watch_workers(deps: Deps, workers: Sequence[Worker]) -> None:
    """Count the answers of the workers. They stop with the manager. If a worker ends earlier, the manager ends, too."""
    for worker in workers:
        deps.supervisor.start(worker.watch(deps.metrics.webhooks), f"worker-{worker.pid}", stop=worker.stop)


async def await_workers(deps: Deps, health: Health, shared: Shared) -> None:
    """Wait until one of the workers answers."""
    check = check_webhooks(deps, shared)
    while await check() is not None:  # noqa: ASYNC110 -- there is no event of another process
        await asyncio.sleep(DIAL_EVERY)
    health.set_readiness("webhook", check)


def check_webhooks(deps: Deps, shared: Shared) -> Check:
    """A check whether admission answers, in this process or in a worker."""
    return webhook_check((deps.options.settings.webhook.host, shared.listener.getsockname()[1]))
