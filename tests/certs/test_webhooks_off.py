"""The manager notices that webhooks are out of the way: the log says it once, and a metric as long as it lasts."""

import asyncio
from dataclasses import replace

import pytest

from certs.manager import CertManager, CertOptions
from certs.material import material_of
from certs.source import LiveContext
from certs.tls import server_context
from kube.client import Client
from tests.certs.test_files import Notices
from tests.certs.test_manager import SECRET, VALIDATING, Api, Clock, running, store
from tests.support.tls import HOSTS, until

PLURAL = "validatingwebhookconfigurations"


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def heard() -> Notices:
    return Notices()


@pytest.fixture
def certs(api: Api, heard: Notices, caplog: pytest.LogCaptureFixture) -> CertManager:
    caplog.set_level("INFO", "certs.manager")
    options = CertOptions("ns", SECRET, HOSTS, retry_seconds=0.01, settle_seconds=0.05)
    return CertManager(Client(api), LiveContext(server_context(), heard), options, clock=Clock())


def last(heard: Notices) -> str:
    """What was heard last of the configuration."""
    return next((str(event) for event in reversed(heard.events) if str(event).startswith(VALIDATING)), "")


async def test_webhooks_that_are_off_are_reported_once_and_so_is_that_they_are_back(api, heard, certs, caplog):
    def told(words: str) -> int:
        return sum(words in record.getMessage() for record in caplog.records)

    async with running(certs):
        await asyncio.wait_for(certs.ready.wait(), 10)
        assert last(heard) == f"{VALIDATING} lists 2"
        hooks = api.objects(PLURAL)["", VALIDATING]["webhooks"]
        api.put(PLURAL, VALIDATING, "", webhooks=[])
        await until(lambda: last(heard) == f"{VALIDATING} lists 0")
        before = api.writes("secrets")
        store(api, replace(material_of(api.objects("secrets")["ns", SECRET]), key=b""))
        await until(lambda: api.writes("secrets") > before)  # the configuration was looked at again
        api.put(PLURAL, VALIDATING, "", webhooks=hooks)
        await until(lambda: last(heard) == f"{VALIDATING} lists 2")
    assert told(f"{VALIDATING} lists no webhook: the API server calls no webhook by it, nothing is checked") == 1
    assert told(f"{VALIDATING} lists 2 webhooks again") == 1


async def test_a_configuration_that_is_gone_counts_as_off(api, heard, certs, caplog):
    api.drop(PLURAL, VALIDATING, "")
    await certs.check()
    await certs.check()
    assert last(heard) == f"{VALIDATING} lists 0"
    assert sum(f"{VALIDATING} does not exist: the API" in record.getMessage() for record in caplog.records) == 1
