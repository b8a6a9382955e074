"""Certificates that the manager may not read: the log says which Role has to grant the right."""

import asyncio
import logging

import pytest

from certs.manager import MissingSecretError
from certs.tls import server_context
from kube.errors import from_response
from kube.transport import Request, Response
from tests.certs.test_manager import Api, manager

REFUSAL = b'{"kind":"Status","code":403,"reason":"Forbidden","message":"not this one"}'


class NoRight(Api):
    """Refuses the Secret to the manager: the Role names another one."""

    async def send(self, request: Request) -> Response:
        return Response(403, {}, REFUSAL) if "secrets" in request.path else await super().send(request)

    def stream(self, request: Request):
        if "secrets" in request.path:
            raise from_response(403, {}, REFUSAL, request.call)
        return super().stream(request)


async def test_a_secret_that_the_role_does_not_name_is_explained():
    remedy = (
        r"403 Forbidden: not this one; have the Role jobset-manager-secrets-role of namespace ns name Secret jobset-"
    )
    with pytest.raises(MissingSecretError, match=remedy):
        await manager(NoRight(), server_context()).check()


async def test_the_watch_of_the_secret_names_the_same_remedy(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "kube.reflector")
    running = asyncio.create_task(manager(NoRight(), server_context()).run())
    async with asyncio.timeout(10):
        while not (lines := [r.getMessage() for r in caplog.records if "the watch of secrets" in r.getMessage()]):  # noqa: ASYNC110 -- no event
            await asyncio.sleep(0.01)
    running.cancel()
    assert (
        "have the Role jobset-manager-secrets-role of namespace ns name Secret jobset-webhook-server-cert" in lines[0]
    )
    assert "ClusterRoles" not in lines[0]
