"""A policy with faults is refused at admission, with all its faults in one answer."""

from __future__ import annotations

from typing import Any

import pytest

from api.features import FeatureGates
from api.jobset_policy.types import read_policy
from app.check.policies import policy_faults
from app.engine import policy_schema
from manifests.admission import POLICIES
from tests.support.asgi import post
from tests.support.policies import manifest, setting
from tests.support.reviews import answer, encode, review
from webhooks.policy.handlers import POLICY_PATH, policy_handlers
from webhooks.router import create_app

JSON = dict[str, Any]


GATES = FeatureGates()


async def answered(obj: JSON | None, *stored: JSON, **more: Any) -> JSON:
    app = create_app(policy_handlers(policy_schema(), lambda: [read_policy(each) for each in stored], GATES))
    return answer((await post(app, POLICY_PATH, encode(review(obj, **more)))).body)


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


async def test_a_policy_that_conflicts_with_another_one_is_stored_with_warnings():
    sets = setting("tenants", ttlSecondsAfterFinished=9)
    short = manifest("short", ttl={"max": 3})
    response = await answered(sets, short, sets)
    assert response["allowed"]
    assert response["warnings"] == ["spec.defaults.ttlSecondsAfterFinished: rule ttl of policy short refuses it"]
    assert "warnings" not in await answered(sets, manifest("long", ttl={"max": 9}), sets)


def test_the_configurations_lead_to_the_handler():
    assert {hook["clientConfig"]["path"] for hook in POLICIES} == {POLICY_PATH}
