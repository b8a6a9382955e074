"""What the policies of a cluster make of a review: refusals, warnings, audit annotations, and rules that fail."""

import dataclasses
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from api.features import FeatureGates
from app.engine import engine
from kube.errors import TransportError
from policy.exception_types import JobSetPolicyException, read_exception
from policy.judged import Namespace
from policy.kinds import PolicyId
from policy.registry import RULES
from policy.types import AUDIT_KEY, Exceptions, JobSetPolicy, Selector
from tests.support.asgi import post
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from tests.support.objects.policies import exception, policy
from tests.support.objects.reviews import answer, encode, review
from webhooks.jobset.handlers import VALIDATE_PATH, jobset_handlers
from webhooks.jobset.policies import MAX_AUDITED_VIOLATIONS, PolicyChecks
from webhooks.router import create_app

QUEUES = "system:serviceaccount:kueue-system:kueue-controller-manager"
PLACE = "spec.replicatedJobs[0].replicas"
LARGE = "9 Jobs, and at most 1 allowed"
NINE = f"{LARGE}; reduce replicas: workers has 9"


NOW = datetime(2030, 1, 1, tzinfo=UTC)


class Played:
    """Policies and a namespace as a test has them, and what was counted."""

    def __init__(
        self,
        *policies: JobSetPolicy,
        namespace: Namespace | Exception | None = None,
        exceptions: Sequence[JobSetPolicyException] = (),
    ) -> None:
        self.in_force = policies
        self.time = NOW
        self._exceptions = exceptions
        self.asked: list[str] = []
        self.counted: list[tuple[str, str, str]] = []
        self.matched: list[str] = []
        self.uses: list[tuple[str, str, str]] = []
        self._namespace = namespace or Namespace("default")

    async def namespace(self, name: str) -> Namespace:
        self.asked.append(name)
        if isinstance(self._namespace, Exception):
            raise self._namespace
        return self._namespace

    def exceptions(self, namespace: str) -> Sequence[JobSetPolicyException]:
        assert namespace == "default"
        return self._exceptions

    def count_decision(self, policy: PolicyId, rule: str, action: str, count: int = 1) -> None:
        assert count == 1
        if (rule, action) == ("match", "Matched"):
            self.matched.append(policy.name)
        else:
            self.counted.append((policy.name, rule, action))

    def record_exception_use(self, namespace: str, name: str, uid: str) -> None:
        self.uses.append((namespace, name, uid))

    async def answer(
        self, obj: JSON, old: JSON | None = None, path: str = VALIDATE_PATH, user: str = "ann", *, dry_run: bool = False
    ) -> JSON:
        gates = FeatureGates()
        checks = PolicyChecks(self, self, gates, [QUEUES], lambda: self.time)
        sent = review(obj, old)
        sent["request"] |= {"userInfo": {"username": user}, "dryRun": dry_run}
        app = create_app(jobset_handlers(engine(gates), None, checks))
        return answer((await post(app, path, encode(sent))).body)


def large(**spec: Any) -> JSON:
    return stored(jobset(rjob(replicas=9), **spec))


def one_job(name: str = "limits", *actions: str, **more: Any) -> JobSetPolicy:
    found = policy(name, actions or ("Deny",), maxJobs={"max": 1})
    return replaced(found, **more)


def replaced(found: JobSetPolicy, **spec: Any) -> JobSetPolicy:
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, **spec))


def causes(response: JSON) -> list[str]:
    return [f"{cause['field']}: {cause['message']}" for cause in response["status"]["details"]["causes"]]


async def test_a_place_that_is_wrong_anyway_is_not_judged():
    wrong = stored(jobset(rjob(replicas=-9)))
    response = await Played(policy(maxJobs={"max": -1})).answer(wrong)
    assert not any("policy limits" in text for text in causes(response))


async def test_warnings_are_warnings():
    played = Played(one_job("limits", "Warn"))
    response = await played.answer(large())
    assert response["allowed"]
    assert response["warnings"] == [f"{PLACE}: policy limits: {NINE}"]
    assert "auditAnnotations" not in response
    assert played.counted == [("limits", "maxJobs", "Warn")]


async def test_many_warnings_stay_within_the_limits_of_the_api():
    many = [policy(f"limits-{n:02}-{'x' * 100}", ("Warn",), maxJobs={"max": 1}) for n in range(20)]
    response = await Played(*many).answer(large())
    assert len(response["warnings"]) == 8
    assert max(map(len, response["warnings"])) <= 256
    assert response["warnings"][7] == "and 13 more warnings; `jobset validate` shows them all"


async def test_a_refusal_is_recorded_too_and_records_are_bounded():
    many = [one_job(f"limits-{n:02}", "Deny", "Audit") for n in range(MAX_AUDITED_VIOLATIONS + 5)]
    response = await Played(*many).answer(large())
    assert not response["allowed"]
    recorded = json.loads(response["auditAnnotations"][AUDIT_KEY])
    assert len(recorded["violations"]) == MAX_AUDITED_VIOLATIONS
    assert recorded["more"] == 5


@pytest.mark.parametrize(
    ("change", "user", "judged"),
    [
        ({"suspend": True}, "ann", False),
        ({"ttlSecondsAfterFinished": 5}, "ann", True),
        ({"ttlSecondsAfterFinished": 5}, QUEUES, False),
    ],
)
async def test_only_updates_that_change_what_rules_look_at_are_judged(change: JSON, user: str, judged: bool):
    played = Played(policy(ttl={"max": 1}))
    old = stored(jobset())
    response = await played.answer({**old, "spec": {**old["spec"], **change}}, old, user=user)
    assert response["allowed"] is not judged
    assert bool(played.asked) is judged


async def test_deletion_and_status_are_not_judged():
    old, played = large(), Played(policy("queues", requiredLabels=[{"key": "team"}]), one_job())
    going = {**old, "metadata": {**old["metadata"], "deletionTimestamp": "2030-01-01T00:00:00Z", "labels": {"a": "b"}}}
    assert (await played.answer(going, old))["allowed"]
    assert (await played.answer({**old, "status": {"restarts": 1}}, old))["allowed"]
    assert played.asked == []


async def test_a_queue_controller_is_judged_when_it_creates():
    response = await Played(one_job()).answer(large(), user=QUEUES)
    assert not response["allowed"]


async def test_a_jobset_that_cannot_be_read_is_refused_for_that_alone():
    unreadable = large()
    unreadable["metadata"]["labels"] = {"team": 5}
    (cause,) = causes(await Played(one_job()).answer(unreadable))
    assert cause.startswith("metadata.labels")


class TestAnException:
    """Of `maxJobs` of a policy that allows exceptions for an hour."""

    limits = one_job(exceptions=Exceptions(allowed_namespaces=Selector(match_labels={"tier": "x"}), max_duration="1h"))

    def played(self, tier: str = "x", **more: Any) -> Played:
        body = exception(**more)
        body["metadata"]["uid"] = "uid of big-run"
        exceptions = [read_exception(body)]
        return Played(self.limits, namespace=Namespace("default", {"tier": tier}), exceptions=exceptions)

    async def test_lets_pass_what_the_rule_refuses_and_is_counted_and_recorded(self):
        played = self.played()
        response = await played.answer(large())
        assert response["allowed"]
        assert "warnings" not in response
        assert played.counted == [("limits", "maxJobs", "Excepted")]
        assert json.loads(response["auditAnnotations"][AUDIT_KEY]) == {
            "violations": [{"policy": "limits", "rule": "maxJobs", "exception": "big-run"}]
        }

    async def test_that_nothing_needs_is_not_counted(self):
        played = self.played()
        assert (await played.answer(stored(jobset())))["allowed"]
        assert played.counted == played.uses == []

    async def test_is_named_to_whoever_records_its_use_unless_it_is_a_dry_run(self):
        played = self.played()
        await played.answer(large(), dry_run=True)
        assert (len(played.counted), played.uses) == (1, [])
        await played.answer(large())
        assert played.uses == [("default", "big-run", "uid of big-run")]

    async def test_counts_only_where_the_policy_allows_it_whatever_the_labels_of_the_jobset(self):
        js = large()
        js["metadata"]["labels"] = {"tier": "x"}
        assert not (await self.played(tier="y").answer(js))["allowed"]


@pytest.fixture
def broken_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """`maxJobs` has a bug."""

    def find(*_: object) -> Any:
        raise KeyError("a value of the object")

    rule = RULES["max_jobs"]
    monkeypatch.setitem(RULES, "max_jobs", dataclasses.replace(rule, find=find))  # type: ignore[arg-type]


WARNING = "spec: policy limits: maxJobs was not checked: internal error (KeyError)"


@pytest.mark.usefixtures("broken_rule")
class TestARuleThatFails:
    async def test_refuses_with_its_name_if_it_denies(self, caplog: pytest.LogCaptureFixture):
        played = Played(one_job())
        response = await played.answer(large())
        assert (response["status"]["code"], response["status"]["reason"]) == (500, "InternalError")
        assert response["status"]["message"] == "internal error (KeyError) in rule maxJobs of policy limits"
        assert response["warnings"] == [WARNING]
        assert played.counted == [("limits", "maxJobs", "Error")]
        assert "policy=limits rule=maxJobs failed error=KeyError at=find:" in caplog.text
        assert "a value of the object" not in caplog.text

    @pytest.mark.parametrize("spec", [{"failure_policy": "Ignore"}, {"validation_actions": ("Warn",)}])
    async def test_warns_if_the_policy_admits_then(self, spec: JSON):
        response = await Played(one_job(**spec)).answer(large())
        assert response["allowed"]
        assert response["warnings"] == [WARNING]

    async def test_is_recorded_if_the_policy_only_records(self):
        response = await Played(one_job("limits", "Audit")).answer(large())
        assert response["allowed"]
        assert "warnings" not in response
        assert json.loads(response["auditAnnotations"][AUDIT_KEY]) == {
            "violations": [{"policy": "limits", "rule": "maxJobs", "error": "KeyError"}]
        }


async def test_a_namespace_that_cannot_be_read_is_a_failure_of_every_policy():
    played = Played(one_job(), policy("queues", ("Warn",), requiredQueue={}), namespace=TransportError("no answer"))
    response = await played.answer(large())
    assert response["status"]["message"] == "internal error (TransportError) in rule match of policy limits"
    assert played.counted == [("limits", "match", "Error"), ("queues", "match", "Error")]
