"""Finds Services of webhook configurations without a ready endpoint, or with the Go JobSet as the manager."""

import re
from collections.abc import Iterable, Iterator

import msgspec

from api.keys import MANAGER_SELECTOR
from kube.client import Client
from kube.errors import Forbidden
from kube.model.meta import JSON
from kube.options import COMMAND_TIMEOUT
from kube.resources import ENDPOINT_SLICES, PODS
from manifests.naming import DEPLOYMENT, OTHER_MANAGER, RESTORE_MANAGER


class _Conditions(msgspec.Struct, frozen=True):
    ready: bool | None = None
    """None counts as ready, as in the Kubernetes API."""


class _Endpoint(msgspec.Struct, frozen=True):
    conditions: _Conditions = _Conditions()


class _Slice(msgspec.Struct, frozen=True):
    endpoints: tuple[_Endpoint, ...] | None = ()


class _Container(msgspec.Struct, frozen=True):
    image: str = ""


class _PodSpec(msgspec.Struct, frozen=True):
    containers: tuple[_Container, ...] = ()


class _Pod(msgspec.Struct, frozen=True):
    spec: _PodSpec = _PodSpec()


_GO_IMAGE = re.compile(r"(?:^|/)(?:registry\.k8s\.io|k8s-staging-[\w-]+)/jobset/jobset(?=[:@]|$)")
"""Images of the Go JobSet, also in mirrors that keep the name of its registry."""
_MAX_PODS = 50
"""Largest number of pods of managers that are read in one namespace."""


async def foreign_managers(client: Client, configurations: Iterable[JSON | None]) -> list[str]:
    """A line for each namespace of a called Service in which the Go JobSet runs."""
    faults = []
    for namespace in sorted({namespace for namespace, _ in _called_services(configurations)}):
        try:
            pods = await client.list(
                PODS,
                type=_Pod,
                namespace=namespace,
                label_selector=MANAGER_SELECTOR,
                limit=_MAX_PODS,
                timeout=COMMAND_TIMEOUT,
            )
        except Forbidden:
            continue
        images = {each.image for pod in pods.items or () for each in pod.spec.containers}
        if go_images := sorted(filter(_GO_IMAGE.search, images)):
            faults.append(f"{OTHER_MANAGER}: {go_images[0]} runs in namespace {namespace}: {RESTORE_MANAGER}")
    return faults


async def unreachable_services(client: Client, configurations: Iterable[JSON | None]) -> list[str]:
    """A line for each called Service without a ready endpoint. Leaves out Services that the user may not read."""
    faults = []
    for namespace, name in sorted(set(_called_services(configurations))):
        try:
            slices = await client.list(
                ENDPOINT_SLICES,
                type=_Slice,
                namespace=namespace,
                label_selector=f"kubernetes.io/service-name={name}",
                timeout=COMMAND_TIMEOUT,
            )
        except Forbidden:
            continue
        endpoints = (each for endpoint_slice in slices.items or () for each in endpoint_slice.endpoints or ())
        if all(each.conditions.ready is False for each in endpoints):
            faults.append(_service_fault(namespace, name))
    return faults


def _called_services(configurations: Iterable[JSON | None]) -> Iterator[tuple[str, str]]:
    for configuration in configurations:
        for hook in (configuration or {}).get("webhooks") or []:
            if service := (hook.get("clientConfig") or {}).get("service"):
                yield str(service.get("namespace")), str(service.get("name"))


def _service_fault(namespace: str, name: str) -> str:
    return (
        f"no replica answers: Service {namespace}/{name} has no ready endpoint, so JobSets can be neither created nor"
        f" changed: kubectl -n {namespace} get deployments,pods shows what there is, and kubectl -n {namespace} logs"
        f" deployment/{DEPLOYMENT} why it is not ready; with 0 replicas it is started by kubectl -n {namespace} scale"
        f" deployment/{DEPLOYMENT} --replicas=2; in an emergency: jobset webhooks off"
    )
