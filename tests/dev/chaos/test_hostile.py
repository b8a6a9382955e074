"""Hostile clients do what they are to do, to our own server and to one that is not there."""

import asyncio
import random
from collections import Counter

from dev.chaos import hostile
from tests.support.tls import context_with, material, serving, until
from tests.support.webhook_app import APP, PATHS, ask
from webhooks.jobset.handlers import VALIDATE_PATH

PAIR = material()


async def test_every_client_gets_to_the_server_and_is_gone_in_the_end(monkeypatch, caplog):
    monkeypatch.setattr(hostile, "SECONDS_BETWEEN_CLIENTS", 0.02)
    monkeypatch.setattr(hostile, "PAUSE_SECONDS", 0.001)
    async with serving(APP, context_with(PAIR)) as server:
        ports = [hostile.Port("webhooks", server.port, PATHS[0], tls=True), hostile.Port("nobody", 1, "/")]
        made: Counter[str] = Counter()
        abuse = asyncio.create_task(hostile.abuse(ports, 60.0, 1, made))
        await until(lambda: made["webhooks"] >= len(hostile.CLIENTS), 60)
        abuse.cancel()
        await asyncio.wait({abuse})
        assert made["nobody"] == 0
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.close()
    assert "Traceback" not in caplog.text


async def test_the_costly_review_is_one_and_gets_a_verdict():
    body = b"".join(
        hostile.CLIENTS["many unknown names"](hostile.Port("webhooks", 1, VALIDATE_PATH), random.SystemRandom())
    )
    response = await ask(body.partition(b"\r\n\r\n")[2])
    assert not response["allowed"]
    assert "targetReplicatedJobs" in response["status"]["message"]
