"""Leases and Events as a real API server stores them."""

import asyncio
import contextlib

import pytest

from kube.events import EventRecorder, Reference
from kube.leader import LeaderElector, LeadershipLostError, LeaseConfig
from kube.resources import EVENTS, LEASES
from tests.support.cluster.kube_client import connected
from tests.support.cluster.requests import eventually, kubectl
from tests.support.model.faults import LostRequest


async def test_a_lease_passes_on_only_after_the_leader_has_stopped(jobset_server, namespace):
    config = LeaseConfig(namespace=namespace, name="lock", lease_duration=3, renew_deadline=2, retry_period=0.3)
    log: list[str] = []

    async def work(name: str) -> None:
        log.append(f"{name} starts")
        try:
            await asyncio.Event().wait()
        finally:
            log.append(f"{name} stops")

    async with (
        connected(jobset_server.kubeconfig) as (first, network),
        connected(jobset_server.kubeconfig) as (second, _),
    ):
        async with asyncio.TaskGroup() as group:

            async def lose() -> None:
                with pytest.raises(LeadershipLostError):
                    await LeaderElector(first, config, identity="one").lead(lambda: work("one"))

            losing = group.create_task(lose())

            async def leads() -> bool:
                return log == ["one starts"]

            await eventually(leads, timeout=10, what="the first leads")
            two = LeaderElector(second, config, identity="two")
            following = group.create_task(two.lead(lambda: work("two")))
            await asyncio.sleep(1)
            assert log == ["one starts"]
            network.choose = lambda _: LostRequest()
            await losing

            async def taken() -> bool:
                return two.is_leader and len(log) > 2

            await eventually(taken, timeout=10, what="the second leads")
            assert log == ["one starts", "one stops", "two starts"]
            lease = await second.get(LEASES, "lock", namespace=namespace)
            assert lease["spec"]["holderIdentity"] == "two"
            assert lease["spec"]["leaseTransitions"] == 1
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following
        lease = await second.get(LEASES, "lock", namespace=namespace)
        assert not lease["spec"].get("holderIdentity"), "a clean stop gives the lease back"


async def test_repeated_events_are_one_object_with_a_series(jobset_server, namespace):
    async with connected(jobset_server.kubeconfig) as (client, _):
        recorder = EventRecorder(client, reporting_controller="jobset", reporting_instance="jobset-test")
        async with asyncio.TaskGroup() as group:
            task = group.create_task(recorder.run())
            for version in ("100", "101", "102"):
                about = Reference(
                    api_version="jobset.x-k8s.io/v1alpha2",
                    kind="JobSet",
                    name="train",
                    namespace=namespace,
                    uid="0000-1111",
                    resource_version=version,
                )
                recorder.record(about, "Warning", "JobCreationFailed", "ünable: 100%s " * 200)
            recorder.record(about, "Normal", "SuspendedJobs", "jobset is suspended")
            await recorder.flush(10)
            task.cancel()
        events = (await client.list(EVENTS, namespace=namespace)).items or []
        by_reason = {event["reason"]: event for event in events}
        assert len(events) == 2
        failed = by_reason["JobCreationFailed"]
        assert failed["series"]["count"] == 3
        assert len(failed["note"].encode()) <= 1024
        assert failed["note"].endswith("…")
        assert recorder.dropped == 0
    assert "jobset is suspended" in kubectl(jobset_server, "get", "events", namespace=namespace)
