"""The client against a real API server: verbs, preconditions, server-side apply, pages, credentials."""

import base64
import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from kube.client import PatchType
from kube.errors import AlreadyExists, BadRequest, Conflict, Forbidden, Gone, Invalid, NotFound
from kube.resources import CONFIG_MAPS, JOBS, NODES
from tests.support.cluster.kube_client import connected
from tests.support.objects.kube_objects import Thing

APPLY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "1"}}


def config_map(name: str, **data: str) -> dict:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def job(name: str) -> dict:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": {"spec": pod}}}


async def test_a_round_trip_keeps_fields_the_typed_object_does_not_know(jobset_server, namespace):
    async with connected(jobset_server.kubeconfig) as (client, _):
        made = await client.create(CONFIG_MAPS, config_map("a", x="1"), type=Thing, namespace=namespace)
        assert made.metadata.uid
        patched = await client.patch(
            CONFIG_MAPS, "a", {"metadata": {"labels": {"seen": "yes"}}}, type=Thing, namespace=namespace
        )
        assert int(patched.metadata.resource_version) > int(made.metadata.resource_version)
        raw = await client.get(CONFIG_MAPS, "a", namespace=namespace)
        assert raw["data"] == {"x": "1"}
        assert raw["metadata"]["labels"] == {"seen": "yes"}
        assert await client.delete(CONFIG_MAPS, "a", namespace=namespace) is None
        with pytest.raises(NotFound, match=r'404 NotFound: configmaps "a" not found'):
            await client.get(CONFIG_MAPS, "a", namespace=namespace)


async def test_preconditions_hold(jobset_server, namespace):
    async with connected(jobset_server.kubeconfig) as (client, _):
        made = await client.create(CONFIG_MAPS, config_map("a"), type=Thing, namespace=namespace)
        with pytest.raises(AlreadyExists):
            await client.create(CONFIG_MAPS, config_map("a"), namespace=namespace)
        moved = await client.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, type=Thing, namespace=namespace)
        stale = {"metadata": {"resourceVersion": made.metadata.resource_version}, "data": {"x": "2"}}
        with pytest.raises(Conflict) as caught:
            await client.patch(CONFIG_MAPS, "a", stale, namespace=namespace)
        assert not isinstance(caught.value, AlreadyExists)
        with pytest.raises(Conflict):
            await client.delete(CONFIG_MAPS, "a", namespace=namespace, uid="somebody-else")
        await client.delete(CONFIG_MAPS, "a", namespace=namespace, uid=moved.metadata.uid)


async def test_server_side_apply_owns_fields_and_conflicts_are_reported(jobset_server, namespace):
    async with connected(jobset_server.kubeconfig) as (client, _):
        options = {"patch_type": PatchType.APPLY, "type": Thing, "namespace": namespace}
        first = await client.patch(CONFIG_MAPS, "applied", APPLY, field_manager="one", **options)
        again = await client.patch(CONFIG_MAPS, "applied", APPLY, field_manager="one", **options)
        assert first.metadata.resource_version == again.metadata.resource_version, "the same twice changes nothing"
        other = {**APPLY, "data": {"a": "2"}}
        with pytest.raises(Conflict, match=r"conflict with \"one\"") as caught:
            await client.patch(CONFIG_MAPS, "applied", other, field_manager="two", **options)
        assert caught.value.causes[0].field == ".data.a"
        await client.patch(CONFIG_MAPS, "applied", other, field_manager="two", force=True, **options)
        assert (await client.get(CONFIG_MAPS, "applied", namespace=namespace))["data"] == {"a": "2"}


async def test_errors_about_wrong_objects_are_distinct(jobset_server, namespace):
    async with connected(jobset_server.kubeconfig) as (client, _):
        with pytest.raises(Invalid) as caught:
            await client.create(CONFIG_MAPS, config_map("Upper_Case"), namespace=namespace)
        assert caught.value.causes[0].field == "metadata.name"
        with pytest.raises(BadRequest, match="unknown field"):
            await client.create(
                CONFIG_MAPS, {**config_map("a"), "odd": 1}, namespace=namespace, field_validation="Strict"
            )
        await client.create(CONFIG_MAPS, config_map("dry"), namespace=namespace, dry_run=True)
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAPS, "dry", namespace=namespace)


async def test_pages_are_one_consistent_list(jobset_server, namespace):
    async with connected(jobset_server.kubeconfig) as (client, _):
        for number in range(25):
            await client.create(CONFIG_MAPS, config_map(f"m{number:02}"), namespace=namespace)
        first = await client.list(CONFIG_MAPS, type=Thing, namespace=namespace, limit=10)
        await client.delete(CONFIG_MAPS, "m24", namespace=namespace)
        token = first.metadata.continue_token
        rest = await client.list(CONFIG_MAPS, type=Thing, namespace=namespace, limit=50, continue_token=token)
        names = [obj.metadata.name for obj in [*(first.items or ()), *(rest.items or ())]]
        assert names == [f"m{number:02}" for number in range(25)], "as of the first page"
        assert rest.metadata.resource_version == first.metadata.resource_version
        everything = [obj async for obj in client.pages(CONFIG_MAPS, type=Thing, namespace=namespace, limit=7)]
        assert len(everything) == 24
        await client.delete_collection(CONFIG_MAPS, namespace=namespace)
        assert (await client.list(CONFIG_MAPS, namespace=namespace)).items == []


async def test_a_version_the_server_never_reached_is_gone(jobset_server, namespace):
    async with connected(jobset_server.kubeconfig) as (client, _):
        with pytest.raises(Gone):
            await client.list(
                CONFIG_MAPS, namespace=namespace, resource_version="999999999", resource_version_match="NotOlderThan"
            )


async def test_delete_returns_whether_the_object_is_still_there(jobset_server, namespace):
    async with connected(jobset_server.kubeconfig) as (client, _):
        for name in ("front", "back"):
            await client.create(JOBS, job(name), namespace=namespace)
        left = await client.delete(JOBS, "front", type=Thing, namespace=namespace, propagation_policy="Foreground")
        assert left is not None
        assert left.metadata.name == "front"
        assert await client.delete(JOBS, "back", namespace=namespace, propagation_policy="Background") is None
        await client.patch(JOBS, "front", {"metadata": {"finalizers": None}}, namespace=namespace)


async def test_a_user_without_rights_is_forbidden(jobset_server):
    async with connected(jobset_server.kubeconfig_for("stranger")) as (client, _):
        with pytest.raises(Forbidden, match='User "stranger" cannot list resource "nodes"'):
            await client.list(NODES)


def with_plugin(kubeconfig: Path, tmp_path: Path) -> Path:
    """The kubeconfig with its certificate moved behind an exec plugin."""
    config = yaml.safe_load(kubeconfig.read_text())
    user = config["users"][0]["user"]

    def pem(kind: str) -> str:
        if f"{kind}-data" in user:
            return base64.b64decode(user[f"{kind}-data"]).decode()
        return Path(user[kind]).read_text()

    status = {"clientCertificateData": pem("client-certificate"), "clientKeyData": pem("client-key")}
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    script = f"print({msgspec.json.encode(answer).decode()!r})"
    config["users"][0]["user"] = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": ["-c", script],
            "interactiveMode": "Never",
        }
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


async def test_an_exec_plugin_gives_the_credentials(jobset_server, tmp_path):
    async with connected(with_plugin(jobset_server.kubeconfig, tmp_path)) as (client, _):
        assert b'"major": "1"' in await client.raw("/version")
        await client.list(NODES)
