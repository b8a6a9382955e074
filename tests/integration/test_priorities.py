"""The priority of a pod is foretold as the Priority admission of the real API server gives it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from api.priority import Priorities, PriorityClass
from kube.client import Client
from kube.errors import Forbidden, NotFound
from kube.informer import Informer
from kube.resources import PODS, PRIORITY_CLASSES
from tests.support.cluster.kube_client import connected, synced
from tests.support.cluster.requests import eventually
from tests.support.objects.placement import allow_pods, seen


class Admission:
    """Says of pods what priority they get: ours by the watched classes, theirs by making them."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client, self.namespace = client, namespace
        self.classes = Informer(client, PRIORITY_CLASSES, PriorityClass)
        self.made: list[str] = []

    def named(self, name: str) -> str:
        """Classes are of the whole cluster."""
        return f"{name}-{self.namespace}"

    async def add(self, name: str, value: int, **fields: Any) -> None:
        body = {"metadata": {"name": self.named(name)}, "value": value, **fields}
        await self.client.create(PRIORITY_CLASSES, body)
        self.made.append(self.named(name))
        await seen(lambda: self.classes.store.get("", self.named(name)), f"class {name} is seen")

    def ours(self, class_name: str | None) -> int | None:
        spec = {} if class_name is None else {"priorityClassName": class_name}
        return Priorities(self.classes.store.list()).priority_of(spec)

    async def theirs(self, class_name: str | None) -> int | None:
        """None when the pod is refused."""
        spec: dict[str, Any] = {"containers": [{"name": "main", "image": "none"}], "terminationGracePeriodSeconds": 0}
        if class_name is not None:
            spec["priorityClassName"] = class_name
        made = {"metadata": {"generateName": "p-"}, "spec": spec}
        try:
            answer = await self.client.create(PODS, made, namespace=self.namespace)
        except Forbidden:
            return None
        await self.client.delete(PODS, answer["metadata"]["name"], namespace=self.namespace)
        return answer["spec"]["priority"]

    async def agreed(self, class_name: str | None, priority: int | None) -> None:
        """Both say this, the API server as soon as its own watch has caught up."""
        assert self.ours(class_name) == priority

        async def same() -> bool:
            return await self.theirs(class_name) == priority

        await eventually(same, timeout=20, what=f"the API server gives {priority} for class {class_name}")


@pytest.fixture
async def admission(jobset_server, namespace) -> AsyncIterator[Admission]:
    allow_pods(jobset_server, namespace)
    async with connected(jobset_server.kubeconfig) as (client, _):
        made = Admission(client, namespace)
        async with synced(made.classes):
            yield made
            for name in made.made:
                with contextlib.suppress(NotFound):
                    await client.delete(PRIORITY_CLASSES, name)


@pytest.mark.parametrize(
    ("name", "priority"),
    [
        (None, 0),
        ("", 0),
        ("system-node-critical", 2000001000),
        ("system-cluster-critical", 2000000000),
        ("no-such-class", None),
    ],
)
async def test_where_no_class_was_made(admission, name, priority):
    await admission.agreed(name, priority)


async def test_classes_that_come_and_go(admission):
    await admission.add("low", -1000)
    await admission.add("high", 1000000, preemptionPolicy="Never")
    await admission.agreed(admission.named("low"), -1000)
    await admission.agreed(admission.named("high"), 1000000)
    await admission.agreed(None, 0)
    await admission.client.delete(PRIORITY_CLASSES, admission.named("low"))
    await seen(lambda: admission.classes.store.get("", admission.named("low")) is None, "the class is gone")
    await admission.agreed(admission.named("low"), None)


async def test_of_defaults_that_were_made_at_once_the_lowest_counts(admission):
    """The API server refuses a second one, unless its own watch has not shown it the first yet."""
    wanted = {"a": 500, "b": -300, "c": 900}
    answers = await asyncio.gather(
        *(admission.add(name, value, globalDefault=True) for name, value in wanted.items()), return_exceptions=True
    )
    made = [value for value, answer in zip(wanted.values(), answers, strict=True) if answer is None]
    assert made
    assert all(answer is None or isinstance(answer, Forbidden) for answer in answers)
    await admission.agreed(None, min(made))
