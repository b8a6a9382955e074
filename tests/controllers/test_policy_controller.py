"""Conditions and events of policies and exceptions on a model of the API server, and when they are looked at again."""

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from api.features import FeatureGates
from controllers.policy.controller import PolicyReconciler
from controllers.policy.uses import ExceptionUses
from kube.client import Client
from kube.controller import Controller, Request
from kube.events import Reference
from kube.model.meta import JSON
from kube.workqueue import WorkQueue
from policy.conditions import EnforcementState
from policy.status_types import ANYONE, API_SERVER, FORGEABLE
from tests.support.beside import beside
from tests.support.objects.policies import exception, manifest, setting
from tests.support.tls import until
from tests.webhooks.test_policy_watches import SHORT, Cluster
from webhooks.policy.watches import PolicyWatches

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ALLOWED: JSON = {"allowedNamespaces": {"matchLabels": {"example.com/team": "a"}}, "maxDuration": "1h"}


class Played(Cluster):
    """The cluster with the controller on it, and what it records."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.serves = self.serves_exceptions = True
        self.time = NOW
        self.events: list[tuple[str, str]] = []
        self.counted: list[tuple[str, str]] = []

    def record(
        self, regarding: Reference, event_type: str, reason: str, note: str, /, *, distinct: bool = False
    ) -> None:
        assert (regarding.kind, regarding.namespace, event_type) == ("JobSetPolicyException", "team-a", "Normal")
        assert note
        assert not distinct
        self.events.append((regarding.name, reason))

    def exception(self, policy: str, action: str) -> None:
        self.counted.append((policy, action))

    def allow(self, **fields: Any) -> None:
        """Store the policy that allows exceptions."""
        spec = {**manifest(maxJobs={"max": 1})["spec"], "exceptions": {**ALLOWED, **fields}}
        self.put("jobsetpolicies", "limits", "", metadata={"namespace": "", "generation": 1}, spec=spec)

    def grant(self, name: str = "big-run", policy: str = "limits") -> None:
        created = {"creationTimestamp": "2030-01-01T00:00:00Z"}
        spec = exception(policy=policy)["spec"]
        self.put("jobsetpolicyexceptions", name, "team-a", metadata=created, spec=spec)

    def status(self, name: str = "big-run") -> JSON:
        found: JSON = self.objects("jobsetpolicyexceptions")["team-a", name].get("status", {})
        return found

    def reason(self, name: str = "big-run") -> str:
        """Why the exception counts, or why not."""
        found = [each["reason"] for each in self.status(name).get("conditions", []) if each["type"] == "InForce"]
        return found[0] if found else ""

    def told(self, policy: str) -> dict[str, str]:
        """Conditions of a policy."""
        conditions = self.objects("jobsetpolicies")["", policy].get("status", {}).get("conditions", [])
        return {each["type"]: each["status"] for each in conditions}

    @property
    def writes(self) -> int:
        return len([request for request in self.requests if request.method != "GET"])


class WithoutRights:
    """What is known of policies that the API server is to hold, if the manager has not the rights."""

    def state(self, _: str) -> EnforcementState:
        return EnforcementState(False, "Forbidden", "no right")


@contextlib.asynccontextmanager
async def running(played: Played) -> AsyncIterator[tuple[PolicyReconciler, WorkQueue[Request]]]:
    client, queue = Client(played), WorkQueue[Request]()
    reconciler = PolicyReconciler(client, FeatureGates(), played, played, now=lambda: played.time)
    reconciler.source = watches = PolicyWatches(client, on_watch=partial(reconciler.feed, queue), pauses=SHORT)
    controller = Controller("policies", queue, reconciler.reconcile, workers=2)
    async with beside(watches.run(), controller.run()):
        yield reconciler, queue


async def test_an_exception_counts_ends_and_says_so_once():
    played = Played()
    played.allow(maxDuration="1s")
    played.grant()
    async with running(played):
        await until(lambda: played.reason() == "InForce")
        assert played.status()["until"] == "2030-01-01T00:00:01Z"
        played.time += timedelta(seconds=1)
        await until(lambda: played.reason() == "Expired")
        assert played.events == [("big-run", "ExceptionExpired")]
        assert played.counted == [("limits", "Expired")]
    writes = played.writes
    async with running(played):
        played.grant("another")
        await until(lambda: played.reason("another") == "Expired")
    assert played.writes == writes + 1, "a new leader says nothing again"
    assert played.events == [("big-run", "ExceptionExpired"), ("another", "ExceptionExpired")]


async def test_the_first_use_is_written_by_one_replica_and_is_one_event():
    played = Played()
    played.allow()
    played.grant()
    uid = played.objects("jobsetpolicyexceptions")["team-a", "big-run"]["metadata"]["uid"]
    later = NOW + timedelta(days=1)
    replicas = [ExceptionUses(Client(played), API_SERVER, now=lambda when=when: when) for when in (NOW, later)]
    async with running(played):
        await until(lambda: played.reason() == "InForce")
        for uses in replicas:
            uses.record_exception_use("team-a", "big-run", uid)
            uses.record_exception_use("team-a", "big-run", "uid of one that is gone")
        await replicas[0].write()
        await replicas[1].write()
        await until(lambda: played.events == [("big-run", "ExceptionFirstUsed")])
        assert played.counted == [("limits", "FirstUsed")]
        assert played.status()["firstUsed"] == "2030-01-01T00:00:00Z"
        asked = len(played.requests)
        for uses in replicas:
            uses.record_exception_use("team-a", "big-run", uid)
            await uses.write()
        assert len(played.requests) == asked, "what is known is not asked for again"


async def test_a_use_that_anyone_may_have_reported_is_no_more_than_that():
    played = Played()
    played.allow()
    played.grant()
    uid = played.objects("jobsetpolicyexceptions")["team-a", "big-run"]["metadata"]["uid"]
    later = NOW + timedelta(days=1)

    def used() -> str:
        return next((each["message"] for each in played.status()["conditions"] if each["type"] == "Used"), "")

    async with running(played):
        await until(lambda: played.reason() == "InForce")
        for reviews_from, when in ((ANYONE, NOW), (ANYONE, later), (API_SERVER, later), (ANYONE, NOW)):
            uses = ExceptionUses(Client(played), reviews_from, now=lambda when=when: when)
            uses.record_exception_use("team-a", "big-run", uid)
            await uses.write()
            if when == NOW and reviews_from == ANYONE and played.status()["reviewsFrom"] == ANYONE:
                await until(lambda: used().endswith(FORGEABLE))
        await until(lambda: used() == "it was first used at 2030-01-02T00:00:00Z")
        assert (played.status()["firstUsed"], played.status()["reviewsFrom"]) == ("2030-01-02T00:00:00Z", "APIServer")


async def test_what_a_policy_or_a_namespace_allows_later_is_noticed():
    played = Played()
    played.grant()
    async with running(played):
        await until(lambda: played.reason() == "NoPolicy")
        played.allow()
        await until(lambda: played.reason() == "InForce")
        namespace = played.objects("namespaces")["", "team-a"]["metadata"]
        played.put("namespaces", "team-a", "", metadata={**namespace, "labels": {}})
        await until(lambda: played.reason() == "NotAllowed")
        assert "until" not in played.status()
        played.put("namespaces", "team-a", "", metadata=namespace)
        await until(lambda: played.reason() == "InForce")
        played.drop("jobsetpolicies", "limits", "")
        await until(lambda: played.reason() == "NoPolicy")
    assert played.events == []


async def test_conflicts_of_policies_are_told_at_both_and_taken_back():
    played = Played()
    played.add("limits", ttl={"max": 1})
    played.put(
        "jobsetpolicies", "sets", "", metadata={"namespace": ""}, spec=setting(ttlSecondsAfterFinished=60)["spec"]
    )
    both = {"Ready": "True", "Conflicting": "True"}
    async with running(played):
        await until(lambda: played.told("limits") == played.told("sets") == both)
        played.add("limits", ttl={"max": 100})
        await until(lambda: played.told("limits")["Conflicting"] == played.told("sets")["Conflicting"] == "False")
        writes = played.writes
        played.put("jobsetpolicies", "limits", "", metadata={"namespace": "", "labels": {"a": "b"}})
        played.add("other")
        await until(lambda: played.told("other") == {"Ready": "True"})
    assert played.writes == writes + 1, "what says nothing new is not written"


async def test_whether_the_api_server_holds_a_policy_is_in_its_status():
    played = Played()
    spec = {**manifest(maxJobs={"max": 1})["spec"], "apiServer": "Enforce"}
    played.put("jobsetpolicies", "limits", "", metadata={"namespace": "", "generation": 1}, spec=spec)
    async with running(played) as (reconciler, queue):
        await until(lambda: played.told("limits") == {"Ready": "True"})
        reconciler.enforcement = WithoutRights()
        writes = played.writes
        for _ in range(2):
            queue.add(Request("", "limits"))
            await until(lambda: played.told("limits") == {"Ready": "True", "InAPIServer": "False"})
        assert played.writes == writes + 1
