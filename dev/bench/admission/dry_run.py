"""The latency that the child dry run adds to a validating review, against a local API server with the manager's rights.

One JobSet at a time, so that the figures are the API server's own time and not the wait for it. Must not go through the
webhooks: their part is measured without a cluster.
"""

from __future__ import annotations

import asyncio
import statistics
import time

from api.features import FeatureGates
from app.engine import engine
from cli import local
from dev.bench.admission import samples
from dev.bench.managers import scratch_cluster
from dev.bench.output import JSON
from dev.cluster.cluster import Cluster
from dev.cluster.progress import step
from dev.cluster.spec import ClusterSpec
from kube.client import Client
from kube.config import load
from kube.transport import HttpTransport
from manifests import NAMESPACE, SERVICE_ACCOUNT
from webhooks.jobset.cluster.checks import ClusterChecks

SIZES = (1, 2, 8)
CALLS = 200
WARM_UP = 20
GROUPS = ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}"]


def measure() -> JSON:
    """One row for each number of ReplicatedJobs, all of different templates; times in milliseconds."""
    with scratch_cluster(ClusterSpec(name="bench-admission", profile="api", audit=False)) as (cluster, _):
        local.install(cluster, webhook_port=None)
        local.kubectl(cluster, "create", "namespace", samples.NAMESPACE)
        with step(f"{CALLS} dry runs for each of {len(SIZES)} sizes"):
            return {"dry_run": asyncio.run(_rows(cluster))}


async def _rows(cluster: Cluster) -> list[JSON]:
    user = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
    transport = HttpTransport(await load(str(cluster.kubeconfig_for(user, GROUPS))), user_agent="bench-admission")
    try:
        checks = ClusterChecks(Client(transport))
        return [await _row(checks, size) for size in SIZES]
    finally:
        await transport.close()


async def _row(checks: ClusterChecks, rjobs: int) -> JSON:
    gates = FeatureGates()
    js = engine(gates).create(samples.jobset(rjobs)).object
    times = []
    for _ in range(WARM_UP + CALLS):
        began = time.perf_counter()
        findings = await checks.create(js, (), gates, namespace=samples.NAMESPACE)
        times.append((time.perf_counter() - began) * 1e3)
        if findings:
            raise SystemExit(f"the dry run of the benchmark's own JobSet found: {'; '.join(map(str, findings))}")
    cuts = statistics.quantiles(times[WARM_UP:], n=100)
    return {"rjobs": rjobs, "calls": CALLS, "p50_ms": cuts[49], "p99_ms": cuts[98], "max_ms": max(times[WARM_UP:])}
