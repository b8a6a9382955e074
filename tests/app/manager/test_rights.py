"""Rights that are missing keep a manager from being ready, and are named."""

import asyncio
import logging
from typing import Any

import msgspec
import pytest
import yaml

from api.features import FeatureGates
from app.health import Health
from app.manager.options import Options
from app.manager.rights import (
    ASK_AGAIN,
    FILES,
    NEEDED,
    lease_rights,
    look_up_right,
    look_ups_of,
    watch_rights,
)
from app.settings import LOOK_UPS, LookUp
from app.settings_file import parse
from kube.client import Client
from kube.errors import TransportError
from kube.interruptions import LOG_EVERY
from kube.leader import LeaseConfig
from kube.transport import Request, Response
from manifests import objects
from manifests.files import ROOT
from tests.support.asgi import post
from tests.support.model.memory_api import MemoryApi

pytestmark = pytest.mark.looptime

LEASE = LeaseConfig(namespace="team", name="lock")


class Authorizer(MemoryApi):
    """Denies the verbs in `denied`, of leases those in `denied_leases`, and all of `denied_resources`.

    It answers nothing while it is `silent`.
    """

    denied: frozenset[str] = frozenset()
    denied_leases: frozenset[str] = frozenset()
    denied_resources: frozenset[str] = frozenset()
    silent = False

    async def send(self, request: Request) -> Response:
        assert request.path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        if self.silent:
            raise TransportError("no answer")
        asked = msgspec.json.decode(request.body or b"")["spec"]["resourceAttributes"]
        lease = asked["resource"] == "leases"
        assert not lease or (asked["namespace"], asked["group"]) == ("team", "coordination.k8s.io")
        assert asked.get("name") == ("lock" if lease and asked["verb"] != "create" else None)
        allowed = asked["verb"] not in (self.denied_leases if lease else self.denied)
        allowed = allowed and asked["resource"] not in self.denied_resources
        return Response(201, {}, msgspec.json.encode({"status": {"allowed": allowed}}))


async def said(health: Health) -> str:
    return (await post(health, "/readyz/rights", b"", method="GET")).body.decode()


async def test_missing_rights_are_named_until_they_are_granted(caplog: pytest.LogCaptureFixture) -> None:
    api, health = Authorizer(), Health()
    api.denied = frozenset({"patch"})
    watching = asyncio.create_task(watch_rights(Client(api), health, LEASE))
    await asyncio.sleep(ASK_AGAIN * 2.5)
    fault = "the manager may not patch jobs.batch, patch jobsets/status.jobset.x-k8s.io: apply its ClusterRoles again: kubectl apply --server-side --force-conflicts -k manifests/rbac"
    assert await said(health) == f"[-]rights failed: {fault}\nrights check failed\n"
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        f"not ready: {fault}"
    ], "once, not every time"
    api.denied = frozenset({"create"})
    await asyncio.sleep(ASK_AGAIN)
    assert "may not create jobs.batch, create services: apply" in await said(health)
    api.denied = frozenset()
    await asyncio.wait_for(watching, ASK_AGAIN * 2)
    assert await said(health) == "ok"


async def test_a_manager_that_cannot_take_the_lease_is_not_ready_and_says_why(caplog) -> None:
    api, health = Authorizer(), Health()
    api.denied_leases = frozenset({"patch", "create"})
    watching = asyncio.create_task(watch_rights(Client(api), health, LEASE))
    await asyncio.sleep(LOG_EVERY * 2.5)
    fault = (
        "the manager may not create leases.coordination.k8s.io, patch leases.coordination.k8s.io in namespace team, so it"
        " cannot lead: apply its Role jobset-leader-election-role and the RoleBinding there again:"
        " kubectl apply --server-side --force-conflicts -k manifests/rbac"
    )
    assert await said(health) == f"[-]rights failed: {fault}\nrights check failed\n"
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == [f"not ready: {fault}"] * 3
    api.denied_leases = frozenset()
    await asyncio.wait_for(watching, ASK_AGAIN * 2)
    assert await said(health) == "ok"


@pytest.mark.parametrize(
    ("authorizer", "lease"),
    [
        pytest.param({"denied_leases": {"patch", "create", "get"}}, None, id="leases, without an election"),
        pytest.param({"denied_resources": {"configmaps", "secrets"}}, LEASE, id="what is not looked up"),
        pytest.param({"silent": True}, LEASE, id="the API server does not tell"),
    ],
)
async def test_rights_that_are_not_needed_or_not_known_are_not_missing(
    authorizer: dict[str, Any], lease: LeaseConfig | None
) -> None:
    api, health = Authorizer(), Health()
    vars(api).update(authorizer)
    await asyncio.wait_for(watch_rights(Client(api), health, lease), 120)
    assert await said(health) == "ok"


async def test_a_right_to_watch_that_is_missing_is_named() -> None:
    api, health = Authorizer(), Health()
    api.denied = frozenset({"watch"})
    watching = asyncio.create_task(watch_rights(Client(api), health, LEASE))
    await asyncio.sleep(1)
    watched = ("jobsets.jobset.x-k8s.io", "jobs.batch", "services", "pods", "nodes", "persistentvolumeclaims")
    text = await said(health)
    assert [resource for resource in watched if f"watch {resource}" not in text] == []
    watching.cancel()


LOOKED_UP: tuple[LookUp, ...] = ("ConfigMaps", "Secrets")


async def test_a_look_up_without_its_right_is_named_with_both_remedies() -> None:
    api, health = Authorizer(), Health()
    api.denied_resources = frozenset({"configmaps", "secrets"})
    watching = asyncio.create_task(watch_rights(Client(api), health, LEASE, LOOKED_UP))
    await asyncio.sleep(1)
    apply = "kubectl apply --server-side --force-conflicts -f manifests/references/"
    fault = (
        "the manager may not get configmaps: take ConfigMaps out of childDryRun.lookUp, or grant the right:"
        f" {apply}config-maps.yaml; "
        "the manager may not get secrets: take Secrets out of childDryRun.lookUp, or grant the right:"
        f" {apply}secrets.yaml"
    )
    assert await said(health) == f"[-]rights failed: {fault}\nrights check failed\n"
    api.denied_resources = frozenset({"configmaps"})
    await asyncio.sleep(ASK_AGAIN)
    assert "secrets" not in await said(health)
    api.denied_resources = frozenset()
    await asyncio.wait_for(watching, ASK_AGAIN * 2)
    assert await said(health) == "ok"


@pytest.mark.parametrize(
    ("section", "webhooks", "needed"),
    [
        ("lookUp: [Secrets]", True, ("Secrets",)),
        ("lookUp: [Secrets]", False, ()),
        ("lookUp: [Secrets], enable: false", True, ()),
        ("budget: 3s", True, ()),
    ],
)
def test_look_ups_of_a_manager_are_those_of_its_admission(
    section: str, webhooks: bool, needed: tuple[str, ...]
) -> None:
    settings = parse(f"apiVersion: config.jobset.x-k8s.io/v1alpha1\nkind: Configuration\nchildDryRun: {{{section}}}")
    assert look_ups_of(Options(settings, FeatureGates(), webhooks=webhooks)) == needed


@pytest.mark.parametrize("look_up", LOOKED_UP)
def test_the_file_that_is_named_grants_the_right(look_up: LookUp) -> None:
    role, _ = yaml.safe_load_all((ROOT / "references" / FILES[look_up]).read_text())
    right = look_up_right(look_up)
    assert role["rules"] == [{"apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb]}]
    assert right.resource == LOOK_UPS[look_up].plural


def test_the_rights_asked_for_are_granted_by_the_manifests() -> None:
    granted = {
        (group, resource, verb)
        for role in objects("rbac/rbac.yaml")
        for rule in role.get("rules", [])
        for group in rule.get("apiGroups", [])
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    asked = {
        (right.group, f"{right.resource}/{right.subresource}" if right.subresource else right.resource, right.verb)
        for right in (*NEEDED, *lease_rights(LEASE))
    }
    assert asked <= granted
