"""Scraping /metrics with real tokens and rights, asked for by a manager that has exactly the RBAC of the manifests."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from app.debug.pages import Debug
from app.metrics import Metrics
from app.metrics_server import Guard, MetricsApp, metrics_server
from app.settings import TLSSettings
from dev.cluster.cluster import Cluster
from kube.client import Client
from kube.config import load
from kube.reviews import Reviewer
from kube.transport import HttpTransport
from tests.support.cluster.manager import USER
from tests.support.cluster.requests import kubectl, request, wait_for
from tests.support.serving import LOCAL, fetch, serving

READER = "jobset-metrics-reader"
DEBUGGER = "jobset-debugger"


def allowed(cluster: Cluster, user: str, verb: str, what: str) -> bool:
    """What the API server's authorizer, which follows RBAC objects with a delay, thinks now."""
    answer = kubectl(cluster, "auth", "can-i", verb, what, "--as", user, "--all-namespaces", check=False)
    return "yes" in answer.split()


def account(cluster: Cluster, namespace: str, name: str) -> str:
    """A token of a new ServiceAccount."""
    kubectl(cluster, "create", "serviceaccount", name, namespace=namespace)
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    status, answer = request(cluster, "POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", body)
    assert status == 201, answer
    token: str = answer["status"]["token"]
    return token


@contextlib.contextmanager
def bound(cluster: Cluster, namespace: str, name: str, role: str, path: str) -> Iterator[str]:
    """A token of a new account that has the role, with which it may get the path."""
    token = account(cluster, namespace, name)
    binding, who = f"{name}-{namespace}", f"system:serviceaccount:{namespace}:{name}"
    kubectl(cluster, "create", "clusterrolebinding", binding, f"--clusterrole={role}", f"--user={who}")
    wait_for(lambda: allowed(cluster, who, "get", path), what="the account's right")
    yield token
    kubectl(cluster, "delete", "clusterrolebinding", binding)


@pytest.fixture
def scraper(jobset_server: Cluster, namespace: str) -> Iterator[str]:
    """A token of an account that may read metrics."""
    with bound(jobset_server, namespace, "scraper", READER, "/metrics") as token:
        yield token


@pytest.fixture
def debugger(jobset_server: Cluster, namespace: str) -> Iterator[str]:
    """A token of an account that may read debug pages."""
    with bound(jobset_server, namespace, "debugger", DEBUGGER, "/debug/stacks") as token:
        yield token


@contextlib.asynccontextmanager
async def endpoint(cluster: Cluster, user: str, cert_dir: Path) -> AsyncIterator[str]:
    """URL of /metrics as a manager that runs as `user` serves it."""
    metrics = Metrics()
    kubeconfig = await asyncio.to_thread(cluster.kubeconfig_for, user)
    transport = HttpTransport(await load(str(kubeconfig)), user_agent="test-metrics", metrics=metrics.requests)
    app = MetricsApp(metrics, Guard(Reviewer(Client(transport))), Debug())
    server = metrics_server(app, LOCAL, cert_dir=str(cert_dir), tls=TLSSettings())
    try:
        async with serving(server) as port:
            yield f"https://127.0.0.1:{port}/metrics"
    finally:
        await transport.close()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_real_tokens_and_rights(jobset_server: Cluster, namespace: str, scraper: str, tmp_path: Path) -> None:
    stranger = await asyncio.to_thread(account, jobset_server, namespace, "stranger")
    async with endpoint(jobset_server, USER, tmp_path) as url:
        status, text = await fetch(url, bearer(scraper))
        assert status == 200, text
        assert 'rest_client_requests_total{code="201"' in text, "the reviews for this scrape are counted in it"
        denied = f"Authorization denied for user system:serviceaccount:{namespace}:stranger\n"
        assert await fetch(url, bearer(stranger)) == (403, denied)
        denied = f"Authorization denied for user system:serviceaccount:{namespace}:scraper\n"
        assert await fetch(url, bearer(scraper), "POST") == (403, denied), "the role allows get only"


async def test_debug_pages_are_rights_of_their_own(
    jobset_server: Cluster, scraper: str, debugger: str, tmp_path: Path
) -> None:
    async with endpoint(jobset_server, USER, tmp_path) as metrics:
        url = metrics.removesuffix("/metrics")
        for path in Debug.paths:
            assert (await fetch(url + path, bearer(scraper)))[0] == 403
        assert await fetch(f"{url}/debug/loglevel", bearer(debugger)) == (200, '{"level":"warning"}\n')
        status, text = await fetch(f"{url}/debug/loglevel", bearer(debugger), "PUT")
        assert (status, text[:20]) == (400, "cannot read the body"), "it may change the level"
        assert (await fetch(f"{url}/debug/stacks", bearer(debugger), "PUT"))[0] == 403
        status, text = await fetch(f"{url}/debug/stacks", bearer(debugger))
        assert status == 200
        assert "thread MainThread" in text
        assert (await fetch(metrics, bearer(debugger)))[0] == 403


async def test_real_bad_tokens(jobset_server: Cluster, namespace: str, scraper: str, tmp_path: Path) -> None:
    gone = await asyncio.to_thread(account, jobset_server, namespace, "gone")
    await asyncio.to_thread(kubectl, jobset_server, "delete", "serviceaccount", "gone", namespace=namespace)
    header, payload, signature = scraper.split(".")
    forged = f"{header}.{payload}.{'A' * len(signature)}"
    async with endpoint(jobset_server, USER, tmp_path) as url:
        for token in (gone, forged, "nonsense", ""):
            assert await fetch(url, bearer(token)) == (401, "Unauthorized\n"), token[:10]
        assert await fetch(url) == (401, "Unauthorized\n")
        assert (await fetch(url, bearer(scraper)))[0] == 200


async def test_without_the_right_to_review_nobody_gets_in(jobset_server: Cluster, scraper: str, tmp_path: Path) -> None:
    async with endpoint(jobset_server, "somebody-without-rights", tmp_path) as url:
        assert await fetch(url, bearer(scraper)) == (500, "Authentication failed\n")


async def test_plain_http_gets_no_metrics(jobset_server: Cluster, scraper: str, tmp_path: Path) -> None:
    async with endpoint(jobset_server, USER, tmp_path) as url:
        with pytest.raises(aiohttp.ClientError):
            await fetch(url.replace("https", "http"), bearer(scraper))
