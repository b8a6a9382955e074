"""A `kube` client of a real test cluster, closed after use."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from kube.client import Client
from kube.config import load
from kube.informer import Informer
from kube.transport import HttpTransport
from tests.support.beside import beside
from tests.support.model.faults import FaultyTransport


@contextlib.asynccontextmanager
async def connected(
    kubeconfig: Path, *, user_agent: str = "kube-tests"
) -> AsyncIterator[tuple[Client, FaultyTransport]]:
    """Client and the transport to inject faults into (none by default)."""
    http = HttpTransport(await load(str(kubeconfig)), user_agent=user_agent)
    transport = FaultyTransport(http)
    try:
        yield Client(transport), transport
    finally:
        await transport.close()


@contextlib.asynccontextmanager
async def synced(*informers: Informer) -> AsyncIterator[None]:  # type: ignore[type-arg]  # of any type
    """Informers that run and have listed."""
    async with beside(*(informer.run() for informer in informers)):
        for informer in informers:
            await informer.wait_synced(20)
        yield
