"""Our webhooks and certificates, as the manager runs them, in a thread beside the test and with the manager's rights."""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from api.features import FeatureGates
from app.engine import engine
from certs.manager import CertManager, CertOptions, service_hosts
from certs.source import LiveContext
from certs.tls import server_context
from dev import local
from dev.cluster.assets import Sources
from dev.cluster.cluster import Cluster, running
from dev.cluster.spec import ClusterSpec
from httpserver.address import bind
from httpserver.server import Server
from kube.client import Client
from kube.config import load
from kube.transport import HttpTransport
from manifests import NAMESPACE, SERVICE_ACCOUNT
from tests.support.cluster.jobs import JOBSETS
from tests.support.cluster.requests import request, wait_for
from tests.support.objects.jobsets import jobset
from webhooks.jobset.cluster.checks import ClusterChecks
from webhooks.jobset.handlers import jobset_handlers
from webhooks.router import create_app

GROUPS = ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}"]
SECRET = "jobset-webhook-server-cert"


@contextlib.contextmanager
def cluster_with_admission(name: str, folder: Path, binaries: Path, gates: FeatureGates) -> Iterator[Cluster]:
    """An API server of its own with our webhooks behind it, which ask it about children as the manager."""
    spec = ClusterSpec(name=name, profile="api")
    with (
        running(spec, sources=Sources(assets=binaries), state_root=folder) as cluster,
        admission(cluster, gates),
    ):
        probe = JOBSETS.format("default") + "?dryRun=All"
        # A webhook configuration takes a moment to reach the API server's admission chain.
        wait_for(lambda: request(cluster, "POST", probe, jobset(managedBy=""))[0] == 422, what="the webhooks")
        yield cluster


@contextlib.contextmanager
def admission(cluster: Cluster, gates: FeatureGates) -> Iterator[CertManager]:
    """Install, serve until the block ends, and wait until the API server can call us."""
    with contextlib.ExitStack() as on_error:
        listener = on_error.enter_context(bind(("127.0.0.1", 0), "webhooks"))
        local.install(cluster, webhook_port=listener.getsockname()[1])
        on_error.pop_all()
    started: concurrent.futures.Future[CertManager] = concurrent.futures.Future()
    stop = threading.Event()

    async def serve() -> None:
        user = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
        transport = HttpTransport(await load(str(cluster.kubeconfig_for(user, GROUPS))), user_agent="admission-test")
        context = server_context()
        hosts = service_hosts("jobset-webhook-service", NAMESPACE, "127.0.0.1")
        client = Client(transport)
        certs = CertManager(client, LiveContext(context), CertOptions(NAMESPACE, SECRET, hosts, settle_seconds=1))
        handlers = jobset_handlers(engine(gates), ClusterChecks(client, timeout=8.0))
        server = Server(create_app(handlers), listener, context)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(server.run())
                task = group.create_task(certs.run())
                await asyncio.wait_for(certs.ready.wait(), 30)
                started.set_result(certs)
                await asyncio.to_thread(stop.wait)
                task.cancel()
                server.stop()
        finally:
            await transport.close()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield started.result(timeout=60)
    finally:
        stop.set()
        thread.join(30)
