"""Webhook configurations that get the CA only while somebody has them looked after."""

import asyncio
import base64
import contextlib

import pytest

from certs.tls import server_context
from kube.resources import VALIDATING_WEBHOOK_CONFIGURATIONS
from tests.certs.test_manager import Api, manager, running
from tests.support.tls import until


async def test_one_more_configuration_gets_the_ca_while_it_is_looked_after(caplog: pytest.LogCaptureFixture):
    api, context = Api(), server_context()
    plural, name = "validatingwebhookconfigurations", "policies"

    def bundle() -> str:
        stored = api.objects(plural).get(("", name))
        return str(stored["webhooks"][0]["clientConfig"].get("caBundle", "")) if stored else ""

    hooks = [{"name": "c", "clientConfig": {"url": "https://x"}}]
    certs = manager(api, context)
    async with running(certs):
        await certs.ready.wait()
        looking = asyncio.create_task(certs.maintain_bundle(VALIDATING_WEBHOOK_CONFIGURATIONS, name))
        await asyncio.sleep(0)
        api.put(plural, name, "", webhooks=hooks)
        await until(lambda: bundle() != "")
        assert base64.b64decode(bundle()) == api.secret["ca.crt"]
        api.put(plural, name, "", webhooks=hooks)
        await until(lambda: bundle() != "")
        injected = {"cert-manager.io/inject-ca-from": "a/b"}
        api.put(plural, name, "", webhooks=hooks, metadata={"annotations": injected})
        await until(lambda: "lacks the CA" in caplog.text)
        assert certs.problem == ""
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking
        writes = api.writes(plural)
        api.put(plural, name, "", webhooks=hooks)
        await certs.check()
        assert api.writes(plural) == writes
