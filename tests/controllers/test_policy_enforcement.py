"""What is applied, left alone and removed of policies that the API server is to hold by itself."""

import asyncio
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from api.features import FeatureGates
from controllers.policy.enforcement import APPLIED, NOTHING, REAPPLY_AFTER, Enforcement
from kube.client import Client
from kube.transport import Request, Response
from policy.exception_types import JobSetPolicyException, read_exception
from policy.types import JobSetPolicy, read_policy
from tests.support.model.faults import status_body
from tests.support.model.memory_api import MemoryApi
from tests.support.objects.policies import exception, manifest

AT = datetime(2030, 6, 1, tzinfo=UTC)
PREFIX = "/apis/admissionregistration.k8s.io/v1/"
RULES = {"validatingadmissionpolicies", "validatingadmissionpolicybindings"}
DEFAULTS = {"mutatingadmissionpolicies", "mutatingadmissionpolicybindings"}


def asking(
    name: str = "limits", actions: tuple[str, ...] = ("Deny",), *, version: int = 1, **more: Any
) -> JobSetPolicy:
    """A policy with `apiServer: Enforce`; `more` are fields of its spec."""
    body = manifest(name, actions, maxJobs={"max": version})
    body["metadata"] |= {"uid": f"uid-{name}", "generation": version}
    body["spec"] |= {"apiServer": "Enforce", **more}
    return read_policy(body)


@dataclass
class World(MemoryApi):
    """Policies, exceptions, and an API server that takes what is applied. `refuses`: a part of paths, with `code`."""

    in_force: tuple[JobSetPolicy, ...] = ()
    all_exceptions: tuple[JobSetPolicyException, ...] = ()
    stored: dict[str, dict[str, Any]] = field(default_factory=dict)
    refuses: str = ""
    code: int = 403
    minor: str = "37"

    def answered(self, request: Request) -> Response:
        path = request.path.removeprefix(PREFIX)
        if path == "/version":
            return Response(200, {}, json.dumps({"major": "1", "minor": self.minor}).encode())
        if self.refuses and self.refuses in path and (self.code == 403 or request.method == "PATCH"):
            return Response(self.code, {}, status_body(self.code))
        if request.method == "PATCH":
            assert dict(request.query) == {"fieldManager": "jobset-policies", "force": "true"}
            self.stored[path] = json.loads(request.body or b"")
            return Response(200, {}, request.body or b"")
        if request.method == "DELETE":
            gone = self.stored.pop(path, None)
            return Response(404, {}, status_body(404)) if gone is None else Response(200, {}, b"{}")
        assert dict(request.query)["labelSelector"] == "policy.jobset.x-k8s.io/enforced=true"
        items = [body for name, body in self.stored.items() if name.startswith(f"{path}/")]
        return Response(200, {}, json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode())

    @property
    def kinds(self) -> set[str]:
        return {path.partition("/")[0] for path in self.stored}

    def asked(self) -> list[str]:
        """Verbs of the requests since the last call."""
        verbs = [request.method for request in self.requests]
        self.requests.clear()
        return verbs


@pytest.fixture
def world() -> World:
    return World()


def enforcement(world: World) -> Enforcement:
    return Enforcement(Client(world), world, FeatureGates(), ("kueue",), now=lambda: AT)


async def test_without_policies_nobody_is_asked(world: World):
    manager = enforcement(world)
    assert await manager.check()
    assert world.asked() == []
    world.in_force = (read_policy(manifest(maxJobs={"max": 1})),)
    assert await manager.check()
    assert set(world.asked()) == {"GET"}, "once, whether a manager before left something"
    assert await manager.check()
    assert world.asked() == []


async def test_without_the_right_it_asks_once_for_what_was_left_behind(world: World):
    manager = enforcement(world)
    world.in_force, world.refuses = (read_policy(manifest(maxJobs={"max": 1})),), "admissionpolic"
    assert await manager.check()
    assert await manager.check()
    assert [request.path for request in world.requests] == [f"{PREFIX}validatingadmissionpolicies"]


@pytest.mark.parametrize("actions", [("Warn",), ("Audit",), ("Warn", "Audit")])
async def test_rules_that_do_not_deny_are_left_to_the_webhooks(world: World, actions: tuple[str, ...]):
    world.in_force = (asking(actions=actions, defaults={"labels": {"a": "b"}}),)
    assert await enforcement(world).check()
    assert world.kinds == DEFAULTS


async def test_what_no_policy_asks_for_is_removed_also_by_the_next_manager(world: World):
    manager = enforcement(world)
    world.in_force = (asking(), asking("other"))
    assert await manager.check()
    world.in_force = (asking(),)
    assert await manager.check()
    assert {path.partition("/")[2] for path in world.stored} == {"jobset-policy-limits"}
    world.in_force = (read_policy(manifest(maxJobs={"max": 1})),)
    assert await enforcement(world).check()
    assert world.stored == {}


async def test_an_exception_that_comes_or_goes_changes_what_is_applied(world: World):
    allowed = {"allowedNamespaces": {}, "maxDuration": "999d"}
    world.in_force = (asking(exceptions=allowed),)
    manager = enforcement(world)
    for exceptions, there in (((), False), ((read_exception(exception()),), True), ((), False)):
        world.all_exceptions = exceptions
        assert await manager.check()
        assert ("2031-01-01T00:00:00Z" in json.dumps(world.stored)) is there


async def test_without_the_right_it_is_tried_again_and_said(world: World, caplog: pytest.LogCaptureFixture):
    manager = enforcement(world)
    world.in_force, world.refuses = (asking(),), "validating"
    assert not await manager.check()
    assert "kubectl apply --server-side -k manifests/policy-in-api-server" in caplog.text
    assert "..." not in caplog.text
    world.refuses = ""
    assert await manager.check()
    assert world.kinds == RULES


async def test_an_object_that_cannot_be_removed_is_named_in_the_log(world: World, caplog: pytest.LogCaptureFixture):
    manager = enforcement(world)
    world.in_force = (asking(),)
    assert await manager.check()
    world.in_force, world.refuses = (), "policybindings"
    assert not await manager.check()
    assert "policybindings jobset-policy-limits is not removed from the API server: " in caplog.text.replace(
        ".admissionregistration.k8s.io", ""
    )


@pytest.mark.looptime
async def test_what_somebody_else_has_changed_is_applied_again(world: World):
    manager = enforcement(world)
    world.in_force = (asking(),)
    assert await manager.check()
    world.stored.clear()
    assert await manager.check()
    assert world.stored == {}
    await asyncio.sleep(REAPPLY_AFTER)
    assert await manager.check()
    assert world.kinds == RULES


def heard(world: World) -> tuple[Enforcement, list[str]]:
    """Enforcement, and the names of policies of which it has said something new."""
    names: list[str] = []
    return Enforcement(Client(world), world, FeatureGates(), ("kueue",), now=lambda: AT, on_change=names.append), names


async def test_whether_it_holds_is_told_once_for_each_reason(world: World):
    manager, names = heard(world)
    world.in_force, world.refuses = (asking(), read_policy(manifest("other", maxJobs={"max": 1}))), "validating"
    assert manager.state("limits") is None
    for _ in range(2):
        assert not await manager.check()
    held = manager.state("limits")
    assert held is not None
    assert (held.holds, held.reason) == (False, "Forbidden")
    assert "kubectl apply --server-side -k manifests/policy-in-api-server" in held.message
    assert names == ["limits"], "a second try that fails in the same way is not told"
    world.refuses = ""
    assert await manager.check()
    assert manager.state("limits") == APPLIED
    assert names == ["limits", "limits"]
    assert manager.state("other") is None


async def test_a_policy_with_nothing_for_the_api_server_is_told(world: World):
    manager, _ = heard(world)
    world.in_force = (asking(actions=("Warn",)),)
    assert await manager.check()
    assert manager.state("limits") == NOTHING


@pytest.mark.parametrize(
    ("part", "code", "minor", "said"),
    [
        ("validating", 422, "33", "rules of policies in the API server need Kubernetes 1.34 or newer, and the API server is 1.33"),
        ("mutating", 404, "35", "defaults of policies in the API server need Kubernetes 1.36 or newer, and the API server is 1.35"),
        ("validating", 422, "34", "422"),
        ("mutating", 404, "36", "404"),
    ],
)  # fmt: skip
async def test_an_api_server_that_is_too_old_is_said_in_words(
    world: World, part: str, code: int, minor: str, said: str
):
    manager, _ = heard(world)
    policy = asking(defaults={"labels": {"a": "b"}})
    world.in_force, world.refuses, world.code, world.minor = (policy,), part, code, minor
    assert not await manager.check()
    held = manager.state("limits")
    assert held is not None
    assert (held.holds, held.reason) == (False, "NotApplied")
    assert held.message == said if minor in {"33", "35"} else said in held.message
