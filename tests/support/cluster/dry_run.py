"""Asks a real API server about the children of a JobSet, with the manager's rights."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from api.features import FeatureGates
from dev.cluster.cluster import Cluster
from kube.client import Client
from kube.model.field import FieldError
from manifests.files import ROOT
from tests.support.cluster.kube_client import connected
from tests.support.cluster.manager import USER
from tests.support.cluster.requests import kubectl, wait_for
from tests.support.objects.jobsets import JSON, jobset, stored
from webhooks.jobset.answers import RULE_SUFFIX, warning_texts
from webhooks.jobset.cluster.checks import ClusterChecks

GATES = FeatureGates()
BUDGET = 8.0  # seconds: a busy machine is not a failure
SPEC = "spec.replicatedJobs[0].template.spec"
POD = f"{SPEC}.template.spec"


@contextlib.asynccontextmanager
async def administrator(server: Cluster) -> AsyncIterator[Client]:
    async with connected(server.kubeconfig) as (client, _):
        yield client


@contextlib.contextmanager
def granted(server: Cluster, *look_ups: str) -> Iterator[None]:
    """The manager has the rights in these files of manifests/references."""
    files = [f"--filename={ROOT / 'references' / name}.yaml" for name in look_ups]
    kubectl(server, "apply", "--server-side", *files)
    try:
        for name in look_ups:
            asks = ("auth", "can-i", "get", name.replace("-", ""), "--all-namespaces", "--as", USER)
            wait_for(lambda asks=asks: "yes" in kubectl(server, *asks, check=False), what=f"the right to {name}")
        yield
    finally:
        kubectl(server, "delete", *files)


async def ask(kubeconfig: Path, ns: str, *rjobs: JSON, **spec: Any) -> list[FieldError]:
    """Findings about a new JobSet `train`."""
    return await ask_about(kubeconfig, jobset(*rjobs, namespace=ns, **spec))


async def ask_about(kubeconfig: Path, js: JSON, **options: Any) -> list[FieldError]:
    namespace = js["metadata"].get("namespace", "default")
    async with connected(kubeconfig) as (client, _):
        checks = ClusterChecks(client, timeout=BUDGET, **options)
        return await checks.findings_about_new(stored(js), (), GATES, namespace=namespace)


def errors(found: list[FieldError]) -> list[str]:
    return [str(error) for error in found if not error.is_warning]


def warnings(found: list[FieldError]) -> list[str]:
    """Texts of warnings without the ids of their rules."""
    return [RULE_SUFFIX.sub("", text) for text in warning_texts([error for error in found if error.is_warning])]


def container(**fields: Any) -> JSON:
    return {"name": "main", "image": "busybox", **fields}


def pod(*containers: JSON, **fields: Any) -> JSON:
    return {"containers": list(containers) or [container()], **fields}


def storage(amount: str) -> JSON:
    return {"requests": {"storage": amount}}
