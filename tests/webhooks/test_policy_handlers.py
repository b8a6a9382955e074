"""A policy with faults is refused at admission, with all its faults in one answer."""

from __future__ import annotations

from typing import Any

import pytest

from app.check.policies import policy_faults
from app.engine import policy_schema
from manifests.admission import POLICIES
from tests.support.asgi import post
from tests.support.policies import manifest
from tests.support.reviews import answer, encode, review
from webhooks.policy.handlers import POLICY_PATH, policy_handlers
from webhooks.router import create_app

JSON = dict[str, Any]


async def answered(obj: JSON | None, **more: Any) -> JSON:
    return answer(
        (await post(create_app(policy_handlers(policy_schema())), POLICY_PATH, encode(review(obj, **more)))).body
    )


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


def test_the_configurations_lead_to_the_handler():
    assert {hook["clientConfig"]["path"] for hook in POLICIES} == {POLICY_PATH}
