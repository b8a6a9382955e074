"""Our own certificates: made once, shared, rotated under load, and in the API server's CA bundles before they are served."""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from certs.decision import decide
from certs.manager import (
    CertManager,
    CertOptions,
    NotTrustedError,
    service_hosts,
)
from certs.material import KeyAlgorithm, Material, Renewal, material_of, secret_data
from certs.pki import read_certificates, read_key
from certs.renewal import decide_and_renew_now
from certs.source import LiveContext
from certs.tls import CertificateError, server_context
from kube.client import Client
from tests.certs.test_files import Notices
from tests.certs.test_tls import app
from tests.support.bad_certificates import BAD
from tests.support.beside import beside
from tests.support.model.memory_api import MemoryApi
from tests.support.tls import DAY, HOSTS, NOW, material, serial, served_serial, serving, until

SECRET = "jobset-webhook-server-cert"
MUTATING, VALIDATING = "jobset-mutating-webhook-configuration", "jobset-validating-webhook-configuration"
CONFIGURATIONS = {"mutatingwebhookconfigurations": MUTATING, "validatingwebhookconfigurations": VALIDATING}


class Api(MemoryApi):
    """The API server as installed: an empty Secret and two webhook configurations."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.put("secrets", SECRET, "ns", type="Opaque")
        for plural, name in CONFIGURATIONS.items():
            hook = {"name": "a", "clientConfig": {"url": "https://x"}, "unknown": {"kept": True}}
            self.put(plural, name, "", webhooks=[hook, {**hook, "name": "b"}])

    @property
    def secret(self) -> dict[str, bytes]:
        data = self.objects("secrets")["ns", SECRET].get("data", {})
        return {key: base64.b64decode(value) for key, value in data.items()}

    def bundles(self) -> set[bytes]:
        hooks = [h for plural, name in CONFIGURATIONS.items() for h in self.objects(plural)["", name]["webhooks"]]
        return {base64.b64decode(hook["clientConfig"].get("caBundle", "")) for hook in hooks}

    def writes(self, plural: str) -> int:
        return sum(r.method == "PUT" and plural in r.path for r in self.requests)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def healed_here(_module: str, _function: str, *task: Any) -> Any:
    """What `certs.child_process.call_in_process` of `decide_and_renew_now` gives, without a process."""
    try:
        return decide_and_renew_now(*task)
    except ValueError as error:
        raise CertificateError(str(error)) from error


@pytest.fixture
def in_processes() -> None:
    """For tests whose certificates are made in processes, as outside of tests: each takes 0.6 s of a processor."""


@pytest.fixture(autouse=True)
def _in_threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "in_processes" not in request.fixturenames:
        monkeypatch.setattr("certs.manager.call_in_process", healed_here)


def store(api: Api, content: Material) -> None:
    """Somebody writes the Secret."""
    api.put("secrets", SECRET, "ns", data=secret_data(content))


def manager(api: Api, context: ssl.SSLContext, clock: Clock | None = None, **options: Any) -> CertManager:
    wanted = CertOptions("ns", SECRET, HOSTS, **{"retry_seconds": 0.01, "settle_seconds": 0.05, **options})
    return CertManager(Client(api), LiveContext(context), wanted, clock=clock or Clock())


@contextlib.asynccontextmanager
async def running(*managers: CertManager) -> AsyncIterator[None]:
    async with beside(*(one.run() for one in managers)):
        yield


@pytest.mark.usefixtures("in_processes")
async def test_the_first_start_fills_the_secret_and_the_ca_bundles():
    api, context = Api(), server_context()
    certs = manager(api, context)
    async with serving(app, context) as server, running(certs):
        await asyncio.wait_for(certs.ready.wait(), 10)
        assert set(api.secret) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}
        assert api.bundles() == {api.secret["ca.crt"]}
        for host in HOSTS:
            assert await served_serial(server.port, api.secret["ca.crt"], host) == serial(api.secret["tls.crt"])
        assert certs.problem == ""


async def test_what_is_not_ours_in_the_objects_survives():
    api = Api()
    await manager(api, server_context()).check()
    assert api.objects("secrets")["ns", SECRET]["type"] == "Opaque"
    hooks = api.objects("mutatingwebhookconfigurations")["", MUTATING]["webhooks"]
    assert [(h["name"], h["unknown"], h["clientConfig"]["url"]) for h in hooks] == [
        ("a", {"kept": True}, "https://x"),
        ("b", {"kept": True}, "https://x"),
    ]


async def test_a_second_check_and_a_second_replica_write_nothing():
    api = Api()
    first = manager(api, server_context())
    await first.check()
    await first.check()
    await manager(api, server_context()).check()
    assert api.writes("secrets") == 1
    assert api.writes("webhookconfigurations") == 2


async def test_replicas_that_race_end_up_with_the_same_pair():
    api = Api()
    contexts = [server_context() for _ in range(4)]
    managers = [manager(api, context) for context in contexts]
    await asyncio.gather(*(one.check() for one in managers))
    assert api.writes("secrets") > 1, "nobody lost the race: the test shows nothing"
    assert {one._live.certificate for one in managers} == {api.secret["tls.crt"]}
    assert api.bundles() == {api.secret["ca.crt"]}


async def test_a_bundle_that_somebody_removes_is_put_back():
    api, context = Api(), server_context()
    async with running(manager(api, context)):
        await until(lambda: api.bundles() == {api.secret.get("ca.crt")})
        hook = {"name": "a", "clientConfig": {"url": "https://x"}}
        api.put("validatingwebhookconfigurations", VALIDATING, "", webhooks=[hook])
        await until(lambda: api.bundles() == {api.secret["ca.crt"]})


async def test_a_secret_that_somebody_changes_is_taken_over_or_repaired():
    api, context = Api(), server_context()
    certs = manager(api, context)
    async with running(certs):
        await asyncio.wait_for(certs.ready.wait(), 10)
        other = material()
        store(api, other)
        await until(lambda: certs._live.certificate == other.certificate)
        api.put("secrets", SECRET, "ns", data={"tls.crt": "no base64!"})
        await until(lambda: len(api.secret.get("tls.key", b"")) > 0)
        await until(
            lambda: certs._live.certificate == api.secret["tls.crt"] and api.bundles() == {api.secret["ca.crt"]}
        )


@pytest.mark.no_cover
async def test_whatever_somebody_puts_into_the_secret_is_healed(caplog: pytest.LogCaptureFixture):
    api = Api()
    certs = manager(api, server_context(), settle_seconds=0)
    caplog.set_level("INFO")
    async with running(certs):
        await asyncio.wait_for(certs.ready.wait(), 10)
        for name, bad in BAD.items():
            caplog.clear()
            store(api, bad.material)
            await until(lambda: any("renewed the" in line for line in caplog.messages))
            await until(
                lambda: certs._live.certificate == api.secret["tls.crt"] and api.bundles() == {api.secret["ca.crt"]}
            )
            (line,) = [line for line in caplog.messages if "renewed the" in line]
            assert line.startswith(f"renewed the {bad.renewal.value}: {bad.reason}"), name
            assert decide(material_of(api.objects("secrets")["ns", SECRET]), HOSTS, NOW).renewal is Renewal.NOTHING
        assert certs.problem == ""


ANNOTATION = "cert-manager.io/inject-ca-from-secret"


def inject(api: Api, bundle: bytes, **annotations: str) -> None:
    """Somebody else writes the CA bundles, and says so in the annotation."""
    hook = {"name": "a", "clientConfig": {"url": "https://x", "caBundle": base64.b64encode(bundle).decode()}}
    for plural, name in CONFIGURATIONS.items():
        body = {"metadata": {"annotations": annotations}} if annotations else {}
        api.put(plural, name, "", webhooks=[hook], **body)


async def test_a_bundle_that_somebody_else_injects_is_only_read(caplog: pytest.LogCaptureFixture):
    api, context, injected = Api(), server_context(), {ANNOTATION: f"ns/{SECRET}"}
    inject(api, b"", **injected)
    certs = manager(api, context)
    async with serving(app, context) as server, running(certs):
        await until(lambda: "caBundle, written by cert-manager.io/inject-ca-from-secret, lacks the CA" in certs.problem)
        assert not certs.ready.is_set()
        inject(api, material().authorities, **injected)
        inject(api, api.secret["ca.crt"], **injected)
        await asyncio.wait_for(certs.ready.wait(), 10)
        assert await served_serial(server.port, api.secret["ca.crt"]) == serial(api.secret["tls.crt"])
        assert api.writes("webhookconfigurations") == 0
        served = certs._live.certificate
        store(api, material())
        await until(lambda: "is not served yet" in certs.problem)
        assert certs._live.certificate == served, "what the API server does not trust is not served"
        inject(api, api.secret["ca.crt"], **injected)
        await until(lambda: certs._live.certificate == api.secret["tls.crt"] != served)
        assert api.writes("webhookconfigurations") == 0


async def test_a_new_certificate_waits_if_its_ca_goes_from_the_bundles_meanwhile():
    api, clock = Api(), Clock()
    certs = manager(api, server_context(), clock, settle_seconds=0)
    await certs.check()
    before, stored = certs._live.certificate, api.secret["ca.crt"]
    clock.now = NOW + 3600 * DAY
    certs._options = replace(certs._options, settle_seconds=0.2)
    checking = asyncio.create_task(certs.check())
    await until(lambda: api.bundles() == {api.secret["ca.crt"]} != {stored})
    inject(api, stored)
    with pytest.raises(NotTrustedError, match="caBundle, written by the manager, lacks the CA in Secret ns/"):
        await checking
    assert certs._live.certificate == before
    await certs.check()
    assert certs._live.certificate == api.secret["tls.crt"] != before


async def test_a_configuration_that_goes_while_a_new_ca_settles_is_no_problem():
    api, clock = Api(), Clock()
    certs = manager(api, server_context(), clock, settle_seconds=0)
    await certs.check()
    clock.now = NOW + 3600 * DAY
    certs._options = replace(certs._options, settle_seconds=0.2)
    checking = asyncio.create_task(certs.check())
    stored = api.secret["ca.crt"]
    await until(lambda: api.bundles() == {api.secret["ca.crt"]} != {stored})
    api.drop("mutatingwebhookconfigurations", MUTATING, "")
    await checking
    assert certs._live.certificate == api.secret["tls.crt"]


@pytest.mark.parametrize("algorithm", ["ECDSA", "RSA"])
async def test_keys_are_of_the_kind_that_was_asked_for(algorithm: KeyAlgorithm):
    api = Api()
    await manager(api, server_context(), key_algorithm=algorithm).check()
    kind = {"ECDSA": ec.EllipticCurvePrivateKey, "RSA": rsa.RSAPrivateKey}[algorithm]
    assert [isinstance(read_key(api.secret[name]), kind) for name in ("ca.key", "tls.key")] == [True, True]
    assert decide(material_of(api.objects("secrets")["ns", SECRET]), HOSTS, NOW).renewal is Renewal.NOTHING


async def test_replicas_that_want_other_kinds_of_keys_do_not_undo_each_others_work():
    api = Api()
    one, two = manager(api, server_context()), manager(api, server_context(), key_algorithm="RSA")
    for certs in (one, two, one, two):
        await certs.check()
    assert api.writes("secrets") == 1


async def test_failures_are_counted_and_expiry_is_reported():
    api, heard = Api(), Notices()
    api.drop("secrets", SECRET, "ns")
    certs = manager(api, server_context())
    certs._live.observer = heard
    async with running(certs):
        await until(lambda: heard.events[:2] == ["failed", "failed"])
        api.put("secrets", SECRET, "ns")
        await asyncio.wait_for(certs.ready.wait(), 10)
    expiry, authority = [event for event in heard.events if event != "failed" and "lists" not in str(event)]
    assert expiry == (NOW + 365 * DAY).timestamp()
    assert authority == f"CA until {(NOW + 3650 * DAY).timestamp():.0f}"


async def rotated(api: Api, managers: list[CertManager]) -> None:
    """Wake all replicas and wait until they all serve something new."""
    before = api.secret["tls.crt"]
    for certs in managers:
        certs._changed.set()
    await until(lambda: {certs._live.certificate for certs in managers} == {api.secret["tls.crt"]} != {before})


class Load:
    """Handshakes one after the other, checked against the CA bundle that was published a moment ago: each succeeds."""

    def __init__(self, api: Api) -> None:
        self.serials: list[int] = []
        self.over = asyncio.Event()
        self._api = api

    async def connect(self, port: int) -> None:
        while not self.over.is_set():
            bundle = next(iter(self._api.bundles()))
            await asyncio.sleep(0.05)  # an API server that is behind
            self.serials.append(await served_serial(port, bundle, any_time=True))

    async def more(self, number: int) -> None:
        """Wait for so many more."""
        wanted = len(self.serials) + number
        await until(lambda: len(self.serials) >= wanted)


@contextlib.asynccontextmanager
async def under_load(api: Api, *ports: int) -> AsyncIterator[Load]:
    load = Load(api)
    async with asyncio.TaskGroup() as group:
        for port in ports:
            group.create_task(load.connect(port))
        yield load
        load.over.set()


@pytest.mark.usefixtures("in_processes")
async def test_no_handshake_fails_while_everything_rotates_under_load():
    api, clock = Api(), Clock()
    contexts = [server_context(), server_context()]
    managers = [manager(api, context, clock, settle_seconds=0.2) for context in contexts]
    async with serving(app, contexts[0]) as one, serving(app, contexts[1]) as two, running(*managers):
        await asyncio.gather(*(certs.ready.wait() for certs in managers))
        async with under_load(api, one.port, two.port) as load:
            await load.more(5)
            for days in (280, 3600):
                clock.now = NOW + days * DAY
                await rotated(api, managers)
                await load.more(5)
    assert len(set(load.serials)) == 3
    assert len(read_certificates(api.secret["ca.crt"])) == 2


@pytest.mark.parametrize("name", ["nothing", "all is garbage", "CA is none", "a CA of their own"])
async def test_no_handshake_fails_while_somebody_overwrites_the_secret(name: str):
    api, context, content = Api(), server_context(), BAD[name].material if name in BAD else material()
    certs = manager(api, context, settle_seconds=0.2)
    async with serving(app, context) as server, running(certs):
        await certs.ready.wait()
        ours = api.secret["ca.crt"]
        async with under_load(api, server.port) as load:
            await load.more(2)
            before = certs._live.certificate
            store(api, content)
            await until(lambda: certs._live.certificate == api.secret["tls.crt"] != before)
            await load.more(2)
        if name not in BAD:
            assert api.secret["ca.crt"] == content.authorities + ours, "ours is trusted while it is served"
    assert len(set(load.serials)) == 2


async def test_a_missing_secret_is_reported_and_waited_for():
    api, context = Api(), server_context()
    api.drop("secrets", SECRET, "ns")
    certs = manager(api, context)
    async with running(certs):
        await until(lambda: "does not exist" in certs.problem)
        assert "Secret ns/jobset-webhook-server-cert" in certs.problem
        assert f"kubectl create secret generic -n ns {SECRET} makes it" in certs.problem
        assert not certs.ready.is_set()
        api.put("secrets", SECRET, "ns")
        await asyncio.wait_for(certs.ready.wait(), 10)
        assert certs.problem == ""


async def test_a_missing_configuration_does_not_prevent_serving(caplog: pytest.LogCaptureFixture):
    api = Api()
    api.drop("mutatingwebhookconfigurations", MUTATING, "")
    certs = manager(api, server_context())
    await certs.check()
    assert certs._live.certificate
    assert "jobset-mutating-webhook-configuration does not exist" in caplog.text
    assert "apply again what you have installed (your kustomization" in caplog.text


async def test_keys_are_never_logged(caplog: pytest.LogCaptureFixture):
    caplog.set_level(0)
    api = Api()
    await manager(api, server_context()).check()
    api.put("secrets", SECRET, "ns", data={"tls.key": "AAAA", "ca.key": "AAAA"})
    await manager(api, server_context()).check()
    assert "renewed" in caplog.text
    assert "PRIVATE" not in caplog.text


def test_service_hosts():
    assert service_hosts("s", "ns", "localhost") == ("s.ns.svc", "s.ns.svc.cluster.local", "localhost")
