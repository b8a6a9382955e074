"""The processes of a manager and their event loops. With `webhook.workers`, other processes serve admission."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Coroutine
from dataclasses import replace
from importlib import import_module
from typing import Any, TypeVar

from pydantic import BaseModel

from api.features import GATES
from app.debug.pages import COMMANDS, page
from app.heap import keep_large_blocks_apart, unmap_libraries
from app.logs import set_level
from app.manager.options import Options, Shared, StartError
from app.manager.run import run
from app.manager.workers import bind_webhooks
from app.version import current_version
from app.workers import STOP, Records, WorkerError, fork_workers
from httpserver.address import BindError
from kube.config import describe_target, load
from kube.errors import KubeconfigError
from manifests.crd_fields import jobset_fields

log = logging.getLogger(__name__)

T = TypeVar("T")


def main(options: Options) -> None:
    """Run the manager until SIGTERM or SIGINT, on uvloop if it is installed. Raises `StartError`."""
    keep_large_blocks_apart()
    gates = ", ".join(f"{name}={str(options.gates[name]).lower()}" for name in GATES)
    try:
        cluster = describe_target(options.kubeconfig)
    except KubeconfigError as error:
        raise StartError(str(error)) from error
    log.info("jobset %s starts for %s; feature gates: %s", current_version(), cluster, gates)
    prepare(options)
    workers = options.settings.webhook.workers if options.webhooks else 0
    if not workers:
        _run_in_loop(_run_until_signal(options))
        return
    try:
        listener = bind_webhooks(options.settings)
        shared = Shared(listener, credentials=_run_in_loop(load(options.kubeconfig or None)))
    except (BindError, KubeconfigError) as error:
        raise StartError(str(error)) from error
    with fork_workers(workers, lambda channel: serve_as_worker(options, shared, channel)) as processes:
        _run_in_loop(_run_until_signal(options, replace(shared, workers=processes)))


def prepare(options: Options) -> None:
    """Import modules and compute data before the fork, so that all processes share these pages of memory.

    Also unmaps the pages of libraries that only imports have used.
    """
    modules = {"app.manager.controllers": options.controllers, "app.manager.admission": options.webhooks}
    # Without this, FastAPI builds validators of its OpenAPI models: 1.4 MiB for pages that are not served.
    BaseModel.model_config["defer_build"] = True
    for module in (name for name, is_needed in modules.items() if is_needed):
        import_module(module)
    if options.webhooks:
        from app.engine import engine  # noqa: PLC0415 (imported by now)

        engine(options.gates)
    jobset_fields()
    loop_factory()
    unmap_libraries()


def serve_as_worker(options: Options, shared: Shared, channel: socket.socket) -> None:
    """Serve only webhooks until the manager sends `STOP`. Raises `WorkerError`."""
    try:
        _run_in_loop(_serve_webhooks(options, shared, channel))
    except StartError as error:
        raise WorkerError(str(error)) from error


def _run_in_loop(part: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.get_loop().set_exception_handler(_log_unless_closed)
        return runner.run(part)


def _log_unless_closed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log the error, unless it is uvloop's error for data that arrives for a TLS connection that was just closed."""
    error = context.get("exception")
    if not (isinstance(error, RuntimeError) and "the handler is closed" in str(error)):
        loop.default_exception_handler(context)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """A factory of uvloop's event loop if that extra is installed, else of the standard event loop."""
    try:
        import uvloop  # noqa: PLC0415 (may be absent)
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _run_until_signal(options: Options, shared: Shared | None = None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await run(options, stop, shared)


async def obey_manager(reader: asyncio.StreamReader, records: Records, stop: asyncio.Event) -> None:
    """Carry out the manager's commands of one byte each, until the manager sends `STOP` or ends."""
    paths = {letter: path for path, letter in COMMANDS.items()}
    while command := await reader.read(1):
        if command == STOP:
            stop.set()
            return
        if command in paths:
            records.answer(command, await page(paths[command]))
        else:
            set_level(command[0])


async def _serve_webhooks(options: Options, shared: Shared, channel: socket.socket) -> None:
    """Serve webhooks and carry out the manager's commands. Raises `StartError`, after a last report to the manager."""
    settings = options.settings.override("metrics", bind_address="0").override("health", health_probe_bind_address="0")
    reader, writer = await asyncio.open_connection(sock=channel)
    stop, records = asyncio.Event(), Records()
    start_error: StartError | None = None

    async def follow_manager() -> None:
        with contextlib.suppress(ConnectionError):
            await obey_manager(reader, records, stop)
        if not stop.is_set():
            os._exit(1)  # the manager was killed, and in a container its workers would be killed with it

    async with asyncio.TaskGroup() as group:
        helpers = [group.create_task(follow_manager()), group.create_task(records.send(writer))]
        webhooks_only = replace(options, settings=settings, controllers=False)
        try:
            await run(webhooks_only, stop, replace(shared, records=records))
        except StartError as error:
            start_error = error  # raised below, since the task group would wrap it
        for task in helpers:
            task.cancel()
    with contextlib.suppress(ConnectionError):
        if not writer.is_closing():
            writer.write(records.report())
        writer.close()
        await writer.wait_closed()
    if start_error is not None:
        raise start_error
