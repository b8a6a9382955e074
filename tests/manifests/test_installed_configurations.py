"""Webhook configurations are switched although somebody else writes them at the same time."""

from typing import Any

import pytest

from kube.errors import Conflict, Status
from kube.resources import MUTATING_WEBHOOK_CONFIGURATIONS
from manifests.installed.configurations import TRIES, switch
from manifests.installed.webhook_switch import OFF_ANNOTATION


class Contended:
    """A client whose first writes meet a newer version of the configuration."""

    def __init__(self, conflicts: int) -> None:
        self.conflicts = conflicts
        self.version = 1

    async def get(self, *_: Any) -> dict[str, Any]:
        return {"metadata": {"name": "hooks", "resourceVersion": str(self.version)}, "webhooks": [{"name": "one"}]}

    async def replace(self, _resource: Any, _name: str, body: dict[str, Any]) -> dict[str, Any]:
        if self.version <= self.conflicts:
            self.version += 1
            raise Conflict(409, Status(message="moved"))
        return body


async def switch_off(client: Any) -> dict[str, Any]:
    return await switch(client, MUTATING_WEBHOOK_CONFIGURATIONS, "hooks", "off") or {}


async def test_a_write_that_meets_a_newer_version_is_tried_again_from_that():
    stored = await switch_off(Contended(TRIES - 1))
    assert (stored["metadata"]["resourceVersion"], stored["webhooks"]) == (str(TRIES), [])
    assert OFF_ANNOTATION in stored["metadata"]["annotations"]


async def test_who_writes_all_the_time_is_reported():
    with pytest.raises(Conflict):
        await switch_off(Contended(TRIES))
