"""Runs `jobset ui`: watches a cluster and serves the page until Ctrl-C. Connects the modules of the package `ui`."""

import asyncio
import secrets
import signal
from dataclasses import dataclass
from functools import partial
from typing import TextIO

from cli import session
from cli.explain import show
from cli.explain.commands import commands_in
from controllers.resources import JOBSETS
from diagnose.gather import gather
from diagnose.reasons import explain
from httpserver.address import bind, parse_bind_address
from httpserver.limits import ConnectionLimits
from httpserver.server import Server
from kube.client import Client
from kube.clock import now as wall_clock
from kube.indexes import Key
from kube.model.meta import JSON
from kube.options import COMMAND_TIMEOUT
from ui.board import Board
from ui.caches import Caches
from ui.guard import Guard, browser_host, exposure_warning, host_name
from ui.server import STREAM_SECONDS, Pages

LIMITS = ConnectionLimits(head_timeout=10.0, request_timeout=STREAM_SECONDS + 60, keep_alive=60, max_connections=256)
"""Limits of the server. A stream of the page is its longest request. A browser opens up to six connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(session.ClusterFlags):
    """The namespace to show, and the address to listen on."""

    address: str
    everywhere: bool = False
    allowed_hosts: tuple[str, ...] = ()


@session.command("ui", verbs="list and watch")
async def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Serve until Ctrl-C or SIGTERM. Writes the address to `out`. Returns the exit code."""
    async with session.connect(options) as connection:
        namespace = None if options.everywhere else connection.namespace
        first_page = await connection.client.list(JOBSETS, namespace=namespace, limit=1, timeout=COMMAND_TIMEOUT)
        if namespace and not first_page.items:
            await session.refuse_missing_namespace(connection)
        address = parse_bind_address(options.address)
        if address is None:
            raise session.UsageError("--address 0 listens nowhere: write HOST:PORT")
        board = Board(secrets.token_hex(4))
        caches = Caches(connection.client, namespace, board)
        pages = Pages(board, caches, partial(_explain, connection.client))
        guard = Guard(pages.app(), (*options.allowed_hosts, host_name(browser_host(address))))
        server = Server(guard, bind(address, "the page"), limits=LIMITS)
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(caches.run())
            serving = group.create_task(server.run())
            await server.started.wait()
            scope = "all namespaces" if namespace is None else f"namespace {namespace}"
            out.write(f"JobSets of {scope}: http://{browser_host(address)}:{server.port}/ (Ctrl-C ends it)\n")
            out.flush()
            err.write(exposure_warning(address))
            for signal_number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(signal_number, _stop, pages, server)
            await serving
            watching.cancel()
    return session.DONE


def _stop(pages: Pages, server: Server) -> None:
    pages.close()
    server.stop()


async def _explain(client: Client, key: Key) -> JSON:
    now = wall_clock()
    return with_commands(show.json_form(explain(await gather(client, *key, now)), now))


def with_commands(finding: JSON) -> JSON:
    """The finding as JSON. It and all findings below it get the field `commands` with the commands of their fix."""
    because = [with_commands(cause) for cause in finding["because"]]
    return {**finding, "commands": commands_in(finding["remedy"]), "because": because}
