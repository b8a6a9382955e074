"""The CA is replaced again and again under load, with two replicas behind one address: no admission fails.

`tests/integration/admission/test_certificates.py` does it three times, with one replica.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dev import local
from dev.chaos.failover import Failover
from dev.cluster.assets import Sources
from dev.cluster.cluster import Cluster, running
from dev.cluster.spec import ClusterSpec
from tests.support.cluster.jobs import JOBSETS
from tests.support.cluster.requests import new_namespace, request, wait_for
from tests.support.cluster.rotation import drop_authority_key, under_load
from tests.support.objects.jobsets import jobset

SECONDS = 300
EVERY = 3.0
"""Seconds between two demands for a new CA. Replicas wait 10 s before they serve what it signs, so some fall together."""

RATE = 300
"""Reviews a second at most; a machine that is slower does fewer."""


@contextlib.contextmanager
def address(port: int, replicas: list[int]) -> Iterator[None]:
    """Connections to `port` go to the replicas in turn."""
    over = threading.Event()

    async def serve() -> None:
        failover = Failover(port)
        failover.set_ready(replicas)
        await failover.start()
        await asyncio.to_thread(over.wait)
        await failover.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.timeout(SECONDS + 300)
@pytest.mark.parametrize("algorithm", ["ECDSA", "RSA"])
def test_no_admission_fails_while_the_ca_is_replaced_every_few_seconds(
    algorithm: str, tmp_path: Path, binaries: Path, record_property: Callable[[str, object], None]
):
    seconds = SECONDS if algorithm == "ECDSA" else SECONDS / 5
    spec = ClusterSpec(name="rotation", profile="api")
    with (
        running(spec, sources=Sources(assets=binaries), state_root=tmp_path) as cluster,
        contextlib.ExitStack() as on_end,
    ):
        port, ports = local.free_port(), [local.free_port() for _ in range(2)]
        on_end.enter_context(address(port, ports))
        local.install(cluster, webhook_port=port)
        for number, own in enumerate(ports):
            sections = {"internalCertManagement": {"keyAlgorithm": algorithm}}
            manager = local.start(cluster, tmp_path / str(number), webhook_port=own, sections=sections)
            on_end.callback(local.stop, manager)
        wait_for(lambda: _is_refused(cluster), what="the webhooks")
        began, demands = time.monotonic(), 0
        with under_load(cluster, new_namespace(cluster), ports, rate=RATE) as load:
            while time.monotonic() < began + seconds:
                drop_authority_key(cluster)
                demands += 1
                load.over.wait(EVERY)
        for name in ("admitted", "shaken"):
            record_property(f"{algorithm}: {name}", getattr(load, name))
        record_property(f"{algorithm}: demands, certificates", (demands, len(load.served)))
    assert load.failures == []
    assert len(load.served) > seconds / 25
    assert load.admitted > 10 * seconds


def _is_refused(cluster: Cluster) -> bool:
    """Whether the webhooks answer: only they refuse this."""
    return request(cluster, "POST", JOBSETS.format("default") + "?dryRun=All", jobset(managedBy=""))[0] == 422
