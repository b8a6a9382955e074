"""Which decisions of admission get into the status of policies."""

import asyncio

import pytest

from api.features import FeatureGates
from app.manager.options import Deps, Options
from app.manager.policies import record_decisions
from app.manager.supervisor import Supervisor, Timeouts, supervise
from app.metrics import Metrics
from app.settings import Settings
from kube.client import Client
from policy.kinds import PolicyId
from tests.support.model.memory_api import MemoryApi
from tests.support.tls import until


@pytest.mark.parametrize("enabled", [True, False])
async def test_what_a_process_hears_of_is_written_if_the_gate_is_on(enabled: bool):
    api, metrics = MemoryApi(), Metrics()
    api.put("jobsetpolicies", "limits", "", metadata={"namespace": "", "uid": "1"}, spec={})
    settings = Settings().override("policies", status_interval="1s")
    options = Options(settings, FeatureGates({"JobSetPolicies": enabled}))

    def status() -> dict[str, object]:
        found: dict[str, object] = api.objects("jobsetpolicies")["", "limits"].get("status", {})
        return found

    async def stages(supervisor: Supervisor) -> None:
        record_decisions(Deps(options, Client(api), metrics, supervisor))
        metrics.webhooks.count_decision(PolicyId("limits", "1"), "maxJobs", "Deny", 2)
        if enabled:
            await until(lambda: status().get("denied") == 2)
        metrics.webhooks.count_decision(PolicyId("limits", "1"), "maxJobs", "Deny", 3)

    await supervise(stages, asyncio.Event(), timeouts=Timeouts(shutdown_delay=0))
    assert status().get("denied") == (5 if enabled else None)
    assert enabled or api.requests == []
