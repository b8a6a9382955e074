"""A policy with faults is refused at admission, with all its faults in one answer."""

from datetime import UTC, datetime
from typing import Any

import pytest

from api.features import FeatureGates
from app.engine import policy_schemas
from authoring.policies import policy_faults
from kube.errors import TransportError
from manifests.admission import policy_webhook_configurations
from policy.judged import Namespace
from policy.types import read_policy
from tests.support.asgi import post
from tests.support.objects.policies import exception, manifest
from tests.support.objects.reviews import answer, encode, review
from tests.webhooks.test_policies import Played
from webhooks.policy.handlers import EXCEPTION_PATH, POLICY_PATH, policy_handlers
from webhooks.router import create_app

JSON = dict[str, Any]


GATES = FeatureGates()


NOW = datetime(2030, 1, 1, tzinfo=UTC)


async def answered(
    obj: JSON | None, *stored: JSON, path: str = POLICY_PATH, error: Exception | None = None, **more: Any
) -> JSON:
    source = Played(*map(read_policy, stored), namespace=error or Namespace("default", {"team": "a"}))
    app = create_app(policy_handlers(policy_schemas(), source, GATES, lambda: NOW))
    return answer((await post(app, path, encode(review(obj, **more)))).body)


FAULTY = [
    manifest(maxTotals={"resources": [{"name": "nvidia.com/gpu", "max": "many"}]}),
    manifest(imageRegistries={"allowed": []}, ttl={"max": -1}),
    manifest("limits", ("Deny", "Warn"), maxJobs={"max": 1}),
    manifest(requiredLabels=[{"key": "team", "pattern": "("}]),
    manifest(),
]


@pytest.mark.parametrize("body", FAULTY, ids=["no-amount", "empty-list", "deny-and-warn", "no-pattern", "no-rules"])
async def test_the_answer_has_the_words_of_the_command_line(body: JSON):
    response = await answered(body)
    status = response["status"]
    assert (response["allowed"], status["code"], status["reason"]) == (False, 422, "Invalid")
    assert status["details"]["kind"] == "JobSetPolicy"
    expected = sorted(str(error) for error in policy_faults(body)[0])
    assert sorted(f"{cause['field']}: {cause['message']}" for cause in status["details"]["causes"]) == expected
    assert expected


async def test_a_good_policy_is_admitted_and_a_change_is_judged_like_a_new_one():
    good = manifest(maxJobs={"max": 1})
    assert (await answered(good))["allowed"]
    assert (await answered(good, old=FAULTY[0]))["allowed"]
    assert not (await answered(FAULTY[0], old=good))["allowed"]


async def test_what_is_no_create_or_update_is_admitted_and_what_brings_no_object_is_not():
    assert (await answered(None, operation="DELETE"))["allowed"]
    response = await answered(None, operation="CREATE")
    assert response["status"]["code"] == 400


async def test_a_policy_that_locks_out_the_own_controller_is_stored_with_a_warning():
    response = await answered(manifest(managedBy={"allowed": ["acme.io/foo"]}))
    assert response["allowed"]
    (warning,) = response["warnings"]
    assert warning.startswith("spec.rules.managedBy.allowed: JobSets without managedBy break the rule")
    assert warning.endswith("if this controller is to manage none")


class TestAnException:
    """It is refused with its faults, and where its policy does not allow it."""

    limits = manifest(maxJobs={"max": 1})
    limits["spec"]["exceptions"] = {"allowedNamespaces": {"matchLabels": {"team": "a"}}, "maxDuration": "2d"}
    good = exception(expiresAt="2030-01-02T00:00:00Z")

    async def said(self, obj: JSON | None, *stored: JSON, **more: Any) -> JSON:
        return await answered(obj, *stored, path=EXCEPTION_PATH, **more)

    async def test_of_no_policy_is_admitted_with_a_warning(self):
        response = await self.said(self.good)
        assert response["warnings"] == ["spec.policy: there is no such policy, so nothing is excepted"]

    @pytest.mark.parametrize(
        ("spec", "field"),
        [
            ({"expiresAt": "2030-01-04T00:00:00Z"}, "spec.expiresAt"),
            ({"expiresAt": "tomorrow"}, "spec.expiresAt"),
            ({"rules": ["maxJob"]}, "spec.rules[0]"),
            ({"reason": ""}, "spec.reason"),
            ({"match": {"names": ["final-run", "run-*"]}}, "spec.match.names[1]"),
            ({"match": {"names": ["Final_Run"]}}, "spec.match.names[0]"),
        ],
    )
    async def test_with_a_fault_is_refused(self, spec: JSON, field: str):
        status = (await self.said(exception(**{**self.good["spec"], **spec}), self.limits))["status"]
        assert (status["code"], status["details"]["kind"]) == (422, "JobSetPolicyException")
        assert [cause["field"] for cause in status["details"]["causes"]] == [field]

    async def test_whose_spec_stays_is_not_looked_at(self):
        ended = exception(expiresAt="2020-01-01T00:00:00Z")
        assert not (await self.said(ended, self.limits))["allowed"]
        labelled = {**ended, "metadata": {**ended["metadata"], "labels": {"a": "b"}}}
        assert (await self.said(labelled, self.limits, old=ended))["allowed"]
        assert not (await self.said(ended, self.limits, old=self.good))["allowed"]

    async def test_in_a_namespace_that_cannot_be_read_is_refused_for_that(self):
        status = (await self.said(self.good, self.limits, error=TransportError("no answer")))["status"]
        assert (status["code"], status["message"]) == (500, "the namespace cannot be read: TransportError")

    async def test_that_is_deleted_or_not_there(self):
        assert (await self.said(None, operation="DELETE"))["allowed"]
        assert (await self.said(None, operation="CREATE"))["status"]["code"] == 400


def test_the_configurations_lead_to_the_handlers():
    for each in policy_webhook_configurations():
        assert {hook["clientConfig"]["service"]["path"] for hook in each["webhooks"]} == {POLICY_PATH, EXCEPTION_PATH}
