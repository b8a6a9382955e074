"""A manager that only its own machine reaches, as that of `make demo`: no Service leads to it."""

import pytest

from certs.tls import server_context
from tests.certs.test_manager import MUTATING, Api, manager


async def test_a_manager_that_no_service_leads_to_is_not_called_by_one(caplog: pytest.LogCaptureFixture):
    api = Api()
    local, elsewhere = manager(api, server_context(), is_local=True), manager(api, server_context())
    await local.check()
    assert await local.unreachable_service() is None
    hooks = [{"name": "a", "clientConfig": {"service": {"name": "s", "namespace": "ns"}}}]
    api.put("mutatingwebhookconfigurations", MUTATING, "", webhooks=hooks)
    for _ in range(2):
        await local.check()
        await elsewhere.check()
    fault = await local.unreachable_service()
    assert fault is not None
    assert fault.startswith(f"the API server calls another manager: {MUTATING} name a Service, which leads elsewhere; ")
    assert "but not manifests/install.yaml" in fault
    assert caplog.text.count(f"{MUTATING} names a Service") == 1
    assert await elsewhere.unreachable_service() is None, "a Service may lead there"
    api.put(
        "mutatingwebhookconfigurations", MUTATING, "", webhooks=[{"name": "a", "clientConfig": {"url": "https://x"}}]
    )
    await local.check()
    assert await local.unreachable_service() is None
    api.drop("mutatingwebhookconfigurations", MUTATING, "")
    await local.check()
    assert "does not exist: the API server calls no webhook by it" in caplog.text
    assert caplog.text.count("but not manifests/install.yaml") == 2
