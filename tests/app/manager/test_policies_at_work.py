"""Two managers with policies on a model of the API server: what both, and the one with the lease, write about them."""

import asyncio
import contextlib
import json
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp

from api.features import FeatureGates
from app.manager.options import Options
from app.settings_file import parse
from dev.local import free_port
from kube.transport import Request, Response
from tests.app.manager.test_stages import Api, answer, living, mount
from tests.support.objects.jobsets import jobset, rjob, stored
from tests.support.objects.policies import exception, manifest
from tests.support.objects.reviews import review
from tests.support.serving import unverified
from tests.support.tls import until
from webhooks.jobset.handlers import VALIDATE_PATH

SERVED = {
    "/apis/policy.jobset.x-k8s.io/v1alpha1": ("jobsetpolicies", "jobsetpolicyexceptions"),
    "/apis/openreports.io/v1alpha1": ("reports",),
}


class PolicyApi(Api):
    """With policies, exceptions and reports, and a namespace."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.put("namespaces", "team-a", "", metadata={"namespace": ""})
        spec = manifest(maxJobs={"max": 1})["spec"]
        spec["exceptions"] = {"allowedNamespaces": {}, "maxDuration": "1h"}
        self.put("jobsetpolicies", "limits", "", metadata={"namespace": "", "generation": 1}, spec=spec)

    async def send(self, request: Request) -> Response:
        if request.path in SERVED:
            names = [{"name": name} for name in SERVED[request.path]]
            return Response(200, {}, json.dumps({"resources": names}).encode())
        return await super().send(request)

    def grant(self, until: datetime) -> None:
        spec = exception(expiresAt=until.isoformat(timespec="seconds"))["spec"]
        created = {"creationTimestamp": datetime.now(UTC).isoformat(timespec="seconds")}
        self.put("jobsetpolicyexceptions", "big-run", "team-a", metadata=created, spec=spec)

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.objects("jobsetpolicies")["", "limits"].get("status", {})
        return found

    @property
    def events(self) -> list[str]:
        events = self.objects("events").values()
        return sorted(event["reason"] for event in events if event["regarding"]["kind"] == "JobSetPolicyException")


def options(folder: Path) -> tuple[Options, int, int]:
    """Of a manager that writes every second, and its ports of probes and webhooks."""
    probes, webhooks = free_port(), free_port()
    given = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "webhook": {"host": "127.0.0.1", "port": webhooks, "certDir": str(folder)},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{probes}"},
        "metrics": {"bindAddress": "0"},
        "internalCertManagement": {"enable": False},
        "childDryRun": {"enable": False},
        "policies": {"statusInterval": "1s", "auditInterval": "1s", "reports": True},
    }
    return Options(parse(json.dumps(given)), FeatureGates({"JobSetPolicies": True})), probes, webhooks


async def admitted(port: int, tls: ssl.SSLContext) -> bool:
    """What a manager answers to a review of nine Jobs."""
    sent = review(stored(jobset(rjob(replicas=9), namespace="team-a")))
    sent["request"]["namespace"] = "team-a"
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"https://127.0.0.1:{port}{VALIDATE_PATH}", json=sent, ssl=tls) as reply,
    ):
        return bool((await reply.json())["response"]["allowed"])


async def test_counts_of_both_add_up_and_one_writes_conditions_events_audit_and_reports(tmp_path: Path) -> None:
    api, tls = PolicyApi(), unverified()
    mount(tmp_path)
    api.put("jobsets", "train", "team-a", **stored(jobset(rjob(replicas=9), namespace="team-a", suspend=True)))
    async with contextlib.AsyncExitStack() as managers:
        ports = []
        for _ in range(2):
            chosen, probes, webhooks = options(tmp_path)
            await managers.enter_async_context(living(api, chosen))
            await answer(probes, 200)
            ports.append(webhooks)
        answers = await asyncio.gather(*(admitted(port, tls) for port in ports for _ in range(5)))
        assert answers == [False] * 10
        await until(lambda: api.status.get("denied") == 10)
        assert (api.status["matched"], api.status["rules"][0]["name"]) == (10, "maxJobs")
        await until(lambda: api.status.get("audit", {}).get("violations") == 1)
        assert api.status["audit"]["first"][0]["name"] == "train"
        await until(lambda: ("team-a", "jobset-limits") in api.objects("reports"))
        await until(lambda: [each["type"] for each in api.status.get("conditions", ())] == ["Ready"])
        api.grant(datetime.now(UTC) + timedelta(seconds=5))
        for port in ports:
            while not await admitted(port, tls):  # noqa: ASYNC110 -- it is in force when the manager says so
                await asyncio.sleep(0.01)
        await until(lambda: api.events == ["ExceptionExpired", "ExceptionFirstUsed"])
        denied = api.status["denied"]
        assert [await admitted(port, tls) for port in ports] == [False, False]
    assert api.status["denied"] >= denied + 2, "what is not written yet is written at the stop"
