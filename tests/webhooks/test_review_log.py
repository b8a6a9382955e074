"""The line of the log about a review: joined with the controller's by the UID, and nothing else of the object in it."""

import logging
from typing import Any

import pytest

from api.features import FeatureGates
from app.engine import engine
from kube import log_fields
from tests.support.objects.jobsets import jobset, stored
from tests.support.objects.reviews import review
from tests.support.webhook_app import ask
from webhooks.jobset.handlers import MUTATE_PATH, VALIDATE_PATH, jobset_handlers
from webhooks.review import AdmissionRequest
from webhooks.review_log import identity_fields
from webhooks.router import create_app

APP = create_app(jobset_handlers(engine(FeatureGates())), validating_paths={VALIDATE_PATH})
META = {"name": "train", "uid": "8f0e0c4e-1", "generation": 3}
SECRET = "hunter2 !"


@pytest.fixture
def written(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Level, message and fields of each line."""
    lines: list[dict[str, Any]] = []

    def keep(record: logging.LogRecord) -> bool:
        if record.name == "webhooks.review_log":
            lines.append({"level": record.levelname, "msg": record.getMessage(), **log_fields.current.get()})
        return True

    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(caplog.handler, "filters", [keep])
    return lines


async def test_an_admitted_jobset_is_a_line_with_the_identity_that_the_controller_logs(written: list[dict[str, Any]]):
    js = stored(jobset())
    js["metadata"] = META
    response = await ask(review(js), app=APP)
    assert response["auditAnnotations"] == {"request-uid": "u1"}, "the audit log has no other UID of the review"
    assert written == [
        {
            "level": "INFO",
            "msg": "admitted CREATE default/train",
            "webhook": VALIDATE_PATH,
            "requestUID": "u1",
            "namespace": "default",
            **META,
        }
    ]


async def test_a_dry_run_is_said_to_be_one(written: list[dict[str, Any]]):
    body = review(stored(jobset()))
    body["request"]["dryRun"] = True
    await ask(body, app=APP)
    assert written[0]["msg"] == "admitted CREATE default/train (dry run)"


async def test_a_refusal_is_a_line_with_its_rules_and_without_its_words(written: list[dict[str, Any]]):
    await ask(review(stored(jobset(managedBy=SECRET))), app=APP)
    said = "refused CREATE default/train: 422 Invalid: managed-by-form"
    assert (written[0]["level"], written[0]["msg"]) == ("INFO", said)
    assert SECRET not in str(written)


async def test_what_does_not_decide_is_logged_at_debug_and_not_audited(written: list[dict[str, Any]]):
    response = await ask(review(jobset()), MUTATE_PATH, APP)
    assert (written[0]["level"], written[0]["webhook"]) == ("DEBUG", MUTATE_PATH)
    assert "auditAnnotations" not in response


async def test_a_refusal_that_hides_the_object_from_others_is_logged_at_info(written: list[dict[str, Any]]):
    await ask(review(jobset(managedBy="", ttlSecondsAfterFinished="soon")), MUTATE_PATH, APP)
    said = "refused CREATE default/train: 422 Invalid: managed-by-empty, schema-type"
    assert (written[0]["level"], written[0]["msg"]) == ("INFO", said)


async def test_the_fields_end_with_the_review(written: list[dict[str, Any]]):
    await ask(review(stored(jobset())), app=APP)
    assert log_fields.current.get() == {}


@pytest.mark.parametrize(
    ("metadata", "fields"),
    [
        ({"name": "train\nlevel=error", "uid": "x" * 300, "generation": True}, {"name": "?", "uid": "?"}),
        ({"name": ["train"], "uid": {}, "generation": "3"}, {"name": "?"}),
        ({"generation": 2**70}, {"name": "of-the-request"}),
        ({"generation": -1}, {"name": "of-the-request"}),
        (None, {"name": "of-the-request"}),
        ("train", {"name": "of-the-request"}),
    ],
)
def test_only_what_can_be_a_name_a_uid_or_a_number_is_taken(metadata: Any, fields: dict[str, Any]):
    request = AdmissionRequest(uid="u1", namespace="a b", name="of-the-request", object={"metadata": metadata})
    assert identity_fields(request) == {"requestUID": "u1", "namespace": "?", **fields}


def test_of_a_deletion_the_old_object_is_named():
    request = AdmissionRequest(uid="u1", operation="DELETE", old_object={"metadata": META})
    assert identity_fields(request) == {"requestUID": "u1", "namespace": "", **META}
