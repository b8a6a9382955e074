"""When stored JobSets are audited, what is asked and written for it, and that nothing else waits for it."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from api.jobset import JobSet
from api.packed import PackedTree, pack
from controllers.policy import audit as module
from controllers.policy.audit import BATCH_SIZE, PolicyAudits
from kube.client import Client
from kube.errors import NotFound, TransportError
from kube.store import Store
from policy.audit import Audit
from policy.exception_types import JobSetPolicyException
from policy.judged import JudgedJobSet, Namespace
from policy.types import JobSetPolicy
from tests.support.beside import beside
from tests.support.model.memory_api import MemoryApi
from tests.support.objects.jobsets import jobset, rjob, stored
from tests.support.objects.policies import policy
from tests.support.tls import until

NOW = datetime(2030, 1, 1, tzinfo=UTC)


class Played:
    """Policies, JobSets and namespaces as a test has them, and the API server."""

    def __init__(self, *policies: JobSetPolicy) -> None:
        self.api, self.store = MemoryApi(), Store[JobSet]()
        self.in_force: Sequence[JobSetPolicy] = ()
        self.asked: list[str] = []
        self.lacking: dict[str, Exception] = {}
        self.set(*policies)

    def set(self, *policies: JobSetPolicy) -> None:
        self.in_force = [self._stored(each) for each in policies]

    def _stored(self, own: JobSetPolicy) -> JobSetPolicy:
        """The policy with the UID that the API server gives it."""
        body = self.api.put("jobsetpolicies", own.metadata.name, "", metadata={"namespace": ""}, spec={})
        return replace(own, metadata=replace(own.metadata, uid=body["metadata"]["uid"]))

    def add(self, count: int, namespace: str = "team-a", **metadata: Any) -> None:
        for number in range(count):
            body = stored(jobset(rjob(replicas=9), name=f"train-{number:03}", namespace=namespace))
            body["metadata"] |= {"uid": f"{namespace}-{number}", "resourceVersion": "1", **metadata}
            self.store.apply(pack(msgspec.convert(body, JobSet)))

    async def namespace(self, name: str) -> Namespace:
        self.asked.append(name)
        if name in self.lacking:
            raise self.lacking[name]
        return Namespace(name)

    def exceptions(self, namespace: str) -> Sequence[JobSetPolicyException]:
        assert namespace
        return ()

    def exception(self, namespace: str, name: str) -> None:
        raise AssertionError(f"{namespace}/{name}: not one by one")

    def audits(self, every: float = 3600) -> PolicyAudits:
        return PolicyAudits(Client(self.api), self.store, self, every=every, now=lambda: NOW)

    def audited(self, name: str = "limits") -> dict[str, Any]:
        found: dict[str, Any] = self.api.objects("jobsetpolicies")["", name].get("status", {}).get("audit", {})
        return found

    @property
    def writes(self) -> list[str]:
        return [request.path.rpartition("/jobsetpolicies/")[2] for request in self.api.requests]


async def test_one_write_for_each_policy_and_no_other_request():
    played = Played(policy("limits", ("Audit",), maxJobs={"max": 1}), policy("queues", requiredQueue={}))
    played.add(3 * BATCH_SIZE + 1)
    played.add(1, "team-b")
    await played.audits().audit()
    assert played.writes == ["limits/status", "queues/status"]
    assert played.asked == ["team-a", "team-b"], "once for each namespace"
    found = played.audited()
    assert (found["time"], found["jobsets"], found["violations"]) == ("2030-01-01T00:00:00Z", 32, 32)
    assert found["first"][0]["name"] == "train-000"
    assert played.audited("queues")["violations"] == 32


async def test_rules_get_templates_as_trees(monkeypatch: pytest.MonkeyPatch):
    """Caches keep them as texts, which would be decoded at each access."""
    seen: list[object] = []
    monkeypatch.setattr(Audit, "add", lambda _, judged, *__: seen.append(judged.js.spec.replicated_jobs[0].template))
    played = Played(policy(maxJobs={"max": 1}))
    played.add(1)
    await played.audits().audit()
    assert [isinstance(template, PackedTree) for template in seen] == [False]


async def test_a_later_audit_leaves_nothing_of_an_earlier_one():
    played = Played(policy(maxJobs={"max": 1}))
    played.add(1)
    await played.audits().audit()
    played.set(policy(maxJobs={"max": 100}))
    await played.audits().audit()
    assert (played.audited()["violations"], played.audited()["first"]) == (0, [])


async def test_a_policy_that_was_created_again_does_not_get_the_result_of_the_one_before():
    played = Played(policy(maxJobs={"max": 1}))
    played.add(1)
    played.api.drop("jobsetpolicies", "limits", "")
    played.api.put("jobsetpolicies", "limits", "", metadata={"namespace": ""}, spec={})
    await played.audits().audit()
    assert (played.writes, played.audited()) == (["limits/status"], {})


async def test_what_goes_or_cannot_be_read_is_left_out():
    played = Played(policy(maxJobs={"max": 1}))
    played.add(1)
    played.add(1, "going", deletionTimestamp="2030-01-01T00:00:00Z")
    played.add(2, "gone")
    played.add(2, "unknown")
    missing = Client(played.api).get(module.JOBSET_POLICIES, "nobody")
    with pytest.raises(NotFound) as raised:
        await missing
    played.lacking = {"gone": raised.value, "unknown": TransportError("no answer")}
    await played.audits().audit()
    assert (played.audited()["jobsets"], played.asked) == (1, ["team-a", "gone", "unknown"])


async def test_a_bug_that_one_jobset_shows_keeps_no_other_from_being_audited(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    add = Audit.add

    def broken(self: Audit, judged: JudgedJobSet, *args: Any) -> None:
        if judged.js.metadata.name == "train-001":
            raise KeyError("a value of the object")
        add(self, judged, *args)

    monkeypatch.setattr(Audit, "add", broken)
    played = Played(policy(maxJobs={"max": 1}))
    played.add(3)
    await played.audits().audit()
    assert played.audited()["jobsets"] == 2
    assert "JobSet team-a/train-001 is not audited: error=KeyError at=" in caplog.text
    assert "a value of the object" not in caplog.text


async def test_without_policies_nothing_is_asked_or_written():
    played = Played()
    played.add(1)
    async with beside(played.audits(0.01).run()):
        await asyncio.sleep(0.1)
    assert (played.asked, played.api.requests) == ([], [])


async def test_audits_follow_each_other_and_a_change_of_policies(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "CHECK_PERIOD", 0.005)
    monkeypatch.setattr(module, "AUDIT_AFTER_CHANGE", 0.01)
    played = Played(policy(maxJobs={"max": 1}))
    played.add(1)
    async with beside(played.audits(3600).run()):
        await until(lambda: played.audited() != {})
        played.set(policy(maxJobs={"max": 1}), policy("queues", requiredQueue={}))
        await until(lambda: played.audited("queues") != {})
        audits = len(played.writes)
        await asyncio.sleep(0.05)
        assert len(played.writes) == audits, "nothing has changed"
    async with beside(played.audits(0.02).run()):
        await until(lambda: len(played.writes) > audits + 4)


async def test_after_a_few_jobsets_comes_a_pause_four_times_as_long(monkeypatch: pytest.MonkeyPatch):
    """By a clock on which judging a JobSet takes a second, and nothing else takes time."""
    time, paused = 0.0, list[float]()
    add = Audit.add

    def judge_for_a_second(self: Audit, *args: Any) -> None:
        nonlocal time
        time += 1
        add(self, *args)

    async def pause(seconds: float) -> None:
        if seconds:  # the API server of the test sleeps, too, for none
            paused.append(seconds)

    played = Played(policy(maxJobs={"max": 1}))
    played.add(2 * BATCH_SIZE + 3)
    with monkeypatch.context() as patched:
        patched.setattr(Audit, "add", judge_for_a_second)
        patched.setattr(module.asyncio, "sleep", pause)
        patched.setattr(asyncio.get_running_loop(), "time", lambda: time)
        await played.audits().audit()
    assert paused == [4 * BATCH_SIZE, 4 * BATCH_SIZE, 4 * 3]
